"""The runtime of a program's text: frames of procedures, names that change with every step, a guard against idle loops.

A program is Python functions without arguments. Actions and procedures are called by name, and conditions read names
(`front_is_clear`, `counter`, `last`). A `Stage` gives these names their values in the namespace of the program. What an
action does is left to a world: `text` has recorded episodes, and a file of `hvil explain --python` has a `Live`
environment. Both run on this one stage, so that the written file does what was measured.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np

from hvil.analysis.explain.vocabulary import COUNTER, LAST

IDLE_LIMIT = 10_000
"""Instructions without an action after which a program counts as stuck: far more than a printable program has."""
ACTION_LIMIT = 10_000
"""Actions after which a live episode is given up."""


class Ended(Exception):
    """The episode is over before the program is."""


class Stuck(Ended):
    """The program does nothing for ever, or calls procedures without end."""


@runtime_checkable
class World(Protocol):
    """What a program acts in."""

    def observed(self) -> Mapping[str, object]:
        """The names of what is observed now, with their values."""

    def act(self, action: int) -> None:
        """Take an action; raises `Ended` if that ends the episode."""


class Stage:
    """Procedures that can be played in a world."""

    def __init__(self, namespace: dict[str, Any], actions: Sequence[str], procedures: Sequence[str]) -> None:
        """Give the procedures of a namespace their frames, and add the actions.

        Args:
            namespace: holds the functions of the procedures; the program reads all its names there.
            actions: names of the actions, in the order of their numbers.
            procedures: names of the procedures, the root first.
        """
        self._namespace = namespace
        self._frames: list[tuple[int, object]] = []
        self._idle = 0
        self._world: World
        for number, name in enumerate(actions):
            namespace[name] = self._action(number)
        for name in procedures:
            namespace[name] = self._procedure(namespace[name])
        self._root: Callable[[], None] = namespace[procedures[0]]

    def play(self, world: World) -> None:
        """Run the root from its start to its end; raises `Ended` if the episode is over before."""
        self._world, self._idle = world, 0
        self._frames.clear()
        self._namespace.update(world.observed())
        try:
            self._root()
        except RecursionError as error:
            raise Stuck from error

    def tick(self) -> None:
        """Count something that was done without an action; raises `Stuck` if it was too much."""
        self._idle += 1
        if self._idle > IDLE_LIMIT:
            raise Stuck

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        """A function for `sys.settrace` that lets every line of the program tick."""
        if frame.f_globals is not self._namespace:
            return None
        self.tick()
        return self.trace

    def _action(self, number: int) -> Callable[[], None]:
        def action() -> None:
            self._count_step(action)
            self._idle = 0
            self._world.act(number)
            self._namespace.update(self._world.observed())

        return action

    def _procedure(self, body: Callable[[], None]) -> Callable[[], None]:
        def procedure() -> None:
            if self._frames:
                self._count_step(procedure)
            self._frames.append((0, None))
            self._show_frame()
            body()
            self._frames.pop()
            self._show_frame()

        return procedure

    def _count_step(self, step: object) -> None:
        self._frames[-1] = self._frames[-1][0] + 1, step
        self._show_frame()

    def _show_frame(self) -> None:
        if self._frames:
            self._namespace[COUNTER], self._namespace[LAST] = self._frames[-1]


class Live:
    """A task's environment as a world."""

    def __init__(
        self, environment: "gymnasium.Env[Any, Any]", observe: Callable[[np.ndarray], Mapping[str, object]]
    ) -> None:
        """Wrap an environment.

        Args:
            environment: of a task: its last action is ∅.
            observe: from a flat observation to named values.
        """
        self._environment, self._observe = environment, observe
        self._observation: Any = None
        self._taken = 0

    def observed(self) -> Mapping[str, object]:
        """The names of what is observed now, with their values."""
        return self._observe(np.asarray(self._observation).ravel())

    def act(self, action: int) -> None:
        """Take an action in the environment."""
        self._observation, _, terminated, truncated, _ = self._environment.step(action)
        self._taken += 1
        if terminated or truncated or self._taken > ACTION_LIMIT:
            raise Ended

    def succeeds(self, stage: Stage, seed: int) -> bool:
        """Play one episode and say whether the environment calls its end a success."""
        self._observation, _ = self._environment.reset(seed=seed)
        self._taken = 0
        try:
            # The functions of a file are compiled already: their loops cannot be made to tick as in `text`.
            sys.settrace(stage.trace)
            stage.play(self)
        except Ended:
            return False
        finally:
            sys.settrace(None)
        assert isinstance(self._environment.action_space, gymnasium.spaces.Discrete)
        terminate = int(self._environment.action_space.n) - 1
        return bool(self._environment.step(terminate)[4].get("success", False))
