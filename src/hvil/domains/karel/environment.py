"""Karel as a Gymnasium environment; pictures are drawn in `drawing`."""

from typing import Any, SupportsInt

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from jaxtyping import Float32

from hvil.data.tasks import terminate_action
from hvil.domains.karel.compiler import Worlds, compile_program, run
from hvil.domains.karel.generator import draw_world
from hvil.domains.karel.interpreter import Outcome
from hvil.domains.karel.programs import named_or_source
from hvil.domains.karel.syntax import ACTIONS, OBSERVATIONS, Program
from hvil.domains.karel.world import Crash, World
from hvil.gate.errors import InputError

_TERMINATE = terminate_action(ACTIONS)
Observation = Float32[np.ndarray, "4"]


class KarelEnv(gymnasium.Env[Float32[np.ndarray, "4"], np.int64]):
    """A robot in a walled grid with markers; the task is to leave the grid as a given program would.

    ## Description
    The world is a grid of 2 to 16 by 2 to 16 cells inside outer walls. A cell is a wall or holds 0 to 10 markers. The
    robot stands on a free cell and faces north, east, south or west. A program in the Karel language is the teacher:
    the agent succeeds if it terminates with the same grid and the same robot as the program would.

    ## Action Space
    `Discrete(6)`: 0 `move`, 1 `turnLeft`, 2 `turnRight`, 3 `pickMarker`, 4 `putMarker`, 5 terminate.

    ## Observation Space
    `Box(0, 1, (4,), float32)`, each 0 or 1: `frontIsClear`, `leftIsClear`, `rightIsClear`, `markersPresent`.

    ## Rewards
    1 when the agent terminates successfully, else 0.

    ## Starting State
    A random grid, drawn as for demonstrations, on which the program acts and finishes without a crash; or the one
    given: `reset(options={"world": world})` takes a `World` or its text form.

    ## Episode End
    Terminated by action 5, or by a crash: moving into a wall, picking where there is no marker, putting a marker on 10.
    Truncated after 1,000 steps, when made with `gymnasium.make`. `info["success"]` is true only at a successful end;
    after a crash `info["crash"]` says what happened.

    ## Arguments
    `program`: A to F, the source of a program in either form, or a parsed `Program` (default F).
    `render_mode`: None, `ansi` or `rgb_array`.

    ## Version History
    v0: first version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(self, program: str | Program = "F", render_mode: str | None = None) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise InputError(f"render_mode {render_mode!r}: expected one of ansi, rgb_array or None")
        self.program = named_or_source(program) if isinstance(program, str) else program
        self.render_mode = render_mode
        self.action_space = Discrete(len(ACTIONS) + 1)
        self.observation_space = Box(0.0, 1.0, (len(OBSERVATIONS),), np.float32)
        self.world = World.from_text("> .\n. 1")
        """The current state. An interpreter may drive it; `reset` replaces it."""
        self._initial = self.world.copy()
        self._code = compile_program(self.program)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start a new episode, on the world in `options` if there is one."""
        super().reset(seed=seed)
        world = (options or {}).get("world")
        if isinstance(world, str):
            world = World.from_text(world)
        if world is not None and not isinstance(world, World):
            raise InputError(f"options['world']: expected a World or its text, found {type(world).__name__}")
        self._initial = draw_world(self.np_random, self._code) if world is None else world.copy()
        self.world = self._initial.copy()
        return self._observation(), {"success": False}

    def step(self, action: SupportsInt) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Do one action, or end the episode."""
        number = int(action)
        info: dict[str, Any] = {"success": False}
        terminated = number == _TERMINATE
        if terminated:
            info["success"] = self.world == self.teacher_result()
        else:
            try:
                self.world.perform(number)
            except Crash as crash:
                terminated = True
                info["crash"] = str(crash)
        return self._observation(), float(info["success"]), terminated, False, info

    def teacher_result(self) -> World | None:
        """The world that the program makes of this episode's initial one; None if it does not finish there."""
        robot = np.array([[self._initial.row, self._initial.column, self._initial.orientation]], dtype=np.int16)
        runs = run(self._code, Worlds(self._initial.cells[None], robot))
        if runs.outcomes[0] != Outcome.FINISHED:
            return None
        return World(runs.final.cells[0], *(int(number) for number in runs.final.robots[0]))

    def render(self) -> Any:
        """The current world as text or as a picture, by the render mode."""
        from hvil.domains.karel import drawing  # here, for a fast start: it loads Pillow

        if self.render_mode == "ansi":
            return drawing.text(self.world)
        if self.render_mode == "rgb_array":
            return drawing.picture(self.world)
        gymnasium.logger.warn("KarelEnv.render needs a render_mode: ansi or rgb_array")
        return None

    def _observation(self) -> Observation:
        return np.array(self.world.observation(), dtype=np.float32)
