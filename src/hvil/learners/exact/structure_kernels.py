"""Compiled choice of call structures from the span tables: samples of the posterior, or the most likely one.

The semiring of the tables says which. Frames are unwound from their return back to their call, callers before callees
and all samples together, so `frame_forward` computes once for all of them what a frame can do, and nothing of it is
stored. Letters as in `lattice`.
"""

from typing import no_type_check

import numpy as np
from numba import njit

from hvil.learners.exact.inside_kernels import frame_forward
from hvil.learners.exact.lattice import empty_states, rows_start, slot_count
from hvil.learners.exact.semiring import pick


@njit(cache=True)
@no_type_check
def _pick_return(semiring, lattice, log_probs, alpha, node, t, d, most, terms, rng):
    """The counter (up to `most`) and the last step l with which a frame returns at t = s + d."""
    width, terminate = lattice.width[lattice.block[node]], lattice.acts.shape[1]
    for counter in range(1, most + 1):
        start = rows_start(lattice, node, t, counter)
        for slot in range(width):
            index = (counter - 1) * width + slot
            terms[index] = -np.inf
            if alpha[counter, slot, d] > -np.inf:
                terms[index] = alpha[counter, slot, d] + log_probs[lattice.rows[start + slot], terminate]
    picked = pick(semiring, terms, most * width, rng)
    return 1 + picked // width, picked % width


@njit(cache=True, inline="always")
@no_type_check
def _pick_last(semiring, lattice, log_probs, alpha, node, t, counter, d, choice, terms, rng):
    """The last step l that a frame had taken before a choice at t = s + d with counter τ."""
    slots, start = slot_count(lattice, node, counter), rows_start(lattice, node, t, counter)
    for slot in range(slots):
        terms[slot] = -np.inf
        if alpha[counter, slot, d] > -np.inf:
            terms[slot] = alpha[counter, slot, d] + log_probs[lattice.rows[start + slot], choice]
    return pick(semiring, terms, slots, rng)


@njit(cache=True, inline="always")
@no_type_check
def _pick_call(semiring, called, inside, child, s, e, low, high, terms, rng):
    """The time d since s, between low and high, of the call that has returned at s + e."""
    for d in range(low, high + 1):
        terms[d - low] = called[d] + inside[child, s + d, e - d]
    return low + pick(semiring, terms, high + 1 - low, rng)


@njit(cache=True, inline="always")
@no_type_check
def _with_room(array, used):
    """The array itself if it has an unused row, else a copy with twice the rows."""
    if used < len(array):
        return array
    larger = np.empty((2 * len(array), array.shape[1]), dtype=array.dtype)
    larger[: len(array)] = array
    return larger


@njit(cache=True)
@no_type_check
def choose_structures(lattice, log_probs, tables, count, rng):
    """Steps of `count` call structures in no particular order: (structure, time, depth, row of the table, choice)."""
    nodes, length, terminate = len(lattice.children), len(lattice.actions), lattice.acts.shape[1]
    states, semiring = empty_states(lattice), tables.semiring
    alpha = states.alpha
    counters, slots = alpha.shape[0] - 1, alpha.shape[1]
    terms = np.empty(max((counters + 1) * slots, length + 1))
    # Frames to unwind, a linked list for each node and time of call: (structure, span, depth, next in the list).
    first = np.full((nodes, length), -1)
    frames = np.empty((max(16, 2 * count), 4), dtype=np.int64)
    taken = np.empty((max(16, 2 * count * length), 5), dtype=np.int64)
    frame_count, step_count = count, 0
    for i in range(count):
        frames[i] = (i, length, 1, i - 1)
    first[0, 0] = count - 1
    for node in range(nodes):
        for s in range(length):
            reach, frame = 0, first[node, s]
            while frame >= 0:
                reach, frame = max(reach, frames[frame, 1]), frames[frame, 3]
            if reach == 0:
                continue
            frame_forward(lattice, log_probs, tables, node, s, reach, states)
            frame = first[node, s]
            while frame >= 0:
                structure, d, depth = frames[frame, 0], frames[frame, 1], frames[frame, 2]
                frame = frames[frame, 3]
                counter, slot = _pick_return(
                    semiring, lattice, log_probs, alpha, node, s + d, d, min(counters, d), terms, rng
                )
                choice = terminate
                while True:
                    row = np.int64(lattice.rows[rows_start(lattice, node, s + d, counter) + slot])
                    taken = _with_room(taken, step_count)
                    taken[step_count] = (structure, s + d, depth, row, choice)
                    step_count += 1
                    if counter == 0:
                        break
                    counter -= 1
                    if slot == 0:
                        d -= 1
                        choice = lattice.actions[s + d]
                    else:
                        child, end = lattice.children[node, slot - 1], d
                        low = max(states.bounds[counter, 0], end - lattice.longest)
                        high = min(states.bounds[counter, 1], end - 1)
                        called = states.called[counter, slot - 1]
                        d = _pick_call(semiring, called, tables.inside, child, s, end, low, high, terms, rng)
                        choice = terminate + slot
                        frames = _with_room(frames, frame_count)
                        frames[frame_count] = (structure, end - d, depth + 1, first[child, s + d])
                        first[child, s + d] = frame_count
                        frame_count += 1
                    slot = _pick_last(semiring, lattice, log_probs, alpha, node, s + d, counter, d, choice, terms, rng)
    return taken[:step_count]
