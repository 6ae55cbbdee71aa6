"""Compiled choice of call structures from the span tables: the most likely one, or samples from the posterior.

Frames are unwound from their return back to their call, all samples together, callers before callees, so that what
a frame can do (`frame_forward`) is computed once for all of them and never stored.
"""

from typing import no_type_check

import numpy as np
from numba import njit

from hvil.learners.exact.inside_kernels import _start, frame_forward


@njit(cache=True)
@no_type_check
def _pick(terms, count, best, rng):
    """The index of the largest of some log-weights, or one in proportion to them."""
    top = 0
    for i in range(count):
        if terms[i] > terms[top]:
            top = i
    if best:
        return top
    total = 0.0
    for i in range(count):
        total += np.exp(terms[i] - terms[top])
    left = rng.random() * total
    for i in range(count):
        left -= np.exp(terms[i] - terms[top])
        if left < 0.0:
            return i
    return top


@njit(cache=True)
@no_type_check
def _pick_last(lattice, log_probs, node, t, counter, choice, alpha, terms, best, rng):
    """The last step (as l) before a choice of the frame at t with counter τ."""
    width = lattice.width[lattice.block[node]] if counter else 1
    start = _start(lattice, node, t, counter)
    for slot in range(width):
        terms[slot] = -np.inf
        if alpha[slot] > -np.inf:
            terms[slot] = alpha[slot] + log_probs[lattice.rows[start + slot], choice]
    return _pick(terms, width, best, rng)


@njit(cache=True)
@no_type_check
def _pick_return(lattice, log_probs, node, t, counters, alpha, terms, best, rng):
    """Counter and last step with which a frame returns at t; alpha is (τ, l) at this time."""
    width, terminate = lattice.width[lattice.block[node]], lattice.acts.shape[1]
    for counter in range(1, counters + 1):
        start = _start(lattice, node, t, counter)
        for slot in range(width):
            place = (counter - 1) * width + slot
            terms[place] = -np.inf
            if alpha[counter, slot] > -np.inf:
                terms[place] = alpha[counter, slot] + log_probs[lattice.rows[start + slot], terminate]
    picked = _pick(terms, counters * width, best, rng)
    return 1 + picked // width, picked % width


@njit(cache=True)
@no_type_check
def _grown(array):
    larger = np.empty((2 * len(array), array.shape[1]), dtype=array.dtype)
    larger[: len(array)] = array
    return larger


@njit(cache=True)
@no_type_check
def choose_structures(lattice, log_probs, tables, count, best, rng):
    """Steps of `count` call structures in no particular order: (structure, time, depth, row of the table, choice)."""
    nodes, steps, terminate = len(lattice.children), len(lattice.actions), lattice.acts.shape[1]
    counters, calls = min(lattice.counters, steps), lattice.children.shape[1]
    alpha = np.empty((counters + 1, 1 + calls, steps + 1))
    called = np.empty((counters + 1, calls, steps + 1))
    bounds = np.empty((counters + 1, 2), dtype=np.int64)
    returned = np.empty(steps + 1)
    terms = np.empty(max((counters + 1) * (1 + calls), steps + 1))
    # Frames to unwind, a list for each node and time of call: (structure, actions until the return, depth, next one).
    first = np.full((nodes, steps), -1)
    frames = np.empty((max(16, 2 * count), 4), dtype=np.int64)
    taken = np.empty((max(16, 2 * count * steps), 5), dtype=np.int64)
    frame_count, step_count = count, 0
    for i in range(count):
        frames[i] = (i, steps, 1, i - 1)
    first[0, 0] = count - 1
    for node in range(nodes):
        for s in range(steps):
            reach, frame = 0, first[node, s]
            while frame >= 0:
                reach, frame = max(reach, frames[frame, 1]), frames[frame, 3]
            if reach == 0:
                continue
            frame_forward(lattice, log_probs, tables, node, s, reach, best, alpha, called, bounds, returned)
            frame = first[node, s]
            while frame >= 0:
                structure, d, depth = frames[frame, 0], frames[frame, 1], frames[frame, 2]
                frame = frames[frame, 3]
                counter, slot = _pick_return(
                    lattice, log_probs, node, s + d, min(counters, d), alpha[:, :, d], terms, best, rng
                )
                choice = terminate
                while True:
                    row = np.int64(lattice.rows[_start(lattice, node, s + d, counter) + slot])
                    if step_count == len(taken):
                        taken = _grown(taken)
                    taken[step_count] = (structure, s + d, depth, row, choice)
                    step_count += 1
                    if counter == 0:
                        break
                    counter -= 1
                    if slot == 0:
                        d -= 1
                        choice = lattice.actions[s + d]
                    else:
                        child, low = lattice.children[node, slot - 1], bounds[counter, 0]
                        high = min(bounds[counter, 1], d - 1)
                        low = max(low, d - lattice.longest)
                        for e in range(low, high + 1):
                            terms[e - low] = called[counter, slot - 1, e] + tables.inside[child, s + e, d - e]
                        end, d = d, low + _pick(terms, high + 1 - low, best, rng)
                        choice = terminate + slot
                        if frame_count == len(frames):
                            frames = _grown(frames)
                        frames[frame_count] = (structure, end - d, depth + 1, first[child, s + d])
                        first[child, s + d] = frame_count
                        frame_count += 1
                    slot = _pick_last(
                        lattice, log_probs, node, s + d, counter, choice, alpha[counter, :, d], terms, best, rng
                    )
    return taken[:step_count]
