"""Compiled posterior of the next step given the steps before it, along a given call structure.

The *value* of a state is the log-probability of the rest of the trace from there, the frames below included. It looks
at what is left to do, where the inside pass looks at what was done. Letters as in `lattice`.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from numba import njit

from hvil.learners.exact.lattice import rows_start, slot_count
from hvil.learners.exact.semiring import SUM, combine


class StackValues(NamedTuple):
    """The frames on the stack, the root's first, with the values of their states."""

    node: np.ndarray
    """(depth,)"""
    begun: np.ndarray
    """(depth,) s, the time of the call."""
    reach: np.ndarray
    """(depth,) the longest span that the frame may have; what its caller has left bounds it too."""
    counter: np.ndarray
    """(depth,) τ."""
    slot: np.ndarray
    """(depth,) l."""
    states: np.ndarray
    """(depth, M + 1, 1 + C, T + 1) value of each frame's state (τ, l, d)."""
    ends: np.ndarray
    """(depth, T + 1) value of the frames below a frame if it returns at s + d."""
    terms: np.ndarray
    """(T + 1,) alternatives that are about to be summed."""


@njit(cache=True)
@no_type_check
def _empty_stack(lattice, depth):
    length, calls = len(lattice.actions), lattice.children.shape[1]
    counters = min(lattice.counters, length)
    return StackValues(
        node=np.zeros(depth, dtype=np.int64),
        begun=np.zeros(depth, dtype=np.int64),
        reach=np.zeros(depth, dtype=np.int64),
        counter=np.zeros(depth, dtype=np.int64),
        slot=np.zeros(depth, dtype=np.int64),
        states=np.empty((depth, counters + 1, 1 + calls, length + 1)),
        ends=np.full((depth, length + 1), -np.inf),
        terms=np.empty(length + 1),
    )


@njit(cache=True)
@no_type_check
def _call_value(lattice, inside, child, s, d, reach, after, terms):
    """The value of a call at s + d: the sum over all times s + e of its return, when the caller's value is after[e]."""
    count = min(reach - d, lattice.longest)
    for j in range(1, count + 1):
        terms[j - 1] = inside[child, s + d, j] + after[d + j]
    return combine(SUM, terms, count)


@njit(cache=True)
@no_type_check
def _fill_values(lattice, log_probs, inside, stack, top):
    """Fill the values of all states of the frame at a level of the stack, from its last possible time back."""
    node, s, reach, ends, values = (
        stack.node[top],
        stack.begun[top],
        stack.reach[top],
        stack.ends[top],
        stack.states[top],
    )
    width, terminate = lattice.width[lattice.block[node]], lattice.acts.shape[1]
    counters = min(lattice.counters, reach)
    calls, choices = np.empty(width), np.empty(1 + width)
    values[: counters + 1, :width, : reach + 1] = -np.inf
    for counter in range(counters, -1, -1):
        for d in range(reach if counter else 0, counter - 1, -1):
            t = s + d
            more = counter < counters and d < reach
            for k in range(width - 1):
                child = lattice.children[node, k]
                calls[k] = -np.inf
                if more and child >= 0:
                    after = values[counter + 1, 1 + k]
                    calls[k] = _call_value(lattice, inside, child, s, d, reach, after, stack.terms)
            start = rows_start(lattice, node, t, counter)
            for slot in range(slot_count(lattice, node, counter)):
                row = lattice.rows[start + slot]
                if row >= 0:
                    choices[:] = -np.inf
                    if counter:
                        choices[0] = log_probs[row, terminate] + ends[d]
                    if more and lattice.acts[node, lattice.actions[t]]:
                        choices[1] = log_probs[row, lattice.actions[t]] + values[counter + 1, 0, d + 1]
                    for k in range(width - 1):
                        if calls[k] > -np.inf:
                            choices[2 + k] = log_probs[row, terminate + 1 + k] + calls[k]
                    values[counter, slot, d] = combine(SUM, choices, 1 + width)


@njit(cache=True)
@no_type_check
def _next_step(lattice, log_probs, inside, stack, top, t, result):
    """Fill result[u] with the log-probability that the active frame takes the choice u at t, given the trace."""
    node, s, reach, counter, slot = (
        stack.node[top], stack.begun[top], stack.reach[top], stack.counter[top], stack.slot[top]
    )  # fmt: skip
    values, terminate, d = stack.states[top], lattice.acts.shape[1], t - s
    row = lattice.rows[rows_start(lattice, node, t, counter) + slot]
    result[:] = -np.inf
    if counter:
        result[terminate] = log_probs[row, terminate] + stack.ends[top, d]
    if counter < values.shape[0] - 1 and d < reach:
        action = lattice.actions[t]
        if lattice.acts[node, action]:
            result[action] = log_probs[row, action] + values[counter + 1, 0, d + 1]
        for k in range(lattice.width[lattice.block[node]] - 1):
            child = lattice.children[node, k]
            if child >= 0:
                value = _call_value(lattice, inside, child, s, d, reach, values[counter + 1, 1 + k], stack.terms)
                result[terminate + 1 + k] = log_probs[row, terminate + 1 + k] + value
    result -= values[counter, slot, d]


@njit(cache=True)
@no_type_check
def _push(lattice, stack, top, t):
    """Put the callee of the frame at a level, whose last step was the call, on the level above."""
    d, slot, above = t - stack.begun[top], stack.slot[top], top + 1
    room = stack.reach[top] - d
    for e in range(room + 1):
        stack.ends[above, e] = stack.states[top, stack.counter[top], slot, d + e]
    stack.node[above], stack.begun[above] = lattice.children[stack.node[top], slot - 1], t
    stack.reach[above] = min(lattice.longest, room)
    stack.counter[above], stack.slot[above] = 0, 0


@njit(cache=True)
@no_type_check
def step_posteriors(lattice, log_probs, inside, taken, depth, result):
    """Fill result[i, u] with log p(u_i = u | u_0 … u_{i-1}, x) along a structure whose choices are `taken`."""
    length, terminate = len(lattice.actions), lattice.acts.shape[1]
    stack = _empty_stack(lattice, depth)
    stack.reach[0] = length
    stack.ends[0, length] = 0.0
    _fill_values(lattice, log_probs, inside, stack, 0)
    top, t = 0, 0
    for i in range(len(taken)):
        _next_step(lattice, log_probs, inside, stack, top, t, result[i])
        choice = taken[i]
        if choice == terminate:
            top -= 1
            continue
        stack.counter[top] += 1
        stack.slot[top] = max(choice - terminate, 0)
        if choice < terminate:
            t += 1
        else:
            _push(lattice, stack, top, t)
            top += 1
            _fill_values(lattice, log_probs, inside, stack, top)
