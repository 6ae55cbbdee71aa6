"""What a policy did, for the extraction of its program: recorded episodes, and the invocations of each procedure.

The episodes themselves are played by `hvil.analysis.episodes`. An invocation is the steps that a procedure took from a
call to its return, and all actions below it.

Letters: N episodes, R rows (the observations of all episodes together), S PHP steps, D numbers of an observation.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Num

from hvil.analysis import episodes
from hvil.analysis.episodes import CUT, ChoosesSteps
from hvil.data.tasks import Task
from hvil.data.traces import Traces
from hvil.machine.callgraph import CallGraph

__all__ = ["CUT", "ChoosesSteps", "Event", "Invocation", "Invocations", "Recording", "invocations", "record"]

MOST_ROWS = 400_000
"""Rows after which no more episodes are played: a policy that does not end its episodes would take too long."""


class Recording(NamedTuple):
    """Greedy episodes of a policy."""

    observations: Num[np.ndarray, "R D"]
    offsets: Int[np.ndarray, "N_plus_1"]
    """Where each episode's observations begin."""
    actions: Int[np.ndarray, "R"]
    """What was done at each observation: an action, ∅ (`terminate`), or `CUT`."""
    steps: Int[np.ndarray, "S 3"]
    """Row, procedure and choice of each PHP step, in order."""

    def __len__(self) -> int:
        return len(self.offsets) - 1


def record(policy: ChoosesSteps, traces: Traces, task: Task | None) -> Recording:
    """Run the policy from the initial state of each trace; without a task, along the traces up to the first error."""
    played = episodes.record(policy, traces, task, most_rows=MOST_ROWS)
    assert played.observations is not None
    assert played.steps is not None
    return Recording(
        observations=played.observations.reshape(len(played.emitted), -1),
        offsets=played.row_offsets,
        actions=played.emitted,
        steps=np.stack([played.steps.row, played.steps.procedure, played.steps.choice], axis=1),
    )


class Event(NamedTuple):
    """A step of an invocation, and what came before it."""

    row: int
    """The observation that it was taken at."""
    step: int
    """An action, ∅ (`terminate`), or the call of a procedure (`terminate` + 1 + procedure)."""
    signature: tuple[tuple[int, int], ...]
    """Procedure and last choice of the frames, from the invocation's own, after the action before."""


Invocation = list[Event]


class Invocations(NamedTuple):
    """All invocations of one procedure; those cut by the end of an episode have no ∅."""

    own: list[Invocation]
    """Its own steps: actions and calls."""
    flat: list[Invocation]
    """The actions of it and of everything it called."""


def invocations(recording: Recording, graph: CallGraph) -> dict[int, Invocations]:
    """The invocations of each procedure that was used."""
    found: dict[int, Invocations] = {}
    stack: list[tuple[int, Invocation, Invocation]] = []
    lasts: list[int] = []
    signature: tuple[tuple[int, int], ...] = ()
    starts = set(recording.offsets.tolist())
    previous = -1

    def begin(procedure: int) -> None:
        entry = found.setdefault(procedure, Invocations([], []))
        stack.append((procedure, [], []))
        lasts.append(-1)
        entry.own.append(stack[-1][1])
        entry.flat.append(stack[-1][2])

    for row, _, choice in recording.steps.tolist():
        if row in starts and row != previous:
            stack.clear()
            lasts.clear()
            begin(graph.root)
            signature = ()
        previous = row
        procedure, own, flat = stack[-1]
        here = signature[len(stack) - 1 :]
        if choice == graph.terminate:
            own.append(Event(row, graph.terminate, here))
            flat.append(Event(row, graph.terminate, here if flat else ()))
            stack.pop()
            lasts.pop()
            continue
        lasts[-1] = choice
        if choice > graph.terminate:
            callee = graph.calls[procedure][choice - graph.terminate - 1]
            own.append(Event(row, graph.terminate + 1 + callee, here))
            begin(callee)
            continue
        own.append(Event(row, choice, here))
        for level, (_, _, events) in enumerate(stack):
            events.append(Event(row, choice, signature[level:] if events else ()))
        signature = tuple((frame[0], last) for frame, last in zip(stack, lasts, strict=True))
    return found
