"""A domain as a user writes one, outside the package: a robot walks to the end of a corridor and turns round."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np

from hvil.data.streams import random_generator
from hvil.data.tasks import Quantity, Task, terminate_action
from hvil.data.traces import Traces
from hvil.gate.errors import InputError

ACTIONS = ("move", "turn")
MOVE, TURN = range(len(ACTIONS))


class CorridorEnv(gymnasium.Env[np.ndarray, int]):
    """The world: how many free cells are ahead, and how often the robot has turned."""

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's name)

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self.action_space = gymnasium.spaces.Discrete(len(ACTIONS) + 1)
        self.observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
        self.ahead = self.turns = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.ahead = options["ahead"] if options else int(self.np_random.integers(1, self.longest + 1))
        self.turns = 0
        return self._observation(), {}

    def step(self, action: Any) -> Any:
        if action == terminate_action(ACTIONS):
            success = (self.ahead, self.turns) == (0, 1)
            return self._observation(), float(success), True, False, {"success": success}
        if action == MOVE:
            self.ahead = max(self.ahead - 1, 0)
        else:
            self.turns += 1
        return self._observation(), 0.0, False, False, {}

    def _observation(self) -> np.ndarray:
        return np.array([self.ahead > 0], dtype=np.float32)


class CorridorTask(Task):
    """Walk to the wall, turn, stop; `corridor:N` has at most N free cells."""

    forms: ClassVar[str] = "corridor, corridor:N"

    def __init__(self, longest: int = 4) -> None:
        self.longest = longest

    @classmethod
    def from_argument(cls, argument: str) -> "CorridorTask":
        if argument and not argument.isdecimal():
            raise InputError(f"corridor:{argument}: expected the number of cells, such as corridor:6")
        return cls(int(argument)) if argument else cls()

    @property
    def name(self) -> str:
        return f"corridor:{self.longest}"

    @property
    def action_names(self) -> tuple[str, ...]:
        return ACTIONS

    @property
    def observation_names(self) -> tuple[str, ...]:
        return ("front_is_clear",)

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        return (Quantity("front_is_clear", "observation[..., 0] > 0.5", "truth"),)

    @property
    def default_call_graph(self) -> str:
        return "chain:2"

    @property
    def defaults(self) -> Mapping[str, Any]:
        return {"demos": 12, "updates": 5, "hidden": 8}

    def demonstrations(self, count: int, seed: int, progress: Callable[[int], None] | None = None) -> Traces:
        cells = random_generator(seed).integers(1, self.longest + 1, size=count)
        return Traces.from_episodes(
            [np.array([[1.0]] * n + [[0.0]] * 2, dtype=np.float32) for n in cells],
            [np.array([MOVE] * n + [TURN]) for n in cells],
            ACTIONS,
            self.observation_names,
            metadata={"ahead": cells},
            attributes={"task": self.name},
        )

    def environment(self, render_mode: str | None = None) -> CorridorEnv:
        return CorridorEnv(self.longest)

    def reset_options(self, traces: Traces, index: int) -> dict[str, Any]:
        return {"ahead": int(traces.metadata["ahead"][index])}
