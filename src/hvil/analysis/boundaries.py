"""How well an inferred call structure cuts traces where the annotated one does: F1 of the boundaries.

A boundary of a trace is a time t ≥ 1 whose stack is not that of the time before: a procedure was called or returned
between the actions t−1 and t. The calls at the start and the returns at the end are no boundaries, because every call
structure has them.

Letters: S actions of all traces together, K boundaries.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.machine.steps import Steps


class BoundaryScore(NamedTuple):
    """Precision, recall and their harmonic mean, over all boundaries of all traces."""

    precision: float
    recall: float
    f1: float


def boundary_score(traces: Traces, steps: Steps, tolerance: int) -> BoundaryScore:
    """Score the boundaries of an inferred call structure against the annotations of the traces.

    Args:
        traces: with annotations; a time counts if both its stack and that of the time before are annotated.
        steps: the inferred PHP steps of the same traces.
        tolerance: how far an inferred boundary may be from the annotated one that it is matched with; each is matched
            once.
    """
    true, annotated = annotated_boundaries(traces)
    inferred = inferred_boundaries(traces, steps) & annotated
    return score(_positions(traces, inferred), _positions(traces, true & annotated), tolerance)


def annotated_boundaries(traces: Traces) -> tuple[Bool[np.ndarray, "S"], Bool[np.ndarray, "S"]]:
    """At which actions the annotated stack differs from the one before, and at which both are annotated."""
    if traces.annotations is None:
        raise InputError("boundary scores need annotated traces")
    stacks, kept = traces.annotations.stacks, traces.annotations.kept
    annotated = traces.annotations.known.copy()
    annotated[1:] &= traces.annotations.known[:-1]
    annotated[traces.offsets[:-1]] = False
    before = np.roll(stacks, 1, axis=0)
    depths = traces.annotations.depths
    depths_before = np.roll(depths, 1)
    shared = np.logical_and.accumulate((stacks == before) & (stacks >= 0), axis=1).sum(axis=1)
    kept = np.where(kept < 0, shared, kept)
    return (kept < depths) | (kept < depths_before), annotated


def inferred_boundaries(traces: Traces, steps: Steps) -> Bool[np.ndarray, "S"]:
    """At which actions the inferred structure has a call or a return since the action before."""
    trace, time = steps.trace, steps.time(traces.row_offsets)
    change = (steps.choice >= len(traces.action_names)) & (time > 0) & (time < traces.lengths[trace])
    boundaries = np.zeros(len(traces.actions), dtype=bool)
    boundaries[traces.offsets[trace[change]] + time[change]] = True
    return boundaries


def score(inferred: Int[np.ndarray, "inferred"], true: Int[np.ndarray, "true"], tolerance: int) -> BoundaryScore:
    """Match sorted positions one to one, each with the first that fits; no other way matches more."""
    matched = i = j = 0
    while i < len(inferred) and j < len(true):
        if abs(inferred[i] - true[j]) <= tolerance:
            matched, i, j = matched + 1, i + 1, j + 1
        elif inferred[i] < true[j]:
            i += 1
        else:
            j += 1
    precision = matched / len(inferred) if len(inferred) else 1.0
    recall = matched / len(true) if len(true) else 1.0
    total = precision + recall
    return BoundaryScore(precision, recall, 2 * precision * recall / total if total else 0.0)


def _positions(traces: Traces, flags: Bool[np.ndarray, "S"]) -> Int[np.ndarray, "K"]:
    """Times of the flagged actions, counted through all traces, with a gap between traces that no tolerance bridges."""
    gap = 1 + int(traces.lengths.max())
    trace = np.repeat(np.arange(len(traces)), traces.lengths)
    time = np.arange(len(flags)) - np.repeat(traces.offsets[:-1], traces.lengths)
    positions: np.ndarray = trace * 2 * gap + time
    return np.asarray(positions[flags])
