"""Compiled sums over all call structures with plain probabilities instead of logarithms: several times faster.

`inside_kernels` and `outside_kernels` have the same sums in logarithms, for traces of any length. Here a product below
about 1e-307 becomes 0, and its call structures are lost. No step may have a weight above 1, so each of them has less
than 1e-307, which counts for nothing if all structures together have at least `SMALLEST`. Letters as in `lattice`.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from numba import njit

from hvil.learners.exact.inside_kernels import set_bounds
from hvil.learners.exact.lattice import empty_states, furthest, rows_start, rows_stride

SMALLEST = 1e-250
"""The smallest p(x) of a trace whose sums are made here."""


class Gradients(NamedTuple):
    """The gradient of log p(x) by what a pass has computed."""

    spans: np.ndarray
    """(nodes, T, L + 1) of a node's probability to return at s + d."""
    alpha: np.ndarray
    """Of the present frame's `FrameStates.alpha`."""
    called: np.ndarray
    """(C, T + 1) of its `FrameStates.called`, for the counter at hand."""


@njit(cache=True, fastmath={"contract"}, error_model="numpy")
@no_type_check
def _frame_forward(lattice, weights, spans, node, s, reach, states):
    """Fill `states` with everything that a frame of a node called at s can do within `reach` actions."""
    terminate, longest = lattice.acts.shape[1], lattice.longest
    rows, actions, acts, children = lattice.rows, lattice.actions, lattice.acts[node], lattice.children[node]
    alpha, called, bounds, returned, _ = states
    width, stride = lattice.width[lattice.block[node]], rows_stride(lattice, node)
    counters = min(lattice.counters, reach)
    alpha[: counters + 1, :width, : reach + 1] = 0.0
    called[: counters + 1, : width - 1, : reach + 1] = 0.0
    returned[: reach + 1] = 0.0
    alpha[0, 0, 0] = 1.0
    bounds[0, 0], bounds[0, 1] = 0, 0
    for counter in range(counters + 1):
        low, high = bounds[counter, 0], bounds[counter, 1]
        first, slots = rows_start(lattice, node, s, counter), width if counter else 1
        goes_on = counter < counters
        for d in range(low, high + 1):
            start = first + d * stride
            for slot in range(slots):
                here = alpha[counter, slot, d]
                if here == 0.0:
                    continue
                row = rows[start + slot]
                if counter > 0:
                    returned[d] += here * weights[row, terminate]
                if goes_on and d < reach:
                    if acts[actions[s + d]]:
                        alpha[counter + 1, 0, d + 1] += here * weights[row, actions[s + d]]
                    for k in range(width - 1):
                        if children[k] >= 0:
                            called[counter, k, d] += here * weights[row, terminate + 1 + k]
        if not goes_on:
            break
        for k in range(width - 1):
            if children[k] >= 0:
                callee = children[k]
                for d in range(low, min(high, reach - 1) + 1):
                    calls = called[counter, k, d]
                    if calls > 0.0:
                        for j in range(1, min(reach - d, longest) + 1):
                            alpha[counter + 1, 1 + k, d + j] += calls * spans[callee, s + d, j]
        set_bounds(alpha, bounds, counter + 1, low + 1, reach, width, 0.0)


@njit(cache=True, fastmath={"reassoc", "contract"}, error_model="numpy")
@no_type_check
def _frame_backward(lattice, weights, spans, states, node, s, reach, grad_returned, grads, counts):
    """The reverse of `_frame_forward`, from the gradient of the frame's own spans (d,).

    Gradients are those of log p(x). A step's gradient times its weight is its expected count, and is added to `counts`.
    """
    terminate, longest = lattice.acts.shape[1], lattice.longest
    rows, actions, acts, children = lattice.rows, lattice.actions, lattice.acts[node], lattice.children[node]
    alpha, called, bounds = states.alpha, states.called, states.bounds
    grad_spans, grad_alpha, grad_called = grads
    width, stride = lattice.width[lattice.block[node]], rows_stride(lattice, node)
    counters = min(lattice.counters, reach)
    for counter in range(counters, -1, -1):
        low, high = bounds[counter, 0], bounds[counter, 1]
        first, slots = rows_start(lattice, node, s, counter), width if counter else 1
        goes_on = counter < counters
        if goes_on:
            for k in range(width - 1):
                callee = children[k]
                if callee < 0:
                    continue
                for d in range(low, min(high, reach - 1) + 1):
                    calls, total = called[counter, k, d], 0.0
                    if calls > 0.0:
                        for j in range(1, min(reach - d, longest) + 1):
                            total += spans[callee, s + d, j] * grad_alpha[counter + 1, 1 + k, d + j]
                            grad_spans[callee, s + d, j] += calls * grad_alpha[counter + 1, 1 + k, d + j]
                    grad_called[k, d] = total
        grad_alpha[counter, :width, : reach + 1] = 0.0
        for d in range(low, high + 1):
            start = first + d * stride
            for slot in range(slots):
                here = alpha[counter, slot, d]
                if here == 0.0:
                    continue
                row = rows[start + slot]
                total = 0.0
                if counter > 0:
                    part = grad_returned[d] * weights[row, terminate]
                    counts[row, terminate] += here * part
                    total += part
                if goes_on and d < reach:
                    action = actions[s + d]
                    if acts[action]:
                        part = grad_alpha[counter + 1, 0, d + 1] * weights[row, action]
                        counts[row, action] += here * part
                        total += part
                    for k in range(width - 1):
                        if children[k] >= 0:
                            part = grad_called[k, d] * weights[row, terminate + 1 + k]
                            counts[row, terminate + 1 + k] += here * part
                            total += part
                grad_alpha[counter, slot, d] = total


@njit(cache=True)
@no_type_check
def linear_inside(lattice, weights):
    """How likely each node called at s returns at s + d (nodes, T, L + 1), and the likelihood of the whole trace."""
    nodes, length = len(lattice.children), len(lattice.actions)
    longest = min(lattice.longest, length)
    states = empty_states(lattice)
    spans = np.zeros((nodes, length, longest + 1))
    for node in range(nodes - 1, 0, -1):
        for s in range(length):
            if lattice.rows[rows_start(lattice, node, s, 0)] >= 0:
                reach = min(longest, length - s)
                _frame_forward(lattice, weights, spans, node, s, reach, states)
                spans[node, s, : reach + 1] = states.returned[: reach + 1]
    _frame_forward(lattice, weights, spans, 0, 0, length, states)
    return spans, states.returned[length]


@njit(cache=True)
@no_type_check
def linear_outside(lattice, weights, spans, likelihood, counts):
    """Add the posterior's expected count of every step to `counts` (rows, choices)."""
    nodes, length = len(lattice.children), len(lattice.actions)
    states = empty_states(lattice)
    grads = Gradients(
        spans=np.zeros(spans.shape), alpha=np.empty(states.alpha.shape), called=np.empty(states.called.shape[1:])
    )
    whole = np.zeros(length + 1)
    whole[length] = 1.0 / likelihood
    for node in range(nodes):
        for s in range(length if node else 1):
            returned = grads.spans[node, s] if node else whole
            reach = furthest(returned)
            if reach:
                _frame_forward(lattice, weights, spans, node, s, reach, states)
                _frame_backward(lattice, weights, spans, states, node, s, reach, returned, grads, counts)
