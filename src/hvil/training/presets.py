"""Settings that suit each task; flags and arguments override them. A table, no control flow beyond looking up."""

from collections.abc import Mapping
from typing import Any

_TASKS: Mapping[str, Mapping[str, Any]] = {
    "bubblesort": {
        "demos": 30,
        "updates": 20_000,
        "hidden": 100,
        "entropy_weight": 0.3,
        "entropy_final": -0.01,
        "entropy_decay_interval": 1_000,
        "input_sparsity": 0.03,
        "layers": 4,
    },
    "karel": {
        "demos": 10,
        "updates": 2_000,
        "hidden": 256,
        "entropy_decay_interval": 100,
        "layers": 2,
    },
    "mnist-parity": {
        "demos": 400,
        "updates": 400,
        "network": "convnet",
        "batch_size": 20,
        "hidden": 64,
        "context": 32,
        "entropy_decay_interval": 50,
        "layers": 1,
    },
}

_MODELS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("bubblesort", "lstm"): {"last_action": False},
    ("karel", "lstm"): {"last_action": False},
    ("mnist-parity", "lstm"): {"last_action": False},
}
"""Where a learner wants something else on a task. The paper's LSTM sees observations only."""

_BEST: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("bubblesort", "lstm"): {"last_action": True, "learning_rate": 3e-3, "updates": 8_000},
    ("karel", "lstm"): {"last_action": True},
}
"""Settings of a baseline that do better than the paper's (docs/baselines.md): comparisons show both."""


def preset(task: str | None, model: str = "hvil") -> dict[str, Any]:
    """The settings for a TASK string and a learner; none for an unknown task."""
    kind = (task or "").partition(":")[0]
    return {**_TASKS.get(kind, {}), **_MODELS.get((kind, model), {})}


def best_found(task: str | None, model: str) -> dict[str, Any]:
    """What to change in a baseline's preset to have the best settings found for a task; nothing if it is the best."""
    return dict(_BEST.get(((task or "").partition(":")[0], model), {}))
