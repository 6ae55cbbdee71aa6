"""Measures a program by its text: runs it along recorded episodes, exactly as it is printed.

Letters: N episodes, R rows (the observations of all episodes together), D numbers of an observation.
"""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Int, Num

from hvil.analysis.episodes import CUT
from hvil.analysis.explain.interpreter import STUCK, Interpreter, Memory
from hvil.analysis.explain.vocabulary import Vocabulary


class TextProgram:
    """The text of a program, ready to run on observations."""

    def __init__(self, source: str, words: Vocabulary) -> None:
        """Read the text.

        Args:
            source: as `printing` writes it, the root first.
            words: its vocabulary.
        """
        self._words = words
        self._interpreter = Interpreter(source, words.actions)

    def act(self, observations: Num[np.ndarray, "R D"], memories: Sequence[Memory | None]) -> list[tuple[int, Memory]]:
        """The next action at each observation, and the memory to go on with (`Interpreter.act`)."""
        values = self._words.typed_values(observations)
        return [self._interpreter.act(_observed(values, row), memory) for row, memory in enumerate(memories)]

    def agreement(
        self,
        observations: Num[np.ndarray, "R D"],
        row_offsets: Int[np.ndarray, "N_plus_1"],
        emitted: Int[np.ndarray, "R"],
    ) -> Bool[np.ndarray, "N"]:
        """In which episodes the text does exactly what was emitted at each row, including ∅ at the end."""
        values = self._words.typed_values(observations)
        actions, bounds = emitted.tolist(), itertools.pairwise(row_offsets.tolist())
        return np.array([self._agrees(values, first, actions[first:end]) for first, end in bounds], dtype=bool)

    def _agrees(
        self, values: Mapping[str, Sequence[float] | Sequence[str]], first: int, actions: Sequence[int]
    ) -> bool:
        memory: Memory | None = None
        for row, wanted in enumerate(actions, start=first):
            if wanted == CUT:
                break  # the episode was given up here: there is no action that could differ
            action, memory = self._interpreter.act(_observed(values, row), memory)
            if action != wanted or memory == STUCK:
                return False
        return True


def _observed(values: Mapping[str, Sequence[float] | Sequence[str]], row: int) -> dict[str, float | str]:
    return {name: column[row] for name, column in values.items()}
