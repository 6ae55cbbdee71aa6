"""There and back as a Gymnasium environment: a robot in a corridor. Pictures are drawn in `drawing`."""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hvil.data.tasks import terminate_action
from hvil.domains.thereandback.teacher import ACTIONS, CELLS, DEFAULT_CELLS, OBSERVATIONS, TURN
from hvil.gate.errors import InputError

TO_WALL, BACK, HEADINGS = 0, 2, 4
"""The robot faces the wall, a side, the way back, the other side; a turn goes from one to the next."""


class ThereAndBackEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Walk to the wall and back to where you began.

    ## Description
    A corridor with a wall at one end. The robot faces the wall, with n free cells before it (n uniform in 0..5). Behind
    it the corridor goes on for ever, so on the way back nothing shows where it began: the number of steps has to be
    remembered.

    ## Action space
    `Discrete(3)`: 0 `move` (one cell forward), 1 `turn` (a quarter turn to the left), 2 `terminate` (see
    `hvil.data.tasks`).

    ## Observation space
    `Box` of one number: 1 if the cell in front is free, else 0. The sides of the corridor are walls too.

    ## Starting state
    A random number of free cells. `reset(options={"cells": 3})` starts with the given one, from 0 to 400.

    ## Rewards
    1 for a successful end, else 0.

    ## Episode end
    Terminated by the `terminate` action. It is a success (`info["success"]`) if the robot has been at the wall and
    stands on the cell where it began, facing away from the wall. Moving into a wall is a crash: it ends the episode
    without success, and `info["crash"]` says so. Truncated by the step limit.

    ## Arguments
    `cells=(0, 5)`: range of n. `render_mode`: `ansi` or `rgb_array`.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012 (Gymnasium's name)

    def __init__(self, render_mode: str | None = None, cells: tuple[int, int] = DEFAULT_CELLS) -> None:
        CELLS.check(*cells)
        self.render_mode = render_mode
        self.cells = cells
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (len(OBSERVATIONS),), np.float32)
        self.action_space = gymnasium.spaces.Discrete(len(ACTIONS) + 1)
        self._start = self._ahead = 0
        self._heading = TO_WALL
        self._been_at_wall = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start with a random number of free cells, or with `options["cells"]`."""
        super().reset(seed=seed)
        if options is not None and "cells" in options:
            self._start = _checked(options["cells"])
        else:
            self._start = int(self.np_random.integers(self.cells[0], self.cells[1] + 1))
        self._ahead, self._heading = self._start, TO_WALL
        self._been_at_wall = self._ahead == 0
        return self._observation(), {}

    def step(self, action: np.int64 | int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Move, turn, or terminate."""
        if action == terminate_action(ACTIONS):
            success = self._been_at_wall and (self._ahead, self._heading) == (self._start, BACK)
            return self._observation(), float(success), True, False, {"success": success}
        if action == TURN:
            self._heading = (self._heading + 1) % HEADINGS
        elif not self._front_is_clear:
            return self._observation(), 0.0, True, False, {"success": False, "crash": "move into a wall"}
        else:
            self._ahead += -1 if self._heading == TO_WALL else 1
            self._been_at_wall |= self._ahead == 0
        return self._observation(), 0.0, False, False, {}

    def render(self) -> Any:
        """The corridor with the robot: two lines of text, or a picture."""
        from hvil.domains.thereandback import drawing  # here, for a fast start: it loads Pillow

        if self.render_mode == "ansi":
            return drawing.print_corridor(self._start, self._ahead, self._heading)
        if self.render_mode == "rgb_array":
            return drawing.draw_corridor(self._start, self._ahead, self._heading)
        return None

    @property
    def _front_is_clear(self) -> bool:
        return self._heading == BACK or (self._heading == TO_WALL and self._ahead > 0)

    def _observation(self) -> NDArray[np.float32]:
        return np.array([self._front_is_clear], np.float32)


def _checked(cells: Any) -> int:
    if not isinstance(cells, int | np.integer) or isinstance(cells, bool) or not CELLS.lowest <= cells <= CELLS.highest:
        raise InputError(f"cells {cells!r}: expected a whole number from {CELLS.lowest} to {CELLS.highest}")
    return int(cells)
