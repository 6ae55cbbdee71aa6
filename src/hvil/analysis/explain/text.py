"""Runs a program as its text says, along recorded observations: the fidelity that is printed is that of the text.

The names that the text reads (observations, `counter`, `last`) are globals that change with every step.
"""

import ast
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from hvil.analysis.explain.episodes import CUT
from hvil.analysis.explain.synthesis import END
from hvil.analysis.explain.vocabulary import COUNTER, LAST, Vocabulary

IDLE = 10_000
"""Rounds of loops without an action after which a program is stuck."""
_TICK = "_tick"


class _Stop(Exception):
    """The episode is over: the program left it, or it was cut."""


class _Ticking(ast.NodeTransformer):
    """Counts the rounds of every loop, so that one that does nothing for ever can be stopped."""

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        call = ast.Expr(ast.Call(ast.Name(_TICK, ast.Load()), [], []))
        node.body.insert(0, call)
        return ast.fix_missing_locations(node)


class TextProgram:
    """A program's text, ready to run."""

    def __init__(self, source: str, words: Vocabulary, root: str, values: Mapping[str, Sequence[float]]) -> None:
        """Compile the text.

        Args:
            source: as `printing` writes it.
            words: its vocabulary.
            root: the name of the procedure to begin with.
            values: each quantity at each row.
        """
        self._values = list(values.items())
        self._globals: dict[str, Any] = {"__builtins__": {"range": range}, _TICK: self._tick}
        self._frames: list[tuple[int, object]] = []
        for number, name in enumerate(words.actions):
            self._globals[name] = self._action(number)
        tree = _Ticking().visit(ast.parse(source))
        exec(compile(tree, "<program>", "exec"), self._globals)
        for name in words.procedures:
            if name in self._globals:
                self._globals[name] = self._called(self._globals[name])
        self._root: Callable[[], None] = self._globals[root]

    def agrees(self, first: int, actions: Sequence[int]) -> bool:
        """Whether the program takes these actions (`END` for the end) on the rows from `first` on."""
        self._row, self._first, self._wanted = first, first, actions
        self._right, self._idle = True, 0
        self._frames.clear()
        self._look()
        try:
            self._sense()
            self._root()
            self._take(END)
        except _Stop:
            pass
        return self._right

    def _take(self, step: int) -> None:
        """Compare with what is wanted here, and go on to the next row."""
        wanted = self._wanted[self._row - self._first]
        self._right = step == wanted
        self._row += 1
        self._idle = 0
        if not self._right or step == END or self._row - self._first == len(self._wanted):
            raise _Stop

    def _sense(self) -> None:
        if self._wanted[self._row - self._first] == CUT:
            raise _Stop
        for name, column in self._values:
            self._globals[name] = column[self._row]

    def _action(self, number: int) -> Callable[[], None]:
        def action() -> None:
            self._took(action)
            self._take(number)
            self._sense()

        return action

    def _called(self, procedure: Callable[[], None]) -> Callable[[], None]:
        def called() -> None:
            if self._frames:
                self._took(called)
            self._frames.append((0, None))
            self._look()
            procedure()
            self._frames.pop()
            self._look()

        return called

    def _took(self, step: object) -> None:
        self._frames[-1] = self._frames[-1][0] + 1, step
        self._look()

    def _look(self) -> None:
        if self._frames:
            self._globals[COUNTER], self._globals[LAST] = self._frames[-1]

    def _tick(self) -> None:
        self._idle += 1
        if self._idle > IDLE:
            self._right = False
            raise _Stop


def text_agreement(
    program: TextProgram, offsets: Int[np.ndarray, "N_plus_1"], actions: Int[np.ndarray, "R"]
) -> Bool[np.ndarray, "N"]:
    """In which episodes the text takes exactly the given actions, the end included."""
    ends, flat = offsets.tolist(), actions.tolist()
    return np.array([program.agrees(a, flat[a:b]) for a, b in itertools.pairwise(ends)], dtype=bool)
