"""Compiled expected counts of steps: reverse-mode differentiation of the span tables, frame by frame.

Posterior expectations lie between 0 and the number of steps, so they stay in the linear domain. Letters as in
`exact_kernels`.
"""

from typing import no_type_check

import numpy as np
from numba import njit

from hvil.learners.exact.inside_kernels import TINY, _start, frame_forward


@njit(cache=True)
@no_type_check
def _share(lattice, log_probs, node, t, counter, choice, alpha, total, amount, received, counts):
    """Divide the expected count of a step over the last steps before it, in proportion to their part of `total`."""
    start = _start(lattice, node, t, counter)
    for slot in range(1 if counter == 0 else lattice.width[lattice.block[node]]):
        if alpha[slot] > -np.inf:
            row = lattice.rows[start + slot]
            part = amount * np.exp(alpha[slot] + log_probs[row, choice] - total)
            received[slot] += part
            counts[row, choice] += part


@njit(cache=True, fastmath={"reassoc", "contract"})
@no_type_check
def _share_spans(tables, callee, s, called, low, high, reach, longest, alpha, received, outside, caller):
    """Reverse of `_call_spans`: from the expected counts of its results to those of calls and of the callee's spans."""
    inside, scale, linear = tables.inside, tables.scale, tables.linear
    top = -np.inf
    for d in range(low, high + 1):
        caller[d] = 0.0
        top = max(top, called[d] + scale[callee, s + d])
    if top == -np.inf:
        return
    ratio = np.zeros(reach + 1)
    for e in range(low + 1, reach + 1):
        if received[e] > 0.0:
            size = np.exp(alpha[e] - top)
            if size >= TINY:
                ratio[e] = received[e] / size
            else:
                for d in range(max(low, e - longest), min(high, e - 1) + 1):
                    part = received[e] * np.exp(called[d] + inside[callee, s + d, e - d] - alpha[e])
                    caller[d] += part
                    outside[callee, s + d, e - d] += part
    for d in range(low, high + 1):
        weight = np.exp(called[d] + scale[callee, s + d] - top)
        if weight > 0.0:
            row, out = linear[callee, s + d], outside[callee, s + d]
            total = 0.0
            for j in range(1, min(reach - d, longest) + 1):
                part = weight * row[j] * ratio[d + j]
                out[j] += part
                total += part
            caller[d] += total


@njit(cache=True)
@no_type_check
def frame_backward(
    lattice, log_probs, tables, node, s, reach, spans, alpha, called, bounds, returned, outside, visits, counts
):
    """Expected counts of a frame's steps from those of its spans (d,); adds to `counts` and its callees' `outside`.

    Reverse-mode differentiation of `frame_forward`: visits[τ, l, d] is ∂ log p(x) / ∂ alpha[τ, l, d], a posterior
    expectation, so it stays in the linear domain.
    """
    width, action_count = lattice.width[lattice.block[node]], lattice.acts.shape[1]
    counters = min(lattice.counters, reach)
    visits[: counters + 1, :width, : reach + 1] = 0.0
    caller = np.empty(reach + 1)
    for counter in range(counters, -1, -1):
        low, high = bounds[counter, 0], bounds[counter, 1]
        if counter < counters:
            for d in range(low, high + 1):
                if d == reach:
                    continue
                amount = visits[counter + 1, 0, d + 1]
                if amount > 0.0:
                    _share(
                        lattice, log_probs, node, s + d, counter, lattice.actions[s + d], alpha[counter, :, d],
                        alpha[counter + 1, 0, d + 1], amount, visits[counter, :, d], counts,
                    )  # fmt: skip
            for k in range(width - 1):
                child = lattice.children[node, k]
                if child < 0:
                    continue
                _share_spans(
                    tables, child, s, called[counter, k], low, min(high, reach - 1), reach, lattice.longest,
                    alpha[counter + 1, 1 + k], visits[counter + 1, 1 + k], outside, caller,
                )  # fmt: skip
                for d in range(low, min(high, reach - 1) + 1):
                    if caller[d] > 0.0 and called[counter, k, d] > -np.inf:
                        _share(
                            lattice, log_probs, node, s + d, counter, action_count + 1 + k, alpha[counter, :, d],
                            called[counter, k, d], caller[d], visits[counter, :, d], counts,
                        )  # fmt: skip
        if counter > 0:
            for d in range(low, high + 1):
                if spans[d] > 0.0:
                    _share(
                        lattice, log_probs, node, s + d, counter, action_count, alpha[counter, :, d],
                        returned[d], spans[d], visits[counter, :, d], counts,
                    )  # fmt: skip


@njit(cache=True)
@no_type_check
def outside_pass(lattice, log_probs, tables, weight, counts):
    """Add the posterior's expected count of every step, times `weight`, to `counts` (rows, choices)."""
    nodes, steps = len(lattice.children), len(lattice.actions)
    longest, counters = min(lattice.longest, steps), min(lattice.counters, steps)
    calls = lattice.children.shape[1]
    alpha = np.empty((counters + 1, 1 + calls, steps + 1))
    visits = np.empty((counters + 1, 1 + calls, steps + 1))
    called = np.empty((counters + 1, calls, steps + 1))
    bounds = np.empty((counters + 1, 2), dtype=np.int64)
    returned = np.empty(steps + 1)
    outside = np.zeros((nodes, steps, longest + 1))
    whole = np.zeros(steps + 1)
    whole[steps] = weight
    for node in range(nodes):
        for s in range(steps if node else 1):
            spans = outside[node, s] if node else whole
            reach = 0
            for d in range(1, len(spans)):
                if spans[d] > 0.0:
                    reach = d
            if reach:
                frame_forward(lattice, log_probs, tables, node, s, reach, False, alpha, called, bounds, returned)
                frame_backward(
                    lattice, log_probs, tables, node, s, reach, spans, alpha, called, bounds, returned, outside,
                    visits, counts,
                )  # fmt: skip
