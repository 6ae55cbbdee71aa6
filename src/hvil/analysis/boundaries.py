"""How well an inferred call structure cuts traces where the annotated one does: F1 of the boundaries.

A boundary of a trace is a time t ≥ 1 at which the stack is not the one of the time before: something was called or
returned between the actions t−1 and t. The calls at the start and the returns at the end are no boundaries: every
structure has them.

Letters: S actions of all traces together, K steps of a structure.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.learner import Structure


class BoundaryScore(NamedTuple):
    """Precision, recall and their harmonic mean, over all boundaries of all traces."""

    precision: float
    recall: float
    f1: float


def boundary_score(traces: Traces, structure: Structure, tolerance: int) -> BoundaryScore:
    """Score the boundaries of an inferred structure against the annotations of the traces.

    Args:
        traces: with annotations; only times where this step's and the one's before are annotated count.
        structure: the inferred PHP steps of the same traces.
        tolerance: how far an inferred boundary may be from the annotated one that it is matched with; each is matched
            once.
    """
    true, known = annotated_boundaries(traces)
    found = inferred_boundaries(traces, structure) & known
    return score(_positions(traces, found), _positions(traces, true & known), tolerance)


def annotated_boundaries(traces: Traces) -> tuple[Bool[np.ndarray, "S"], Bool[np.ndarray, "S"]]:
    """At which actions the annotated stack is a new one, and at which that is known."""
    if traces.annotations is None:
        raise InputError("boundary scores need annotated traces")
    stacks, kept = traces.annotations.stacks, traces.annotations.kept
    known = traces.annotations.known.copy()
    known[1:] &= traces.annotations.known[:-1]
    known[traces.offsets[:-1]] = False
    before = np.roll(stacks, 1, axis=0)
    depths = traces.annotations.depths
    depths_before = np.roll(depths, 1)
    shared = np.logical_and.accumulate((stacks == before) & (stacks >= 0), axis=1).sum(axis=1)
    kept = np.where(kept < 0, shared, kept)
    return (kept < depths) | (kept < depths_before), known


def inferred_boundaries(traces: Traces, structure: Structure) -> Bool[np.ndarray, "S"]:
    """At which actions the inferred structure has a call or a return since the action before."""
    lengths = traces.lengths[structure.trace]
    change = (structure.choice >= len(traces.action_names)) & (structure.time > 0) & (structure.time < lengths)
    found = np.zeros(len(traces.actions), dtype=bool)
    found[traces.offsets[structure.trace[change]] + structure.time[change]] = True
    return found


def score(found: Int[np.ndarray, "found"], true: Int[np.ndarray, "true"], tolerance: int) -> BoundaryScore:
    """Match sorted positions one to one, the first that fits, which is the most that can be matched."""
    matched = i = j = 0
    while i < len(found) and j < len(true):
        if abs(found[i] - true[j]) <= tolerance:
            matched, i, j = matched + 1, i + 1, j + 1
        elif found[i] < true[j]:
            i += 1
        else:
            j += 1
    precision = matched / len(found) if len(found) else 1.0
    recall = matched / len(true) if len(true) else 1.0
    total = precision + recall
    return BoundaryScore(precision, recall, 2 * precision * recall / total if total else 0.0)


def _positions(traces: Traces, flags: Bool[np.ndarray, "S"]) -> Int[np.ndarray, "K"]:
    """Positions of the flags, with a gap between traces that no tolerance bridges."""
    gap = 1 + int(traces.lengths.max())
    trace = np.repeat(np.arange(len(traces)), traces.lengths)
    time = np.arange(len(flags)) - np.repeat(traces.offsets[:-1], traces.lengths)
    positions: np.ndarray = trace * 2 * gap + time
    return np.asarray(positions[flags])
