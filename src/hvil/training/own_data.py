"""What traces of one's own suggest: settings for each learner and a call graph, each with the reason for it.

`plan` decides; a task's suggestions come from the task.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from hvil.data.segments import ROOT
from hvil.data.sources import Data
from hvil.data.traces import Annotations, Traces
from hvil.gate.settings import setting_names
from hvil.learners import LEARNERS
from hvil.learners.settings import (
    OWN_EVALUATIONS,
    OWN_PATIENCE,
    OWN_UPDATES,
    HvilSettings,
    ProcedureSettings,
    TrainingSettings,
)

START_TRACES = 4
"""Traces that an exact start has at least: from one list of two numbers alone, no loop can be learned."""
FEW_TRACES = 50
"""Below this many traces of one's own, a procedure gets at most three callees: there is little data for each."""
VECTOR_START = 250
"""Updates of the exact start on continuous actions of one's own, as many as there are before the first evaluation."""
MANY_TRACES = 2_000
"""From this many traces of one's own on, the call graph has three levels instead of two."""
MOST_CALLEES = 5
"""The most callees of a procedure, as in the paper's Karel experiments."""


def own_schedule(given: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """How long to train on traces of one's own, and when to look: each setting's value and the reason for it."""
    interval = max(1, int(given.get("updates", OWN_UPDATES)) // OWN_EVALUATIONS)
    return {
        "updates": (OWN_UPDATES, "enough for a few hundred traces; early stopping usually ends the training sooner"),
        "evaluate_every": (interval, f"{OWN_EVALUATIONS} evaluations in all"),
        "entropy_decay_interval": (interval, f"the entropy weight falls {OWN_EVALUATIONS} times in all"),
    }


def own_data_defaults(data: Data, given: Mapping[str, Any], learner: str) -> dict[str, tuple[Any, str]]:
    """What traces of one's own suggest for a learner: each setting's value and the reason for it."""
    choices = own_schedule(given)
    annotations = data.training.annotations
    annotated = annotations is not None and bool(annotations.known.any())
    if annotated:
        choices["annotations"] = ("use", "the traces come with a call structure")
    if data.training.vectors is not None and not (annotated and given.get("annotations", "use") == "use"):
        choices |= _vector_defaults(data, given, learner)
    if data.validation is not None:
        choices["patience"] = (OWN_PATIENCE, "there are held-out traces to stop early by")
    names = setting_names(LEARNERS[learner], TrainingSettings)
    return {name: choice for name, choice in choices.items() if name in names}


def _vector_defaults(data: Data, given: Mapping[str, Any], learner: str) -> dict[str, tuple[Any, str]]:
    """What continuous actions suggest to learners of procedures, whose first laws are fitted to the traces."""
    if not issubclass(LEARNERS[learner], ProcedureSettings):
        return {}
    one = "with laws that fit from the start, one structure a trace is wanted, not many with needless returns"
    choices: dict[str, tuple[Any, str]] = {
        "entropy_weight": (0.0, one),
        "entropy_final": (-0.5, one),
        "entropy_decay": (0.0, "the entropy weight has its last value from the second update on"),
        "entropy_decay_interval": (1, "the entropy weight has its last value from the second update on"),
        "frame_inputs": ("last", "a law acts until what it sees tells it to return, not for a number of steps"),
        "learning_rate": (0.01, "the first laws fit, and what is left to learn is when they take turns"),
        "average": (0.99, "it makes up for the high learning rate"),
    }
    lengths = np.sort(data.training.lengths)
    longest = int(given.get("exact_length", HvilSettings.exact_length))
    if data.stream is None and np.searchsorted(lengths, longest, side="right") >= START_TRACES:
        choices["exact_start"] = (VECTOR_START, f"there are traces of at most {longest} actions to learn turns from")
    return choices


class GraphChoice(NamedTuple):
    """A call graph for traces of one's own, and why this one."""

    graph: str | dict[str, Any]
    reason: str


def suggested_call_graph(traces: Traces, annotated: bool = False) -> GraphChoice:
    """A call graph for traces of one's own.

    Args:
        traces: the training set.
        annotated: whether its annotations are used; the graph is then the one they show.
    """
    if annotated and traces.annotations is not None and traces.annotations.known.any():
        graph = annotated_graph(traces.annotations)
        return GraphChoice(graph, f"annotated (the {len(graph['procedures'])} procedures that the annotations name)")
    if traces.vectors is not None:
        return _acting_graph(3 if len(traces) < FEW_TRACES else MOST_CALLEES, len(traces))
    actions = len(traces.action_names)
    callees = min(MOST_CALLEES, max(2, actions), 3 if len(traces) < FEW_TRACES else MOST_CALLEES)
    levels = 3 if len(traces) >= MANY_TRACES else 2
    procedures = sum(callees**level for level in range(levels))
    spec = f"tree:{callees}x{levels}"
    return GraphChoice(spec, f"{spec} ({procedures} procedures, for {actions} actions and {len(traces)} traces)")


def _acting_graph(count: int, traces: int) -> GraphChoice:
    """A root that only calls, and procedures that only act: each of them one law of a continuous action."""
    names = [f"act{number}" for number in range(1, count + 1)]
    procedures = {"main": {"calls": names, "actions": []}, **{name: {"calls": []} for name in names}}
    reason = f"main calls {count} procedures that act (for continuous actions and {traces} traces)"
    return GraphChoice({"root": "main", "procedures": procedures}, reason)


def annotated_graph(annotations: Annotations) -> dict[str, Any]:
    """The call graph that annotated stacks show: who called whom; every procedure may take every action."""
    stacks = annotations.stacks[annotations.known]
    calls: dict[int, set[int]] = {int(procedure): set() for procedure in np.unique(stacks[stacks >= 0])}
    for level in range(stacks.shape[1] - 1):
        pairs = stacks[stacks[:, level + 1] >= 0][:, level : level + 2]
        for caller, callee in {(int(a), int(b)) for a, b in pairs}:
            calls[caller].add(callee)
    names = annotations.procedures
    return {
        "root": names[int(stacks[0, 0])] if len(stacks) else ROOT,
        "procedures": {names[p]: {"calls": [names[c] for c in sorted(calls[p])]} for p in sorted(calls)},
    }
