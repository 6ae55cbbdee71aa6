"""What a program is extracted from and measured on: greedy episodes of the policy, and traces of the teacher."""

from collections.abc import Callable
from typing import NamedTuple

from hvil.analysis.explain.episodes import ChoosesSteps, Recording, record
from hvil.data.streams import independent_seed
from hvil.data.tasks import Task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError


class Evidence(NamedTuple):
    """Episodes of a policy, and what the teacher does in some of them."""

    study: Recording
    """Episodes of the policy that the program is extracted from."""
    measure: Traces
    """Other traces of the teacher, whose initial states the program is measured in."""
    measured: Recording
    """What the policy did there."""


class TracePair(NamedTuple):
    """The teacher's traces whose initial states are used."""

    study: Traces
    measure: Traces


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
    study = record(policy, traces.study, task)
    if progress is not None:
        progress(len(traces.study) / total)
    measured = record(policy, traces.measure, task)
    if progress is not None:
        progress(1.0)
    # A policy that does not end its episodes fills the recording early; the rest is left out.
    return Evidence(study=study, measure=traces.measure[: len(measured)], measured=measured)
