"""A program as a policy: the printed text acts, in one environment or in many, wherever a network's policy can.

Letters: M environments, N traces.
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from hvil.analysis.explain.interpreter import STUCK, Memory
from hvil.analysis.explain.text import TextProgram
from hvil.analysis.explain.vocabulary import Vocabulary
from hvil.data.reading import ObservationReader
from hvil.data.traces import Traces
from hvil.gate.errors import InputError


class ProgramPolicy:
    """The text of a program, with a memory for each environment (`hvil.learners.learner.Policy`)."""

    def __init__(
        self, source: str, words: Vocabulary, action_names: tuple[str, ...], reader: ObservationReader
    ) -> None:
        """Begin one episode.

        Args:
            source: the text, as `printing` writes it.
            words: its vocabulary.
            action_names: the actions as the traces name them.
            reader: what turns observations into numbers.
        """
        self.source = source
        self.action_names = action_names
        self.width = reader.width
        self._reader = reader
        self._text = TextProgram(source, words)
        self.reset()

    def reset(self, count: int | None = None, seed: int = 0) -> None:
        """Begin new episodes: one environment with single observations, or a batch of `count`; nothing is random."""
        if count is not None and count < 1:
            raise InputError(f"a batch has at least one environment, not {count}")
        self._single = count is None
        self._memories: list[Memory | None] = [None] * (count or 1)

    @property
    def stuck(self) -> Bool[np.ndarray, "M"]:
        """In which environments the program does nothing for ever. It then says ∅ there, which counts as wrong."""
        return np.array([memory == STUCK for memory in self._memories], dtype=bool)

    def act(self, observation: Any, greedy: bool = True) -> Any:
        """The next action (an int, or an array of them); the number of actions once the program has ended."""
        count = len(self._memories)
        array = self._reader(observation, count, self._single)
        done = self._text.act(array.reshape(count, self.width), self._memories)
        self._memories = [memory for _, memory in done]
        actions: Int[np.ndarray, "M"] = np.array([action for action, _ in done], dtype=np.int64)
        return int(actions[0]) if self._single else actions

    def wrong(self, traces: Traces) -> Bool[np.ndarray, "N"]:
        """Whether the program, run along each teacher trace, does something else at some time (∅ included)."""
        if traces.action_names != self.action_names:
            theirs, own = ", ".join(traces.action_names), ", ".join(self.action_names)
            raise InputError(f"the traces have the actions {theirs}; the program has {own}")
        if np.prod(traces.observation_shape) != self.width:
            raise InputError(
                f"the traces' observations of shape {traces.observation_shape} do not fit: the program takes "
                f"{self.width} numbers"
            )
        observations = traces.observations.reshape(len(traces.observations), -1)
        return ~self._text.agreement(observations, traces.row_offsets, traces.emitted())
