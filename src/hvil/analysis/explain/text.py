"""Measures a program by its text: runs it along recorded episodes, as it is printed, on the stage of written files.

Letters: N episodes, R rows (the observations of all episodes together), D numbers of an observation.
"""

import ast
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Num

from hvil.analysis.episodes import CUT
from hvil.analysis.explain.stage import Ended, Stage, Stuck
from hvil.analysis.explain.vocabulary import Vocabulary

_TICK = "_tick"


class _TickingLoops(ast.NodeTransformer):
    """Makes every round of a `while` tick, because the stage must be able to stop a loop that does nothing for ever."""

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        call = ast.Expr(ast.Call(ast.Name(_TICK, ast.Load()), [], []))
        node.body.insert(0, call)
        return ast.fix_missing_locations(node)


class _RecordedEpisode:
    """Recorded observations as a world: the episode goes on while the program takes the recorded actions."""

    def __init__(self, values: Mapping[str, Sequence[float]], first: int, actions: Sequence[int]) -> None:
        self._values, self._first, self._actions = values, first, actions
        self._time = 0
        self.agrees = True

    @property
    def wanted(self) -> int:
        """The recorded action at this time."""
        return self._actions[self._time]

    def observed(self) -> Mapping[str, object]:
        row = self._first + self._time
        return {name: column[row] for name, column in self._values.items()}

    def act(self, action: int) -> None:
        self.agrees = action == self.wanted
        self._time += 1
        if not self.agrees or self._time == len(self._actions) or self.wanted == CUT:
            raise Ended


class TextProgram:
    """The text of a program, ready to run."""

    def __init__(self, source: str, words: Vocabulary, root: str) -> None:
        """Compile the text.

        Args:
            source: as `printing` writes it.
            words: its vocabulary.
            root: the name of the procedure to begin with.
        """
        self._words = words
        namespace: dict[str, Any] = {"__builtins__": {"range": range}}
        exec(compile(_TickingLoops().visit(ast.parse(source)), "<program>", "exec"), namespace)
        others = [name for name in words.procedures if name in namespace and name != root]
        self._stage = Stage(namespace, words.actions, [root, *others])
        namespace[_TICK] = self._stage.tick

    def agreement(
        self,
        observations: Num[np.ndarray, "R D"],
        row_offsets: Int[np.ndarray, "N_plus_1"],
        emitted: Int[np.ndarray, "R"],
    ) -> Bool[np.ndarray, "N"]:
        """In which episodes the text does exactly what was emitted at each row, including ∅ at the end."""
        values = self._words.typed_values(observations)
        actions, bounds = emitted.tolist(), itertools.pairwise(row_offsets.tolist())
        episodes = (_RecordedEpisode(values, first, actions[first:end]) for first, end in bounds)
        return np.array([self._agrees(episode) for episode in episodes], dtype=bool)

    def _agrees(self, episode: _RecordedEpisode) -> bool:
        if episode.wanted == CUT:
            return True  # the episode has no action that could differ
        try:
            self._stage.play(episode)
        except Stuck:
            return False
        except Ended:
            return episode.agrees
        return episode.wanted == self._words.terminate
