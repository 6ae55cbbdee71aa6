"""Compiled posterior of the next step given the steps before it, along a given call structure.

Needs what is left to do, not what was done: for each frame on the stack, the log-probability of the rest of the trace
from any of its states, the frames below it included. Letters as in `exact_kernels`.
"""

from typing import no_type_check

import numpy as np
from numba import njit

from hvil.learners.exact.inside_kernels import _log_sum, _start


@njit(cache=True)
@no_type_check
def _call_value(lattice, inside, child, s, d, reach, after, terms):
    """The value of a call at s + d: over all times of its return; after[e] is the value of the caller then."""
    count = min(reach - d, lattice.longest)
    for j in range(1, count + 1):
        terms[j - 1] = inside[child, s + d, j] + after[d + j]
    return _log_sum(terms, count, False)


@njit(cache=True)
@no_type_check
def _frame_values(lattice, log_probs, inside, node, s, reach, ends, values):
    """Fill values[τ, l, d] of a frame called at s; ends[d] is the value of the frames below if it returns then."""
    width, terminate = lattice.width[lattice.block[node]], lattice.acts.shape[1]
    counters = min(lattice.counters, reach)
    terms, calls = np.empty(reach + 1), np.empty(width)
    choices = np.empty(2 + width)
    values[: counters + 1, :width, : reach + 1] = -np.inf
    for counter in range(counters, -1, -1):
        for d in range(reach if counter else 0, counter - 1, -1):
            t = s + d
            more = counter < counters and d < reach
            for k in range(width - 1):
                calls[k] = -np.inf
                if more and lattice.children[node, k] >= 0:
                    calls[k] = _call_value(
                        lattice, inside, lattice.children[node, k], s, d, reach, values[counter + 1, 1 + k], terms
                    )
            start = _start(lattice, node, t, counter)
            for slot in range(width if counter else 1):
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
                    values[counter, slot, d] = _log_sum(choices, 1 + width, False)


@njit(cache=True)
@no_type_check
def step_posteriors(lattice, log_probs, inside, taken, depth, result):
    """Fill result[i, u] with log p(u_i = u | u_0 … u_{i-1}, x) along a structure whose choices are `taken`."""
    steps, terminate = len(lattice.actions), lattice.acts.shape[1]
    counters, calls = min(lattice.counters, steps), lattice.children.shape[1]
    values = np.empty((depth, counters + 1, 1 + calls, steps + 1))
    # A frame's ends: the value of the frames below at each time, from the frame's call on.
    ends = np.full((depth, steps + 1), -np.inf)
    node, begun = np.zeros(depth, dtype=np.int64), np.zeros(depth, dtype=np.int64)
    counter, slot = np.zeros(depth, dtype=np.int64), np.zeros(depth, dtype=np.int64)
    reaches = np.zeros(depth, dtype=np.int64)
    terms = np.empty(steps + 1)
    top, t = 0, 0
    reaches[0] = steps
    ends[0, steps] = 0.0
    _frame_values(lattice, log_probs, inside, 0, 0, steps, ends[0], values[0])
    for i in range(len(taken)):
        here, s = node[top], begun[top]
        d = t - s
        reach = reaches[top]
        row = lattice.rows[_start(lattice, here, t, counter[top]) + slot[top]]
        result[i] = -np.inf
        if counter[top]:
            result[i, terminate] = log_probs[row, terminate] + ends[top, d]
        if counter[top] < counters and d < reach:
            after = values[top, counter[top] + 1]
            action = lattice.actions[t]
            if lattice.acts[here, action]:
                result[i, action] = log_probs[row, action] + after[0, d + 1]
            for k in range(lattice.width[lattice.block[here]] - 1):
                child = lattice.children[here, k]
                if child >= 0:
                    value = _call_value(lattice, inside, child, s, d, reach, after[1 + k], terms)
                    result[i, terminate + 1 + k] = log_probs[row, terminate + 1 + k] + value
        result[i] -= values[top, counter[top], slot[top], d]
        choice = taken[i]
        if choice == terminate:
            top -= 1
            continue
        counter[top] += 1
        if choice < terminate:
            slot[top] = 0
            t += 1
            continue
        slot[top] = choice - terminate
        child = lattice.children[here, choice - terminate - 1]
        for e in range(reach - d + 1):
            ends[top + 1, e] = values[top, counter[top], slot[top], d + e]
        top += 1
        node[top], begun[top], counter[top], slot[top] = child, t, 0, 0
        reaches[top] = min(lattice.longest, reach - d)
        _frame_values(lattice, log_probs, inside, child, t, reaches[top], ends[top], values[top])
