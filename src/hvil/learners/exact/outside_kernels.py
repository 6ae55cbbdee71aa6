"""Compiled outside pass of exact inference: how often the posterior expects each step, callers first.

This is reverse-mode differentiation of the inside pass, frame by frame. The derivatives of log p(x) are posterior
expectations between 0 and the number of steps, so they stay in the linear domain. Letters as in `lattice`.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from numba import njit

from hvil.learners.exact.inside_kernels import TINY, frame_forward
from hvil.learners.exact.lattice import empty_states, furthest, rows_start, rows_stride


class Expected(NamedTuple):
    """Expected numbers of events under the posterior, times the trace's weight.

    Each is the derivative of log p(x) with respect to the logarithm of the event's probability, named at its end.
    """

    steps: np.ndarray
    """(rows, choices) how often a choice is taken at a row: `log_probs`."""
    spans: np.ndarray
    """(nodes, T, L + 1) how often a node called at s returns at s + d: `SpanTables.inside`."""
    visits: np.ndarray
    """(M + 1, 1 + C, T + 1) how often the present frame is in a state (τ, l, d): `FrameStates.alpha`."""
    calls: np.ndarray
    """(T + 1,) how often the present frame makes a call at s + d, for the counter and callee at hand: `called`."""


@njit(cache=True, inline="always")
@no_type_check
def _share_step(log_probs, rows, start, slots, alpha, visits, counts, counter, d, choice, total, amount):
    """Divide the expected count of a step over the last steps l before it, by their parts of its weight `total`."""
    for slot in range(slots):
        if alpha[counter, slot, d] > -np.inf:
            row = rows[start + slot]
            part = amount * np.exp(alpha[counter, slot, d] + log_probs[row, choice] - total)
            visits[counter, slot, d] += part
            counts[row, choice] += part


@njit(cache=True, fastmath={"reassoc", "contract"})
@no_type_check
def _share_spans(tables, callee, s, called, low, high, reach, longest, alpha, received, spans, calls):
    """Divide the expected counts of a call's ends over the times of the call: the reverse of `_sum_spans`.

    `received[e]` is how often a call has ended at s + e, where alpha[e] is its log-probability. The shares go to
    `calls[d]` and to the callee's `spans`.
    """
    inside, scale, linear = tables.inside, tables.scale, tables.linear
    top = -np.inf
    for d in range(low, high + 1):
        calls[d] = 0.0
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
                    calls[d] += part
                    spans[callee, s + d, e - d] += part
    for d in range(low, high + 1):
        weight = np.exp(called[d] + scale[callee, s + d] - top)
        if weight > 0.0:
            row, out = linear[callee, s + d], spans[callee, s + d]
            total = 0.0
            for j in range(1, min(reach - d, longest) + 1):
                part = weight * row[j] * ratio[d + j]
                out[j] += part
                total += part
            calls[d] += total


@njit(cache=True)
@no_type_check
def frame_backward(lattice, log_probs, tables, states, expected, node, s, reach, spans):
    """Expected counts of a frame's steps and of its callees' spans, from those of its own spans (d,).

    The reverse of `frame_forward`, which has filled `states`.
    """
    rows, actions, children = lattice.rows, lattice.actions, lattice.children[node]
    alpha, bounds, returned = states.alpha, states.bounds, states.returned
    visits, calls, counts = expected.visits, expected.calls, expected.steps
    width, stride, terminate = lattice.width[lattice.block[node]], rows_stride(lattice, node), lattice.acts.shape[1]
    counters = min(lattice.counters, reach)
    visits[: counters + 1, :width, : reach + 1] = 0.0
    for counter in range(counters, -1, -1):
        low, high = bounds[counter, 0], bounds[counter, 1]
        first, slots = rows_start(lattice, node, s, counter), width if counter else 1
        if counter < counters:
            latest = min(high, reach - 1)
            for d in range(low, latest + 1):
                if visits[counter + 1, 0, d + 1] > 0.0:
                    _share_step(
                        log_probs, rows, first + d * stride, slots, alpha, visits, counts, counter, d, actions[s + d],
                        alpha[counter + 1, 0, d + 1], visits[counter + 1, 0, d + 1],
                    )  # fmt: skip
            for k in range(width - 1):
                if children[k] < 0:
                    continue
                called = states.called[counter, k]
                _share_spans(
                    tables, children[k], s, called, low, latest, reach, lattice.longest,
                    alpha[counter + 1, 1 + k], visits[counter + 1, 1 + k], expected.spans, calls,
                )  # fmt: skip
                for d in range(low, latest + 1):
                    if calls[d] > 0.0 and called[d] > -np.inf:
                        _share_step(
                            log_probs, rows, first + d * stride, slots, alpha, visits, counts, counter, d,
                            terminate + 1 + k, called[d], calls[d],
                        )  # fmt: skip
        if counter > 0:
            for d in range(low, high + 1):
                if spans[d] > 0.0:
                    _share_step(
                        log_probs, rows, first + d * stride, slots, alpha, visits, counts, counter, d, terminate,
                        returned[d], spans[d],
                    )  # fmt: skip


@njit(cache=True)
@no_type_check
def outside_pass(lattice, log_probs, tables, weight, counts):
    """Add the posterior's expected count of every step, times `weight`, to `counts` (rows, choices)."""
    nodes, length = len(lattice.children), len(lattice.actions)
    states = empty_states(lattice)
    expected = Expected(
        steps=counts,
        spans=np.zeros((nodes, length, min(lattice.longest, length) + 1)),
        visits=np.empty(states.alpha.shape),
        calls=np.empty(length + 1),
    )
    whole = np.zeros(length + 1)
    whole[length] = weight
    for node in range(nodes):
        for s in range(length if node else 1):
            spans = expected.spans[node, s] if node else whole
            reach = furthest(spans)
            if reach:
                frame_forward(lattice, log_probs, tables, node, s, reach, states)
                frame_backward(lattice, log_probs, tables, states, expected, node, s, reach, spans)
