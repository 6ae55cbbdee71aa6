"""Compiled parts of exact inference: what one frame can do between its call and its return.

All probabilities are logarithms in double precision. The reverse pass is in `outside_kernels`, the choice of call
structures in `structure_kernels`; `exact` gives the results their types.

Letters: T actions, M largest counter, d = t - s time since the frame's call, k callee, l = 0 for a last step that was
an action (or none), 1 + k for a call. A *node* is a procedure with the levels of the stack it may fill; node 0 is the
root, callees come after their callers.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from numba import njit

TINY = 1e-280
"""Sums are taken in the linear domain relative to their row's largest term; below this they are redone with logs."""


class Lattice(NamedTuple):
    """The nodes of a call graph and one trace's place in the table of policy steps."""

    children: np.ndarray
    """(nodes, C) the node that a call leads to, -1 where there is none."""
    acts: np.ndarray
    """(nodes, A) actions that a node may take."""
    block: np.ndarray
    """(nodes,) the block of rows that a node shares with all nodes of the same procedure and masks."""
    width: np.ndarray
    """(blocks,) 1 + number of callees: values of l."""
    base: np.ndarray
    """(blocks,) where each block starts in `rows`."""
    rows: np.ndarray
    """Row of the table for (block, t, τ, l), flat; -1 where no call structure comes by."""
    actions: np.ndarray
    """(T,) a_t."""
    counters: int
    """M, largest counter."""
    longest: int
    """Longest span of a node other than the root."""


class Tables(NamedTuple):
    """Inside probabilities of all spans, and the same in the linear domain, scaled by row."""

    inside: np.ndarray
    """(nodes, T, longest + 1) log-probability that a node called at s returns at s + d; the root's is not here."""
    scale: np.ndarray
    """(nodes, T) largest entry of each row, 0 for a row without any."""
    linear: np.ndarray
    """exp(inside - scale)."""


@njit(cache=True)
@no_type_check
def _log_sum(values, count, best):
    """Log of the sum of exponentials, or the largest value."""
    top = -np.inf
    for i in range(count):
        if values[i] > top:
            top = values[i]
    if best or top == -np.inf:
        return top
    total = 0.0
    for i in range(count):
        total += np.exp(values[i] - top)
    return top + np.log(total)


@njit(cache=True)
@no_type_check
def _start(lattice, node, t, counter):
    """Where the rows of (node, t, τ) start in `rows`."""
    block = lattice.block[node]
    return lattice.base[block] + (t * (lattice.counters + 1) + counter) * lattice.width[block]


@njit(cache=True)
@no_type_check
def _call_spans(tables, callee, s, called, low, high, reach, longest, best, result):
    """result[e] = log Σ_d exp(called[d] + inside[callee, s+d, e-d]) for e ≤ reach."""
    for e in range(reach + 1):
        result[e] = -np.inf
    inside, scale, linear = tables.inside, tables.scale, tables.linear
    if best:
        for d in range(low, high + 1):
            weight = called[d]
            if weight > -np.inf:
                row = inside[callee, s + d]
                for j in range(1, min(reach - d, longest) + 1):
                    result[d + j] = max(result[d + j], weight + row[j])
        return
    top = -np.inf
    for d in range(low, high + 1):
        top = max(top, called[d] + scale[callee, s + d])
    if top == -np.inf:
        return
    for e in range(low + 1, reach + 1):
        result[e] = 0.0
    for d in range(low, high + 1):
        weight = np.exp(called[d] + scale[callee, s + d] - top)
        if weight > 0.0:
            row = linear[callee, s + d]
            for j in range(1, min(reach - d, longest) + 1):
                result[d + j] += weight * row[j]
    for e in range(low + 1, reach + 1):
        if result[e] >= TINY:
            result[e] = top + np.log(result[e])
        else:
            result[e] = _one_span(inside, callee, s, called, max(low, e - longest), min(high, e - 1), e)


@njit(cache=True)
@no_type_check
def _one_span(inside, callee, s, called, low, high, e):
    """The same sum for one e, term by term in the log domain."""
    top = -np.inf
    for d in range(low, high + 1):
        top = max(top, called[d] + inside[callee, s + d, e - d])
    if top == -np.inf:
        return top
    total = 0.0
    for d in range(low, high + 1):
        total += np.exp(called[d] + inside[callee, s + d, e - d] - top)
    return top + np.log(total)


