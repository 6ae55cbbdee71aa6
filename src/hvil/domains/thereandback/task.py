"""There and back as a task: demonstrations of its teacher, and the environment to try a policy in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium

from hvil.data.streams import random_generator
from hvil.data.tasks import STRUCTURE_SEARCH, Quantity, Task
from hvil.data.traces import Traces
from hvil.domains.recursive import self_calling
from hvil.domains.thereandback.teacher import ACTIONS, CELLS, DEFAULT_CELLS, OBSERVATIONS, teach


@dataclass(frozen=True)
class ThereAndBackTask(Task):
    """A walk to a wall, `cells[0]` to `cells[1]` free cells away, and back, as a task with its teacher."""

    forms: ClassVar[str] = "thereandback (thereandback:6-30)"

    cells: tuple[int, int] = DEFAULT_CELLS

    def __post_init__(self) -> None:
        """Refuse ranges that are not in order or too large."""
        CELLS.check(*self.cells)

    @classmethod
    def from_argument(cls, argument: str) -> "ThereAndBackTask":
        """The task with the argument of `thereandback:…`: nothing, or a range of cells such as `6-30`."""
        return cls(CELLS.from_argument(argument, DEFAULT_CELLS))

    @property
    def name(self) -> str:
        """`thereandback`, with a range that is not the default after a colon."""
        return CELLS.task_name(self.cells, DEFAULT_CELLS)

    @property
    def action_names(self) -> tuple[str, ...]:
        """`move` and `turn`."""
        return ACTIONS

    @property
    def observation_names(self) -> tuple[str, ...]:
        """Whether the cell in front is free."""
        return OBSERVATIONS

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Whether the cell in front is free."""
        return (Quantity("front_is_clear", "observation[..., 0] > 0.5", "truth"),)

    @property
    def default_call_graph(self) -> Mapping[str, Any]:
        """One procedure that calls itself. The teacher's stack is one higher than there are cells; two are spare."""
        return self_calling(self.cells[1] + 3)

    @property
    def defaults(self) -> Mapping[str, Any]:
        """40 demonstrations and a small network; the counter goes as far as a procedure's four steps."""
        search = {**STRUCTURE_SEARCH, "counter": "hot4", "exact_start": 400, "updates": 600}
        return {"demos": 40, "updates": 1_000, "hidden": 32, "hvil": search}

    def demonstrations(self, count: int, seed: int, progress: Callable[[int], None] | None = None) -> Traces:
        """Teacher traces for random numbers of cells; the first traces of a larger count are those of a smaller one."""
        low, high = self.cells
        cells = low + (random_generator(seed).random(count) * (high - low + 1)).astype("int64")
        traces = teach(cells, high, {"task": self.name})
        if progress is not None:
            progress(count)
        return traces

    def environment(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        """`hvil/ThereAndBack-v0` with this task's numbers of cells."""
        return gymnasium.make(
            "hvil/ThereAndBack-v0", disable_env_checker=True, render_mode=render_mode, cells=self.cells
        )

    def reset_options(self, traces: Traces, index: int) -> dict[str, Any]:
        """The number of cells of trace `index`."""
        return {"cells": int(traces.metadata["cells"][index])}
