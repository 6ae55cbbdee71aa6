"""What to choose for traces that come from no task of ours, when the user says nothing: settings and a call graph.

`presets` does the same for our own tasks. What was chosen is said (`GraphChoice.reason`) and recorded with the run.
"""

from typing import Any, NamedTuple

from hvil.data.segments import ROOT
from hvil.data.sources import Data
from hvil.data.traces import Annotations, Traces

UPDATES = 5_000
"""Long enough for a few hundred traces; early stopping ends it when the held-out likelihood has had its best."""
LOOKS = 20
"""So many evaluations in all, and as often the entropy weight falls: from 1 to less than 0.001."""
PATIENCE = 6

FEW_TRACES = 50
MANY_TRACES = 2_000
MOST_CHILDREN = 5


class GraphChoice(NamedTuple):
    """A call graph, and why this one."""

    graph: str | dict[str, Any]
    reason: str


def default_settings(data: Data, updates: int | None = None) -> dict[str, Any]:
    """Settings for foreign traces: annotations are used if there are any, early stopping if there are enough traces."""
    annotations = data.training.annotations
    known = annotations is not None and bool(annotations.known.any())
    interval = max(1, (UPDATES if updates is None else updates) // LOOKS)
    return {
        "updates": UPDATES,
        "evaluate_every": interval,
        "entropy_decay_interval": interval,
        "patience": 0 if data.validation is None else PATIENCE,
        "annotations": "use" if known else "ignore",
    }


def default_call_graph(traces: Traces, annotated: bool = False) -> GraphChoice:
    """A call graph for foreign traces.

    Args:
        traces: the training set.
        annotated: whether its annotations are used; the graph is then the one they show.
    """
    if annotated and traces.annotations is not None and traces.annotations.known.any():
        graph = annotated_graph(traces.annotations)
        count = len(graph["procedures"])
        return GraphChoice(graph, f"the {count} procedures that the annotations name")
    actions = len(traces.action_names)
    children = min(MOST_CHILDREN, max(2, actions))
    if len(traces) < FEW_TRACES:
        children = min(children, 3)
    levels = 3 if len(traces) >= MANY_TRACES else 2
    procedures = sum(children**level for level in range(levels))
    return GraphChoice(
        f"tree:{children}x{levels}", f"{procedures} procedures, for {actions} actions and {len(traces)} traces"
    )


def annotated_graph(annotations: Annotations) -> dict[str, Any]:
    """The call graph that annotated stacks show: who called whom; every procedure may take every action."""
    stacks = annotations.stacks[annotations.known]
    calls: dict[int, set[int]] = {int(p): set() for p in set(stacks[stacks >= 0].tolist())}
    for level in range(stacks.shape[1] - 1):
        pairs = stacks[stacks[:, level + 1] >= 0][:, level : level + 2]
        for caller, callee in {(int(a), int(b)) for a, b in pairs}:
            calls[caller].add(callee)
    names = annotations.procedures
    return {
        "root": names[int(stacks[0, 0])] if len(stacks) else ROOT,
        "procedures": {names[p]: {"calls": [names[c] for c in sorted(calls[p])]} for p in sorted(calls)},
    }
