"""The episodes of a page: each recorded episode by itself, how often procedures are called, and which ones to show.

Letters: S PHP steps, U choices.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from hvil.analysis.episodes import CUT, Episodes, Result
from hvil.data.traces import Traces
from hvil.machine.callgraph import CallGraph
from hvil.machine.steps import Steps


class Episode(NamedTuple):
    """What the policy did from the start of one trace."""

    trace: int
    """Index of the trace."""
    result: Result
    observations: Shaped[np.ndarray, "rows ..."]
    """What the policy saw at each time."""
    emitted: list[int]
    """What it did at each time: actions, and ∅ if it ended the episode itself."""
    teacher: list[int]
    """What the teacher did, ∅ at the end."""
    steps: Steps | None
    """The PHP steps; their rows count from the start of the episode, so a row is a time."""
    policy: Float[np.ndarray, "S U"] | None = None
    """Probability of each choice under p; NaN if impossible. A policy without procedures has one step at each time."""
    posterior: Float[np.ndarray, "S U"] | None = None
    """Under q, which has seen the teacher's whole trace; rows of NaN where the episode has left that trace."""

    @property
    def actions(self) -> list[int]:
        """What the policy did, without the ∅ at the end."""
        terminate = self.teacher[-1]
        return [action for action in self.emitted if action != terminate]

    @property
    def choices(self) -> list[int]:
        """The choice of each step."""
        return self.emitted if self.steps is None else self.steps.choice.tolist()

    @property
    def times(self) -> list[int]:
        """The time of each step: how many actions were taken before it."""
        return list(range(len(self.emitted))) if self.steps is None else self.steps.row.tolist()

    @property
    def divergence(self) -> int | None:
        """The first time at which the policy did not do what the teacher did."""
        pairs = zip(self.emitted, self.teacher, strict=False)
        return next((time for time, (own, wanted) in enumerate(pairs) if own != wanted), None)


def each_episode(recorded: Episodes, traces: Traces) -> list[Episode]:
    """The recorded episodes one by one; the traces are the ones that they began from."""
    assert recorded.observations is not None
    teacher, teacher_rows = traces.emitted(), traces.row_offsets
    episodes = []
    for i, result in enumerate(recorded.results):
        first, end = recorded.row_offsets[i : i + 2].tolist()
        emitted = recorded.emitted[first:end]
        episodes.append(
            Episode(
                trace=i,
                result=result,
                observations=recorded.observations[first:end],
                emitted=emitted[emitted != CUT].tolist(),
                teacher=teacher[teacher_rows[i] : teacher_rows[i + 1]].tolist(),
                steps=None if recorded.steps is None else _steps_of(recorded.steps, i, first),
            )
        )
    return episodes


def _steps_of(steps: Steps, episode: int, first_row: int) -> Steps:
    """The steps of one episode, with rows that count from its start."""
    part = slice(*steps.offsets[episode : episode + 2].tolist())
    return Steps(
        row=steps.row[part] - first_row,
        procedure=steps.procedure[part],
        counter=steps.counter[part],
        last=steps.last[part],
        depth=steps.depth[part],
        choice=steps.choice[part],
        offsets=np.array([0, part.stop - part.start]),
    )


class Calls(NamedTuple):
    """How often each procedure called each other one, and took each action."""

    calls: Counter[tuple[int, int]]
    acts: Counter[tuple[int, int]]


def count_calls(steps: Steps, graph: CallGraph) -> Calls:
    """Count over all steps."""
    counts = Calls(calls=Counter(), acts=Counter())
    pairs = Counter(zip(steps.procedure.tolist(), steps.choice.tolist(), strict=True))
    for (procedure, choice), count in pairs.items():
        if choice > graph.terminate:
            counts.calls[procedure, graph.calls[procedure][choice - graph.terminate - 1]] += count
        elif choice < graph.terminate:
            counts.acts[procedure, choice] += count
    return counts


def selected(episodes: Sequence[Episode], count: int) -> list[Episode]:
    """Which episodes to show: a typical one of each kind that occurs, then the kinds in turn.

    The kinds are a success by the teacher's own actions, a failure, and a success by other actions.
    """
    kinds = [
        [e for e in episodes if e.result.success and e.divergence is None],
        [e for e in episodes if not e.result.success],
        [e for e in episodes if e.result.success and e.divergence is not None],
    ]
    typical = [_of_median_length(kind) for kind in kinds if kind]
    shown = {episode.trace for episode in typical}
    others = [[e for e in kind if e.trace not in shown] for kind in kinds]
    in_turn = [kind[turn] for turn in range(len(episodes)) for kind in others if turn < len(kind)]
    return [*typical, *in_turn][:count]


def _of_median_length(episodes: Sequence[Episode]) -> Episode:
    return sorted(episodes, key=lambda episode: len(episode.emitted))[len(episodes) // 2]
