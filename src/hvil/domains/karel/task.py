"""Karel as a task: demonstrations of a program with its call structure, and the environment to try a policy in."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from hvil.data.tasks import STRUCTURE_SEARCH, Quantity, Task
from hvil.data.traces import Annotations, Traces
from hvil.domains.karel.environment import KarelEnv
from hvil.domains.karel.generator import MAX_DRAWS, cut_world, generate
from hvil.domains.karel.interpreter import procedure_calls
from hvil.domains.karel.printer import print_program
from hvil.domains.karel.programs import HIERARCHICAL, NAMED, named_or_file
from hvil.domains.karel.syntax import ACTIONS, OBSERVATIONS
from hvil.gate.errors import InputError, one_line


class KarelTask(Task):
    """A Karel program as the teacher.

    The annotation is the program's own structure: the procedure `run`, and one procedure for each loop body or branch.
    An invocation that takes no action leaves no mark, because a procedure of the policy cannot return without acting.
    Nothing is lost: the observations that decide whether it acts are seen by its caller as well.
    """

    forms: ClassVar[str] = f"karel:A to karel:F, karel:NAME ({', '.join(HIERARCHICAL)}), karel:FILE (a Karel program)"

    def __init__(self, argument: str, max_draws: int = MAX_DRAWS) -> None:
        """Name the program.

        Args:
            argument: a name (A to F, square, …), or the path of a file with a program in either form.
            max_draws: random grids without a new group of demonstrations after which the generator gives up.
        """
        self.program = named_or_file(argument)
        self.max_draws = max_draws
        self._name = f"karel:{argument}"

    @classmethod
    def from_argument(cls, argument: str) -> "KarelTask":
        """The task with the argument of `karel:…`: the name of a program, or a file."""
        if not argument:
            raise InputError(f"karel: which program? Expected {cls.forms}")
        return cls(argument)

    @property
    def name(self) -> str:
        """`karel:F`."""
        return self._name

    @property
    def contents(self) -> str:
        """The program, if it is from a file."""
        return "" if self._name.removeprefix("karel:") in NAMED else print_program(self.program, one_line=True)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The five actions of the robot."""
        return ACTIONS

    @property
    def observation_names(self) -> tuple[str, ...]:
        """The four sensors of the robot."""
        return OBSERVATIONS

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """The four sensors as truth values."""
        return tuple(Quantity(name, f"observation[..., {i}] > 0.5", "truth") for i, name in enumerate(OBSERVATIONS))

    @property
    def default_call_graph(self) -> str:
        """A tree of depth 2 with 5 children: the paper's six procedures."""
        return "tree:5x2"

    @property
    def defaults(self) -> Mapping[str, Any]:
        """10 demonstrations and the paper's network sizes."""
        return {
            "demos": 10,
            "updates": 2_000,
            "hidden": 256,
            "entropy_decay_interval": 100,
            "layers": 2,
            "hvil": {**STRUCTURE_SEARCH, "updates": 1_000},
        }

    @property
    def teacher_call_graph(self) -> dict[str, Any]:
        """Who calls whom in the program itself: the graph that the annotations fit."""
        calls = procedure_calls(self.program)
        return {"root": "run", "procedures": {name: {"calls": callees} for name, callees in calls.items()}}

    def demonstrations(self, count: int, seed: int, progress: Callable[[int], None] | None = None) -> Traces:
        """Runs of the program on random grids, in groups of five that together cover the program."""
        try:
            generated = generate(self.program, count, seed, progress, self.max_draws)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from error
        recording, worlds = generated.recording, generated.grids.worlds
        return Traces(
            observations=recording.observations,
            actions=recording.actions,
            offsets=recording.offsets,
            action_names=ACTIONS,
            observation_names=OBSERVATIONS,
            annotations=Annotations(generated.code.procedures, recording.stacks, recording.kept),
            metadata={"cells": worlds.cells, "robot": worlds.robots, "size": generated.grids.sizes},
            attributes={"task": self.name, "program": print_program(self.program, one_line=True)},
        )

    def environment(self, render_mode: str | None = None) -> KarelEnv:
        """The environment of this program."""
        return KarelEnv(self.program, render_mode)

    def reset_options(self, traces: Traces, index: int) -> dict[str, Any]:
        """The initial world of a trace."""
        try:
            cells, robot, size = (traces.metadata[name][index] for name in ("cells", "robot", "size"))
        except KeyError as error:
            raise InputError(f"{self.name}: the traces hold no initial worlds (metadata {error})") from error
        try:
            world = cut_world(np.asarray(cells), np.asarray(robot), np.asarray(size))
            world.check()
        except (TypeError, ValueError, IndexError, OverflowError) as error:
            reason = one_line(error, 200)
            raise InputError(f"{self.name}: trace {index} has no initial world ({reason})") from error
        return {"world": world}
