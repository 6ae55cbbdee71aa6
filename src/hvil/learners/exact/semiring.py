"""Compiled operations that differ between the two questions to one dynamic program: all call structures, or the best.

Both multiply along a structure (they add log-probabilities). Where structures part, `SUM` sums them and picks one in
proportion to its probability; `BEST` keeps the largest and picks that one.
"""

from typing import NamedTuple, no_type_check

import numpy as np
from numba import njit


class Semiring(NamedTuple):
    """How alternatives are combined."""

    best: bool
    """Keep the largest alternative; otherwise sum them."""


SUM = Semiring(best=False)
"""Σ over call structures: likelihood, expected counts, samples of the posterior."""
BEST = Semiring(best=True)
"""max over call structures: the most likely one (Viterbi)."""


@njit(cache=True, inline="always")
@no_type_check
def combine(semiring, values, count):
    """The first `count` log-values as one: the log of the sum of their exponentials, or the largest; -∞ for none."""
    top = -np.inf
    for i in range(count):
        if values[i] > top:
            top = values[i]
    if semiring.best or top == -np.inf:
        return top
    total = 0.0
    for i in range(count):
        total += np.exp(values[i] - top)
    return top + np.log(total)


@njit(cache=True, inline="always")
@no_type_check
def combine_two(semiring, one, other):
    """Two log-values as one."""
    return max(one, other) if semiring.best else np.logaddexp(one, other)


@njit(cache=True)
@no_type_check
def pick(semiring, values, count, rng):
    """The index of one of the first `count` log-values: drawn in proportion to their exponentials, or the largest."""
    top = 0
    for i in range(count):
        if values[i] > values[top]:
            top = i
    if semiring.best:
        return top
    total = 0.0
    for i in range(count):
        total += np.exp(values[i] - values[top])
    left = rng.random() * total
    for i in range(count):
        left -= np.exp(values[i] - values[top])
        if left < 0.0:
            return i
    return top
