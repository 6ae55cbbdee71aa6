"""Compiled search for the rows of the step table that call structures of a trace can visit. Letters as in `lattice`."""

from typing import NamedTuple, no_type_check

import numpy as np
from numba import njit

NO_ROW = -1
"""Key of a cell (block, t, τ, l) that no call structure visits."""
IMPOSSIBLE = -2
"""In place of the `last` of such a cell; -1 is the `last` of a frame without a step."""


class Blocks(NamedTuple):
    """What the nodes of each block of rows can do; they have one procedure and one set of masks in common."""

    enters: np.ndarray
    """(blocks, actions) whether some node can begin with an action, its own or a callee's."""
    acts: np.ndarray
    """(blocks, actions) whether the procedure may take an action itself."""
    calls: np.ndarray
    """(blocks, C, actions) whether a call of k can end with an action in some node."""
    width: np.ndarray
    """(blocks,) number of slots l: 1 + the number of callees."""
    holds_root: np.ndarray
    """(blocks,) whether the root at the bottom of the stack is among the nodes: no limit on spans holds for it."""
    holds_calls: np.ndarray
    """(blocks,) whether some other node is: it can be called at any time, the root at the bottom only at 0."""


class KeyCode(NamedTuple):
    """How (block, τ, last, observation) are coded as one number: the digits' ranges after the block."""

    counters: int
    lasts: int
    observations: int


@njit(cache=True)
@no_type_check
def row_keys(blocks, code, actions, observation, counters, longest, keys):
    """Fill `keys` (block, t, τ, l flat) with the code of the row of each cell, `NO_ROW` where none is visited.

    `observation` is the number of the distinct observation at each time.
    """
    length, terminate = len(actions), blocks.acts.shape[1]
    cell = 0
    for block in range(len(blocks.width)):
        most = counters if blocks.holds_root[block] else min(counters, longest)
        for t in range(length + 1):
            callable_now = t < length and (t == 0 or blocks.holds_calls[block])
            for counter in range(counters + 1):
                for slot in range(blocks.width[block]):
                    last = IMPOSSIBLE
                    if counter == 0:
                        if slot == 0 and callable_now and blocks.enters[block, actions[t]]:
                            last = -1
                    elif counter <= t and counter <= most:
                        action = actions[t - 1]
                        if slot == 0:
                            if blocks.acts[block, action]:
                                last = action
                        elif blocks.calls[block, slot - 1, action]:
                            last = terminate + slot
                    if last == IMPOSSIBLE:
                        keys[cell] = NO_ROW
                    else:
                        key = (block * code.counters + counter) * code.lasts + last + 1
                        keys[cell] = key * code.observations + observation[t]
                    cell += 1
