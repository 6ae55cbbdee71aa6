"""What a program is extracted from and measured on: greedy episodes of the policy, and traces of the teacher.

`hvil.analysis.episodes` plays the episodes.

Letters: N episodes, R rows (the observations of all episodes together), D numbers of an observation.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Num

from hvil.analysis import episodes
from hvil.analysis.episodes import ChoosesSteps
from hvil.data.streams import independent_seed
from hvil.data.tasks import Task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.machine.steps import Steps

MOST_ROWS = 400_000
"""Rows after which no more episodes are played: a policy that does not end its episodes would take too long.

It is room for 200 rows in each of the usual 2,000 episodes."""


class Recording(NamedTuple):
    """Greedy episodes of a policy of procedures, with flat observations."""

    observations: Num[np.ndarray, "R D"]
    row_offsets: Int[np.ndarray, "N_plus_1"]
    """Episode i has the rows `row_offsets[i]:row_offsets[i+1]`."""
    emitted: Int[np.ndarray, "R"]
    """What was done at each row: an action, ∅ or `CUT`."""
    steps: Steps
    """The PHP steps."""

    def __len__(self) -> int:
        return len(self.row_offsets) - 1

    def first(self, count: int) -> "Recording":
        """The first episodes, at most so many; the arrays keep the rows of all."""
        return Recording(
            observations=self.observations,
            row_offsets=self.row_offsets[: count + 1],
            emitted=self.emitted,
            steps=self.steps,
        )


def record(policy: ChoosesSteps, traces: Traces, task: Task | None) -> Recording:
    """Run the policy from the start of each trace; without a task, along the traces up to the first error."""
    played = episodes.record(policy, traces, task, most_rows=MOST_ROWS)
    assert played.observations is not None
    assert played.steps is not None
    return Recording(
        observations=played.observations.reshape(len(played.emitted), -1),
        row_offsets=played.row_offsets,
        emitted=played.emitted,
        steps=played.steps,
    )


class Evidence(NamedTuple):
    """Episodes of a policy, and what the teacher does in some of them."""

    studied: Recording
    """Episodes of the policy that the program is extracted from."""
    measured: Recording
    """Other episodes of the policy, on which the program is measured."""
    teacher: Traces
    """What the teacher does from the same initial states as in `measured`."""


class TracePair(NamedTuple):
    """The teacher's traces whose initial states are used."""

    study: Traces
    """Where the episodes begin that the program is extracted from."""
    measure: Traces
    """Where the episodes begin on which the program is measured."""


def task_traces(task: Task, episodes: int, fresh: int, seed: int) -> TracePair:
    """Demonstrations of a task, `episodes` to study and `fresh` others to measure on."""
    if min(episodes, fresh) < 1:
        raise InputError(f"{episodes} and {fresh} roll-outs: at least 1 of each kind is needed")
    return TracePair(
        study=task.test_demonstrations(episodes, independent_seed(seed)),
        measure=task.test_demonstrations(fresh, independent_seed(seed + 1)),
    )


def given_traces(traces: Traces | None, measure: Traces | None) -> TracePair:
    """Traces that the user has: one set for each purpose, or one set in two halves."""
    if traces is None:
        raise InputError("no roll-outs are possible: name a task, or traces to run the policy along")
    if measure is not None:
        return TracePair(study=traces, measure=measure)
    if len(traces) < 2:
        raise InputError("a program needs at least 2 traces: to be found, and to be measured on")
    half = len(traces) // 2
    return TracePair(study=traces[:half], measure=traces[half:])


def gather(
    policy: ChoosesSteps, task: Task | None, traces: TracePair, progress: Callable[[float], None] | None = None
) -> Evidence:
    """Run the policy from the initial states of both sets; `progress` is called with the share that is done."""
    total = len(traces.study) + len(traces.measure)
    studied = record(policy, traces.study, task)
    if progress is not None:
        progress(len(traces.study) / total)
    measured = record(policy, traces.measure, task)
    if progress is not None:
        progress(1.0)
    # A policy that does not end its episodes fills the recording early; the rest is left out.
    return Evidence(studied=studied, measured=measured, teacher=traces.measure[: len(measured)])