@njit(cache=True)
@no_type_check
def frame_forward(lattice, log_probs, tables, node, s, reach, best, alpha, called, bounds, returned):
    """Everything a frame called at s can do within `reach` actions.

    alpha[τ, l, d]: log-probability to be active at s + d with counter τ after a last step l (sum over its past, or
    the best past). called[τ, k, d]: the same, and then to call k. bounds[τ]: lowest and highest d that is possible.
    returned[d]: log-probability to return at s + d.
    """
    actions, width = lattice.actions, lattice.width[lattice.block[node]]
    steps, action_count = len(actions), lattice.acts.shape[1]
    counters = min(lattice.counters, reach)
    terms = np.empty(width)
    alpha[: counters + 1, :width, : reach + 1] = -np.inf
    returned[: reach + 1] = -np.inf
    alpha[0, 0, 0] = 0.0
    bounds[0, 0], bounds[0, 1] = 0, 0
    for counter in range(counters + 1):
        low, high = bounds[counter, 0], bounds[counter, 1]
        values = 1 if counter == 0 else width
        if counter > 0:
            for d in range(low, high + 1):
                start = _start(lattice, node, s + d, counter)
                for slot in range(width):
                    terms[slot] = -np.inf
                    if alpha[counter, slot, d] > -np.inf:
                        terms[slot] = alpha[counter, slot, d] + log_probs[lattice.rows[start + slot], action_count]
                total = _log_sum(terms, width, best)
                if total > -np.inf:
                    if best:
                        returned[d] = max(returned[d], total)
                    else:
                        returned[d] = np.logaddexp(returned[d], total)
        if counter == counters:
            break
        called[counter, : width - 1, low : high + 1] = -np.inf
        for d in range(low, high + 1):
            if d == reach or s + d == steps:
                continue
            action = actions[s + d]
            start = _start(lattice, node, s + d, counter)
            if lattice.acts[node, action]:
                for slot in range(values):
                    terms[slot] = -np.inf
                    if alpha[counter, slot, d] > -np.inf:
                        terms[slot] = alpha[counter, slot, d] + log_probs[lattice.rows[start + slot], action]
                alpha[counter + 1, 0, d + 1] = _log_sum(terms, values, best)
            for k in range(width - 1):
                if lattice.children[node, k] >= 0:
                    choice = action_count + 1 + k
                    for slot in range(values):
                        terms[slot] = -np.inf
                        if alpha[counter, slot, d] > -np.inf:
                            terms[slot] = alpha[counter, slot, d] + log_probs[lattice.rows[start + slot], choice]
                    called[counter, k, d] = _log_sum(terms, values, best)
        for k in range(width - 1):
            child = lattice.children[node, k]
            if child >= 0:
                _call_spans(
                    tables, child, s, called[counter, k], low, min(high, reach - 1), reach, lattice.longest, best,
                    alpha[counter + 1, 1 + k],
                )  # fmt: skip
        bounds[counter + 1, 0], bounds[counter + 1, 1] = reach + 1, -1
        for d in range(low + 1, reach + 1):
            for slot in range(width):
                if alpha[counter + 1, slot, d] > -np.inf:
                    bounds[counter + 1, 0] = min(bounds[counter + 1, 0], d)
                    bounds[counter + 1, 1] = d
                    break


@njit(cache=True)
@no_type_check
def inside_pass(lattice, log_probs, best):
    """Fill the tables from the callees up; returns them with the log-probability of the whole trace."""
    nodes, steps = len(lattice.children), len(lattice.actions)
    longest, counters = min(lattice.longest, steps), min(lattice.counters, steps)
    calls = lattice.children.shape[1]
    alpha = np.empty((counters + 1, 1 + calls, steps + 1))
    called = np.empty((counters + 1, calls, steps + 1))
    bounds = np.empty((counters + 1, 2), dtype=np.int64)
    returned = np.empty(steps + 1)
    tables = Tables(
        np.full((nodes, steps, longest + 1), -np.inf),
        np.zeros((nodes, steps)),
        np.zeros((nodes, steps, longest + 1)),
    )
    for node in range(nodes - 1, 0, -1):
        for s in range(steps):
            if lattice.rows[_start(lattice, node, s, 0)] < 0:
                continue
            reach = min(longest, steps - s)
            frame_forward(lattice, log_probs, tables, node, s, reach, best, alpha, called, bounds, returned)
            row, linear = tables.inside[node, s], tables.linear[node, s]
            top = -np.inf
            for d in range(1, reach + 1):
                row[d] = returned[d]
                top = max(top, returned[d])
            if top > -np.inf and not best:
                tables.scale[node, s] = top
                for d in range(1, reach + 1):
                    linear[d] = np.exp(row[d] - top)
    frame_forward(lattice, log_probs, tables, 0, 0, steps, best, alpha, called, bounds, returned)
    return tables, returned[steps]
