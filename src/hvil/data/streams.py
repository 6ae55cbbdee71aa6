"""Random streams: the numbers that keep random draws of one seed independent of each other.

A draw takes its generator from the seed and from a number that says what the draw is for, so that a change to one
kind of draw leaves all others as they are. What is drawn is the callers' business.
"""

from enum import IntEnum

import numpy as np

from hvil.gate.errors import InputError


class Stream(IntEnum):
    """What a random draw is for. The values are part of every result: changing one changes what a seed gives."""

    TEST_TRACES = 1
    """The seed of a task's test traces."""
    FIRST_WEIGHTS = 1
    """First weights that are taken from the data.

    It shares the value of `TEST_TRACES`, because published records were made with it. That one makes a seed and this
    one a generator, so they draw nothing in common that matters.
    """
    HELD_OUT = 2
    """Which traces of a file are held out for the test."""
    ANNOTATED = 3
    """Which traces keep their annotations."""
    POOL_SPLIT = 3
    """Which traces of an experiment's pool are for training and which for the test.

    It shares the value of `ANNOTATED` (Python makes it an alias), because published figures were drawn with it. A
    pool's traces are never thinned out by `ANNOTATED`, so no draw is used twice.
    """
    VALIDATION = 4
    """Which training traces are held out for early stopping."""
    RESTART = 7
    """The initial weights, the order of the data and the samples of a restart."""
    STREAMED_TRACES = 5
    """The order of the traces in the part of a streamed file that is in memory."""
    STREAMED_GROUPS = 6
    """The order in which an epoch reads the row groups of a streamed file."""

    def generator(self, seed: int, *numbers: int) -> np.random.Generator:
        """The generator of this stream for a seed.

        Args:
            seed: the run's seed.
            numbers: what else tells this draw from others of the same kind, such as the epoch.
        """
        return np.random.default_rng([seed, self, *numbers])


def random_generator(seed: int) -> np.random.Generator:
    """The generator of a seed that a user gave; a negative seed is an `InputError`."""
    return np.random.default_rng(_checked(seed))


def independent_seed(seed: int) -> int:
    """A seed for test traces, so that they are independent of the training traces of the same seed."""
    return int(np.random.SeedSequence([_checked(seed), Stream.TEST_TRACES]).generate_state(1, np.uint64)[0])


def restart_seed(seed: int, restart: int) -> int:
    """The seed of a restart's weights, order and samples; restart 0 has the seed itself."""
    if not restart:
        return seed
    return int(np.random.SeedSequence([seed, Stream.RESTART, restart]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _checked(seed: int) -> int:
    if seed < 0:
        raise InputError(f"seed {seed}: expected 0 or more")
    return seed
