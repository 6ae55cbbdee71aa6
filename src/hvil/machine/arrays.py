"""The arrays that compiled code reads: a call graph, the networks of all procedures, and annotated stacks.

Letters: H procedures, A actions, C callees, L levels, D inputs, K hidden units, U choices.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int

from hvil.data.annotations import Annotations
from hvil.data.ragged import locate
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.machine.callgraph import CallGraph


class GraphArrays(NamedTuple):
    """A call graph for compiled code; `CallGraph` says what each field means."""

    children: Int[np.ndarray, "H C"]
    can_act: Bool[np.ndarray, "H A"]
    reaches: Bool[np.ndarray, "L_plus_1 H A"]
    reaches_any: Bool[np.ndarray, "L_plus_1 H"]
    """Whether a procedure can take any action at all within so many levels."""
    terminate: int
    root: int
    max_depth: int


class NetworkArrays(NamedTuple):
    """The two-layer networks of all procedures for compiled code; their inputs are features, then frame inputs."""

    weight1: Float32[np.ndarray, "H D K"]
    bias1: Float32[np.ndarray, "H K"]
    weight2: Float32[np.ndarray, "H K U"]
    bias2: Float32[np.ndarray, "H U"]
    sees_counter: bool
    """Whether the first frame input is τ itself."""
    counter_table: Float32[np.ndarray, "rows C"]
    """Row min(τ, rows − 1) holds the frame inputs that come next."""
    sees_last: bool
    """Whether the last step comes then, one-hot."""


class Guide(NamedTuple):
    """The annotated stacks of some traces, one row an action, in the call graph's numbering of procedures."""

    stacks: Int[np.ndarray, "actions depth"]
    """The stack at the action, filled up with -1; a row of -1 alone leaves the steps to the posterior."""
    kept: Int[np.ndarray, "actions"]
    """How many frames stay from the time before; -1: all that both stacks share."""


def graph_arrays(graph: CallGraph) -> GraphArrays:
    """The arrays of a call graph."""
    return GraphArrays(
        children=np.ascontiguousarray(graph.children),
        can_act=np.ascontiguousarray(graph.can_act),
        reaches=np.ascontiguousarray(graph.reaches),
        reaches_any=np.ascontiguousarray(graph.reaches.any(axis=2)),
        terminate=graph.terminate,
        root=graph.root,
        max_depth=graph.max_depth,
    )


def no_guide(actions: int) -> Guide:
    """The guide of traces without annotations."""
    return Guide(stacks=np.full((actions, 1), -1, dtype=np.int64), kept=np.full(actions, -1, dtype=np.int64))


def guide(graph: CallGraph, traces: Traces) -> Guide:
    """The traces' annotations in the call graph's numbering of procedures.

    This runs at every update and trusts the annotations: `check_annotations` has refused what cannot be walked.
    """
    annotations = traces.annotations
    if annotations is None or not annotations.known.any():
        return no_guide(len(traces.actions))
    stacks = _renumbering(graph, annotations)[annotations.stacks[:, : graph.max_depth]]
    return Guide(stacks=stacks, kept=annotations.kept.astype(np.int64))


def check_annotations(graph: CallGraph, traces: Traces) -> None:
    """Refuse annotations that name an unknown procedure, or stacks that the call graph does not allow."""
    annotations = traces.annotations
    if annotations is None or not annotations.known.any():
        return
    stacks = _renumbering(graph, annotations)[annotations.stacks]
    unknown = (annotations.stacks >= 0) & (stacks < 0)
    if unknown.any():
        name = annotations.procedures[int(annotations.stacks[unknown][0])]
        raise InputError(
            f"the annotations name the procedure {name!r}, which the call graph lacks; it has "
            f"{', '.join(graph.procedures)}"
        )
    annotated, depths = annotations.known, annotations.depths

    def refuse(wrong: Bool[np.ndarray, "actions"], why: str) -> None:
        if wrong.any():
            trace, step = locate(traces.offsets, int(np.argmax(wrong)))
            raise InputError(f"trace {trace}, step {step}: the annotated stack {why}")

    refuse(annotated & (stacks[:, 0] != graph.root), "does not begin with the call graph's root")
    refuse(depths > graph.max_depth, f"is deeper than the call graph's maximum of {graph.max_depth}")
    may_call = np.zeros((len(graph.procedures) + 1, len(graph.procedures) + 1), dtype=bool)
    for caller, callees in enumerate(graph.calls):
        may_call[caller, list(callees)] = True
    may_call[:, -1] = True  # the fill after the top of a stack
    refuse(~may_call[stacks[:, :-1], stacks[:, 1:]].all(axis=1), "has a call that the call graph does not allow")
    top = stacks[np.arange(len(stacks)), np.maximum(depths - 1, 0)]
    refuse(annotated & ~graph.can_act[top, traces.actions], "ends in a procedure that may not take the step's action")


def _renumbering(graph: CallGraph, annotations: Annotations) -> Int[np.ndarray, "names_plus_1"]:
    """The call graph's number of each annotated procedure, -1 for an unknown one; the last entry is for the fill."""
    numbers = {name: number for number, name in enumerate(graph.procedures)}
    return np.array([*(numbers.get(name, -1) for name in annotations.procedures), -1], dtype=np.int64)
