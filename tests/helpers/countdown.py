"""A small domain from outside the package, whose environment does not draw: count down to zero, then stop."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np

from hvil.data.streams import independent_seed
from hvil.data.tasks import Quantity
from hvil.data.traces import Traces


class CountdownEnvironment(gymnasium.Env[Any, Any]):
    """Shows whether anything is left; there is no `render`, and no render mode is announced."""

    def __init__(self) -> None:
        self.left = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.left = (options or {"count": 3})["count"]
        return self._observation(), {}

    def step(self, action: int) -> Any:
        if action == 1:
            return self._observation(), float(self.left == 0), True, False, {"success": self.left == 0}
        self.left = max(0, self.left - 1)
        return self._observation(), 0.0, False, False, {}

    def _observation(self) -> np.ndarray:
        return np.array([self.left > 0], dtype=np.float32)


class CountdownTask:
    """The teacher counts down from a random number."""

    forms: ClassVar[str] = "countdown"
    name = "countdown"
    contents = ""
    action_names = ("down",)
    observation_names = ("is_left",)
    default_call_graph = "chain:2"
    defaults: ClassVar[Mapping[str, Any]] = {}
    quantities: ClassVar[tuple[Quantity, ...]] = ()

    @classmethod
    def from_argument(cls, argument: str) -> "CountdownTask":
        return cls()

    def demonstrations(self, count: int, seed: int, progress: Callable[[int], None] | None = None) -> Traces:
        counts = np.random.default_rng(seed).integers(1, 6, size=count)
        return Traces.from_episodes(
            [(np.arange(n, -1, -1) > 0).astype(np.float32)[:, None] for n in counts],
            [np.zeros(n, dtype=np.int64) for n in counts],
            self.action_names,
            self.observation_names,
            metadata={"count": counts},
            attributes={"task": self.name},
        )

    def test_demonstrations(self, count: int, seed: int, progress: Callable[[int], None] | None = None) -> Traces:
        return self.demonstrations(count, independent_seed(seed))

    def environment(self, render_mode: str | None = None) -> CountdownEnvironment:
        assert render_mode is None, "an environment that does not draw is not asked to"
        return CountdownEnvironment()

    def reset_options(self, traces: Traces, index: int) -> dict[str, Any]:
        return {"count": int(traces.metadata["count"][index])}
