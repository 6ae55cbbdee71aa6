"""Better settings than the paper's for its baselines (docs/baselines.md); comparisons show both."""

from collections.abc import Mapping
from typing import Any

_BEST: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("bubblesort", "lstm"): {"last_action": True, "curvature_price": 10.0, "updates": 8_000, "cooldown": 1_000},
    ("karel", "lstm"): {"last_action": True},
}


def best_found(task: str, learner: str) -> dict[str, Any]:
    """What to change in a baseline's defaults on a task; nothing if they are the best."""
    return dict(_BEST.get((task.partition(":")[0], learner), {}))
