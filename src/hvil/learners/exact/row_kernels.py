"""Compiled search for the policy steps that a trace's call structures visit. Letters as in `exact_kernels`."""

from typing import no_type_check

from numba import njit


@njit(cache=True)
@no_type_check
def row_keys(
    actions,
    seen,
    enters,
    emits,
    calls,
    width,
    only_root,
    has_root,
    counters,
    longest,
    radix,
    last_count,
    observations,
    keys,
):
    """Fill `keys` with a number for (block, τ, last, observation) wherever a call structure may come by, else -1."""
    steps, action_count = len(actions), emits.shape[1]
    place = 0
    for block in range(len(width)):
        most = counters if has_root[block] else min(counters, longest)
        for t in range(steps + 1):
            for counter in range(counters + 1):
                for slot in range(width[block]):
                    keys[place] = -1
                    last = -2
                    if counter == 0:
                        if slot == 0 and t < steps and enters[block, actions[t]] and (t == 0 or not only_root[block]):
                            last = -1
                    elif counter <= t and counter <= most:
                        action = actions[t - 1]
                        if slot == 0:
                            if emits[block, action]:
                                last = action
                        elif calls[block, slot - 1, action]:
                            last = action_count + slot
                    if last > -2:
                        keys[place] = ((block * radix + counter) * last_count + last + 1) * observations
                        keys[place] += seen[t]
                    place += 1
