"""What figures share: how the paper trains every model, and how we train HVIL."""

from collections.abc import Mapping
from typing import Any

from hvil.data.tasks import find_task
from hvil.training.plan import task_defaults

CEILING, PAPERS = "ceiling: annotated traces", "HVIL, the paper's settings"
FEEDFORWARD, STACK_RNN = "feed-forward", "Stack-RNN"

TRAINING: Mapping[str, Any] = {
    "context": 32,
    "learning_rate": 1e-3,
    "weight_decay": 1e-3,
    "entropy_weight": 1.0,
    "entropy_decay": 0.7,
}
"""Adam with PyTorch's learning rate and the paper's weight decay, its inference model, and the entropy weight that it
gives for bubble sort. Each figure says how many updates there are, and after how many the entropy weight falls."""

AUTHORS: Mapping[str, Any] = {"updates": 10_000, "entropy_decay_interval": 500}
"""How long the authors' program trains on bubble sort. The paper says 100K steps, and that the entropy weight falls
every 5K; in their program a step is a trace, so with batches of ten traces these are 10,000 updates. Of Karel the paper
does not say it, so the Karel figures have the same."""

GIVEN: Mapping[str, Any] = {"annotations": "use", "exact_start": 0, "restarts": 1}
"""What differs in the ceiling: HVIL that is trained on the teacher's own call structure has nothing to search for."""

TEST_RUNS = 2000
"""The first run on training sets that played no part in the choice of a setting (docs/training.md)."""


def frozen_search(task: str) -> dict[str, Any]:
    """A task's defaults for HVIL, which find its structure. Which traces an exact start has, the planner decides."""
    defaults = task_defaults(find_task(task), "hvil")
    return {name: value for name, value in defaults.items() if name != "exact_length"}
