"""Compiled inside pass of exact inference: what each frame can do between its call and its return, callees first.

All probabilities are logarithms in double precision. `outside_kernels` has the reverse pass, `structure_kernels` picks
call structures, and `inference` gives the results their types. Letters as in `lattice`.
"""

from typing import no_type_check

import numpy as np
from numba import njit

from hvil.learners.exact.lattice import SpanTables, empty_states, rows_start, rows_stride
from hvil.learners.exact.semiring import combine, combine_two

TINY = 1e-280
"""Sums over spans are taken in the linear domain, relative to their largest term; a sum below this is taken again in
logarithms. It is well above the smallest normal double (2e-308), so that no term that matters was lost."""


@njit(cache=True)
@no_type_check
def _sum_spans(tables, callee, s, called, low, high, reach, longest, result):
    """Fill result[e] = log Σ_d exp(called[d] + inside[callee, s + d, e - d]) for all e ≤ reach."""
    inside, scale, linear = tables.inside, tables.scale, tables.linear
    for e in range(reach + 1):
        result[e] = -np.inf
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
            result[e] = _sum_one_span(inside, callee, s, called, max(low, e - longest), min(high, e - 1), e)


@njit(cache=True)
@no_type_check
def _sum_one_span(inside, callee, s, called, low, high, e):
    """The sum of `_sum_spans` for one e, term by term in logarithms."""
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
def _best_spans(inside, callee, s, called, low, high, reach, longest, result):
    """Fill result[e] = max_d called[d] + inside[callee, s + d, e - d] for all e ≤ reach."""
    for e in range(reach + 1):
        result[e] = -np.inf
    for d in range(low, high + 1):
        weight = called[d]
        if weight > -np.inf:
            row = inside[callee, s + d]
            for j in range(1, min(reach - d, longest) + 1):
                result[d + j] = max(result[d + j], weight + row[j])


@njit(cache=True, inline="always")
@no_type_check
def _weight(semiring, log_probs, rows, start, slots, alpha, counter, d, choice, terms):
    """The log-probability to be at (τ, d) and to take a choice there, all last steps l combined."""
    for slot in range(slots):
        terms[slot] = -np.inf
        if alpha[counter, slot, d] > -np.inf:
            terms[slot] = alpha[counter, slot, d] + log_probs[rows[start + slot], choice]
    return combine(semiring, terms, slots)


@njit(cache=True)
@no_type_check
def frame_forward(lattice, log_probs, tables, node, s, reach, states):
    """Fill `states` with everything that a frame of a node called at s can do within `reach` actions.

    The arrays are taken out of their tuples once: doing so in a function of its own for each counter, or each d, costs
    several times as much as the work itself.
    """
    semiring, terminate, longest = tables.semiring, lattice.acts.shape[1], lattice.longest
    rows, actions, acts, children = lattice.rows, lattice.actions, lattice.acts[node], lattice.children[node]
    alpha, called, bounds, returned, terms = states
    width, stride = lattice.width[lattice.block[node]], rows_stride(lattice, node)
    counters = min(lattice.counters, reach)
    alpha[: counters + 1, :width, : reach + 1] = -np.inf
    returned[: reach + 1] = -np.inf
    alpha[0, 0, 0] = 0.0
    bounds[0, 0], bounds[0, 1] = 0, 0
    for counter in range(counters + 1):
        low, high = bounds[counter, 0], bounds[counter, 1]
        first, slots = rows_start(lattice, node, s, counter), width if counter else 1
        if counter > 0:
            for d in range(low, high + 1):
                start = first + d * stride
                weight = _weight(semiring, log_probs, rows, start, slots, alpha, counter, d, terminate, terms)
                if weight > -np.inf:
                    returned[d] = combine_two(semiring, returned[d], weight)
        if counter == counters:
            break
        high = min(high, reach - 1)
        called[counter, : width - 1, low : high + 1] = -np.inf
        for d in range(low, high + 1):
            start, action = first + d * stride, actions[s + d]
            if acts[action]:
                weight = _weight(semiring, log_probs, rows, start, slots, alpha, counter, d, action, terms)
                alpha[counter + 1, 0, d + 1] = weight
            for k in range(width - 1):
                if children[k] >= 0:
                    choice = terminate + 1 + k
                    weight = _weight(semiring, log_probs, rows, start, slots, alpha, counter, d, choice, terms)
                    called[counter, k, d] = weight
        for k in range(width - 1):
            if children[k] >= 0:
                calls, ends = called[counter, k], alpha[counter + 1, 1 + k]
                if semiring.best:
                    _best_spans(tables.inside, children[k], s, calls, low, high, reach, longest, ends)
                else:
                    _sum_spans(tables, children[k], s, calls, low, high, reach, longest, ends)
        set_bounds(alpha, bounds, counter + 1, low + 1, reach, width, -np.inf)


@njit(cache=True, inline="always")
@no_type_check
def set_bounds(alpha, bounds, counter, low, reach, width, impossible):
    """Set the smallest and largest d at which a state with this counter is possible, if low ≤ d ≤ reach."""
    bounds[counter, 0], bounds[counter, 1] = reach + 1, -1
    for d in range(low, reach + 1):
        for slot in range(width):
            if alpha[counter, slot, d] > impossible:
                bounds[counter, 0] = min(bounds[counter, 0], d)
                bounds[counter, 1] = d
                break


@njit(cache=True)
@no_type_check
def inside_pass(lattice, log_probs, semiring):
    """The span tables of a trace, filled from the callees up, and the log-probability of the whole trace."""
    nodes, length = len(lattice.children), len(lattice.actions)
    longest = min(lattice.longest, length)
    states = empty_states(lattice)
    tables = SpanTables(
        semiring=semiring,
        inside=np.full((nodes, length, longest + 1), -np.inf),
        scale=np.zeros((nodes, length)),
        linear=np.zeros((nodes, length, longest + 1)),
    )
    for node in range(nodes - 1, 0, -1):
        for s in range(length):
            if lattice.rows[rows_start(lattice, node, s, 0)] >= 0:
                reach = min(longest, length - s)
                frame_forward(lattice, log_probs, tables, node, s, reach, states)
                _store_spans(tables, node, s, reach, states.returned)
    frame_forward(lattice, log_probs, tables, 0, 0, length, states)
    return tables, states.returned[length]


@njit(cache=True)
@no_type_check
def _store_spans(tables, node, s, reach, returned):
    """Copy into the tables with which probability a frame returns at each time."""
    row, linear = tables.inside[node, s], tables.linear[node, s]
    top = -np.inf
    for d in range(1, reach + 1):
        row[d] = returned[d]
        top = max(top, returned[d])
    if top > -np.inf and not tables.semiring.best:
        tables.scale[node, s] = top
        for d in range(1, reach + 1):
            linear[d] = np.exp(row[d] - top)
