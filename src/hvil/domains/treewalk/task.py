"""The tree walk as a task: demonstrations of its teacher on random trees, and the environment to try a policy in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np

from hvil.data.streams import random_generator
from hvil.data.tasks import STRUCTURE_SEARCH, Quantity, Task
from hvil.data.traces import Traces
from hvil.domains.recursive import self_calling
from hvil.domains.treewalk.teacher import ACTIONS, OBSERVATIONS, teach
from hvil.domains.treewalk.trees import DEFAULT_NODES, NODES, random_trees


@dataclass(frozen=True)
class TreeWalkTask(Task):
    """A depth-first walk over a binary tree of `nodes[0]` to `nodes[1]` nodes, as a task with its teacher."""

    forms: ClassVar[str] = "treewalk (treewalk:7-30)"

    nodes: tuple[int, int] = DEFAULT_NODES

    def __post_init__(self) -> None:
        """Refuse ranges that are not in order or too large."""
        NODES.check(*self.nodes)

    @classmethod
    def from_argument(cls, argument: str) -> "TreeWalkTask":
        """The task with the argument of `treewalk:…`: nothing, or a range of nodes such as `7-30`."""
        return cls(NODES.from_argument(argument, DEFAULT_NODES))

    @property
    def name(self) -> str:
        """`treewalk`, with a range that is not the default after a colon."""
        return NODES.task_name(self.nodes, DEFAULT_NODES)

    @property
    def action_names(self) -> tuple[str, ...]:
        """`mark`, and the ways to the neighbours."""
        return ACTIONS

    @property
    def observation_names(self) -> tuple[str, ...]:
        """Which children the current node has."""
        return OBSERVATIONS

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Which children the current node has, as truth values."""
        return tuple(Quantity(name, f"observation[..., {i}] > 0.5", "truth") for i, name in enumerate(OBSERVATIONS))

    @property
    def default_call_graph(self) -> Mapping[str, Any]:
        """One procedure that calls itself. The teacher's stack is at most as high as there are nodes; two are spare."""
        return self_calling(self.nodes[1] + 2)

    @property
    def defaults(self) -> Mapping[str, Any]:
        """40 demonstrations and a small network; the counter tells the fourth step from those after it."""
        search = {**STRUCTURE_SEARCH, "counter": "hot4", "exact_start": 400, "updates": 600}
        return {"demos": 40, "updates": 1_000, "hidden": 32, "hvil": search}

    def demonstrations(self, count: int, seed: int, progress: Callable[[int], None] | None = None) -> Traces:
        """Teacher traces on random trees; the first traces of a larger count are those of a smaller one."""
        low, high = self.nodes
        draws = random_generator(seed).random((count, 1 + high))
        sizes = low + (draws[:, 0] * (high - low + 1)).astype(np.int64)
        traces = teach(random_trees(sizes, draws[:, 1:]), {"task": self.name})
        if progress is not None:
            progress(count)
        return traces

    def environment(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        """`hvil/TreeWalk-v0` with this task's numbers of nodes."""
        return gymnasium.make("hvil/TreeWalk-v0", disable_env_checker=True, render_mode=render_mode, nodes=self.nodes)

    def reset_options(self, traces: Traces, index: int) -> dict[str, Any]:
        """The tree of trace `index`."""
        tree = traces.metadata["tree"][index]
        return {"tree": tree[tree >= 0].tolist()}
