"""The arrays that compiled code reads: a call graph, a bank of networks, and the PHP steps that a walk took.

Letters: S steps, U choices, H procedures, A actions, C callees, L levels, D inputs, K hidden units.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int

from hvil.data.ragged import locate
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.machine.callgraph import CallGraph


class GraphArrays(NamedTuple):
    """A call graph for compiled code."""

    children: Int[np.ndarray, "H C"]
    can_act: Bool[np.ndarray, "H A"]
    reaches: Bool[np.ndarray, "L_plus_1 H A"]
    reaches_any: Bool[np.ndarray, "L_plus_1 H"]
    root: int
    max_depth: int


class NetworkArrays(NamedTuple):
    """A bank of two-layer networks for compiled code; the inputs are features, then the frame's."""

    weight1: Float32[np.ndarray, "H inputs K"]
    bias1: Float32[np.ndarray, "H K"]
    weight2: Float32[np.ndarray, "H K U"]
    bias2: Float32[np.ndarray, "H U"]
    sees_counter: bool
    counter_limit: int
    sees_last: bool


class Guide(NamedTuple):
    """Known stacks, one row an action; a row of -1 leaves the step to the posterior."""

    stacks: Int[np.ndarray, "actions depth"]
    kept: Int[np.ndarray, "actions"]


class Steps(NamedTuple):
    """PHP steps of a batch of traces, trace after trace, in the order they are taken."""

    row: Int[np.ndarray, "S"]
    """Which observation (flat, over all traces) the step sees."""
    procedure: Int[np.ndarray, "S"]
    counter: Int[np.ndarray, "S"]
    last: Int[np.ndarray, "S"]
    depth: Int[np.ndarray, "S"]
    """Height of the stack before the step."""
    choice: Int[np.ndarray, "S"]
    known: Bool[np.ndarray, "S"]
    """Whether the step came from an annotation."""
    posterior_possible: Bool[np.ndarray, "S U"]
    policy_possible: Bool[np.ndarray, "S U"]
    offsets: Int[np.ndarray, "N_plus_1"]
    """Steps of trace i are `offsets[i]:offsets[i+1]`."""


def graph_arrays(graph: CallGraph) -> GraphArrays:
    """The arrays of a call graph."""
    reaches = np.ascontiguousarray(graph.reaches)
    return GraphArrays(
        np.ascontiguousarray(graph.children),
        np.ascontiguousarray(graph.can_act),
        reaches,
        np.ascontiguousarray(reaches.any(axis=2)),
        graph.root,
        graph.max_depth,
    )


def most_steps(graph: CallGraph, lengths: Int[np.ndarray, "N"]) -> Int[np.ndarray, "N"]:
    """A bound on the PHP steps of traces: at each time at most a stack's height of returns and of calls."""
    return lengths * (2 * graph.max_depth - 1) + graph.max_depth


def empty_steps(graph: CallGraph, size: int, traces: int) -> Steps:
    """Room for so many steps."""
    row, procedure, counter, last, depth, choice = (np.empty(size, dtype=np.int64) for _ in range(6))
    return Steps(
        row=row,
        procedure=procedure,
        counter=counter,
        last=last,
        depth=depth,
        choice=choice,
        known=np.zeros(size, dtype=bool),
        posterior_possible=np.empty((size, graph.step_count), dtype=bool),
        policy_possible=np.empty((size, graph.step_count), dtype=bool),
        offsets=np.zeros(traces + 1, dtype=np.int64),
    )


def trimmed(steps: Steps) -> Steps:
    """Without the room that was not used."""
    return at(steps, slice(int(steps.offsets[-1])))


def at(steps: Steps, where: slice | Int[np.ndarray, "K"]) -> Steps:
    """The steps at some places, with the same offsets."""
    return Steps._make([*(array[where] for array in steps[:-1]), steps.offsets])


def no_guide(actions: int) -> Guide:
    """Nothing is known of the call structure."""
    return Guide(np.full((actions, 1), -1, dtype=np.int64), np.full(actions, -1, dtype=np.int64))


def guide(graph: CallGraph, traces: Traces) -> Guide:
    """The traces' annotations in terms of the call graph's own procedures, checked to be walkable in it."""
    annotations = traces.annotations
    if annotations is None or not annotations.known.any():
        return no_guide(len(traces.actions))
    indices = {name: index for index, name in enumerate(graph.procedures)}
    renumber = np.array([*(indices.get(name, -2) for name in annotations.procedures), -1])
    stacks = renumber[annotations.stacks]
    if (stacks == -2).any():
        missing = annotations.procedures[int(annotations.stacks[stacks == -2][0])]
        raise InputError(
            f"the annotations name the procedure {missing!r}, which the call graph lacks; it has "
            f"{', '.join(graph.procedures)}"
        )
    known, depths = annotations.known, annotations.depths

    def refuse(wrong: Bool[np.ndarray, "S"], why: str) -> None:
        if wrong.any():
            trace, step = locate(traces.offsets, int(np.argmax(wrong)))
            raise InputError(f"trace {trace}, step {step}: the annotated stack {why}")

    refuse(known & (stacks[:, 0] != graph.root), "does not begin with the call graph's root")
    refuse(depths > graph.max_depth, f"is deeper than the call graph's maximum of {graph.max_depth}")
    may_call = np.zeros((len(graph.procedures) + 1, len(graph.procedures) + 1), dtype=bool)
    for caller, callees in enumerate(graph.calls):
        may_call[caller, list(callees)] = True
    may_call[:, -1] = True
    refuse(~may_call[stacks[:, :-1], stacks[:, 1:]].all(axis=1), "has a call that the call graph does not allow")
    top = stacks[np.arange(len(stacks)), np.maximum(depths - 1, 0)]
    refuse(known & ~graph.can_act[top, traces.actions], "ends in a procedure that may not take the step's action")
    return Guide(np.ascontiguousarray(stacks), annotations.kept.astype(np.int64))
