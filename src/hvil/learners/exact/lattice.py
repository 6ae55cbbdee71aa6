"""The arrays that the compiled passes of exact inference share: what one trace's frames can do, and working memory.

Letters, here and in all kernels: T actions of the trace, C most callees of a procedure, M largest counter (of τ),
L longest span; s time of a frame's call, t time, d = t - s time since the call, e the same where a callee that was
called at d returns, j = e - d its span, k a callee, l the last step of a frame as a slot: 0 for an action (or no step
yet), 1 + k for a call of k. A *node* is a procedure with the number of levels of the stack it may fill; node 0 is the
root, callees come after their callers. A *row* is one of the step table, not an observation.

Small kernels that run for every state are inlined by numba (`inline="always"`): a call of a compiled function counts
references of all arrays that it gets, which took half the time of a pass.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from numba import njit

from hvil.learners.exact.semiring import Semiring


class Lattice(NamedTuple):
    """The nodes of a call graph, and the rows that their frames visit in one trace."""

    children: np.ndarray
    """(nodes, C) the node that a call leads to, -1 where there is none."""
    acts: np.ndarray
    """(nodes, actions) whether a node may take an action. The number of actions is also the choice ∅."""
    block: np.ndarray
    """(nodes,) the block of rows that a node shares with all nodes of the same procedure and masks."""
    width: np.ndarray
    """(blocks,) number of slots l: 1 + the number of callees."""
    base: np.ndarray
    """(blocks,) where each block starts in `rows`."""
    rows: np.ndarray
    """Row of the step table for (block, t, τ, l), flat; -1 where no call structure comes by."""
    actions: np.ndarray
    """(T,) a_t."""
    counters: int
    """M."""
    longest: int
    """L, for all frames but the root's at the bottom of the stack, which spans the whole trace."""


class SpanTables(NamedTuple):
    """What a node does between call and return, for all spans of a trace."""

    semiring: Semiring
    """How structures of one span were combined; whoever reads the tables combines in the same way."""
    inside: np.ndarray
    """(nodes, T, L + 1) log-probability that a node called at s returns at s + d; the root's whole span is not here."""
    scale: np.ndarray
    """(nodes, T) the largest entry of each row of `inside`, 0 for a row without any. Only for `SUM`."""
    linear: np.ndarray
    """(nodes, T, L + 1) exp(inside - scale). Only for `SUM`."""


class FrameStates(NamedTuple):
    """Everything that one frame called at s can do: working memory that is filled anew for each frame."""

    alpha: np.ndarray
    """(M + 1, 1 + C, T + 1) log-probability to be active at s + d with counter τ after a last step l."""
    called: np.ndarray
    """(M + 1, C, T + 1) log-probability to be active at s + d with counter τ, and then to call k."""
    bounds: np.ndarray
    """(M + 1, 2) the smallest and the largest d that is possible with counter τ."""
    returned: np.ndarray
    """(T + 1,) log-probability to return at s + d."""
    terms: np.ndarray
    """(1 + C,) alternatives that are about to be combined."""


@njit(cache=True)
@no_type_check
def empty_states(lattice):
    """Working memory for any frame of a trace."""
    length, calls = len(lattice.actions), lattice.children.shape[1]
    counters = min(lattice.counters, length)
    return FrameStates(
        alpha=np.empty((counters + 1, 1 + calls, length + 1)),
        called=np.empty((counters + 1, calls, length + 1)),
        bounds=np.empty((counters + 1, 2), dtype=np.int64),
        returned=np.empty(length + 1),
        terms=np.empty(1 + calls),
    )


@njit(cache=True)
@no_type_check
def slot_count(lattice, node, counter):
    """How many slots l there are: a frame that has taken no step has no last one."""
    return lattice.width[lattice.block[node]] if counter else 1


@njit(cache=True)
@no_type_check
def rows_start(lattice, node, t, counter):
    """Where the rows of (node, t, τ) start in `lattice.rows`; the slot l is to be added."""
    block = lattice.block[node]
    return lattice.base[block] + (t * (lattice.counters + 1) + counter) * lattice.width[block]


@njit(cache=True)
@no_type_check
def rows_stride(lattice, node):
    """How far apart in `lattice.rows` the rows of one node and counter at t and at t + 1 are."""
    return (lattice.counters + 1) * lattice.width[lattice.block[node]]


@njit(cache=True)
@no_type_check
def furthest(expected):
    """The largest span d ≥ 1 of which anything is expected (d,), 0 if there is none: how far a frame has to be seen."""
    reach = 0
    for d in range(1, len(expected)):
        if expected[d] > 0.0:
            reach = d
    return reach
