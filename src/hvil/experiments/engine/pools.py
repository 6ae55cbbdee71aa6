"""Pools: one large set of demonstrations of a task, from which every run draws its training and test traces.

The paper's Karel experiments work this way. A pool takes minutes to make, so it stays in memory and in the user's cache
directory. What is trained on the traces is the business of `cells`.

Letters: N traces of the pool.
"""

import hashlib
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int

from hvil import __version__
from hvil.data import trace_files
from hvil.data.sources import Data
from hvil.data.streams import Stream
from hvil.data.tasks import Task, find_task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.gate.files import cache_directory

POOL_SEED = 0
"""The seed of the demonstrations. It is the same for all runs, because they draw from one pool."""


def pooled_data(
    name: str, size: int, *, demos: int, test_traces: int, percentile: int, run: int, validation: int = 0
) -> Data:
    """The training and test traces of a run, and if asked for, further traces like those for training.

    Args:
        name: the task.
        size: how many demonstrations the pool has.
        demos: how many of them are for training.
        test_traces: how many of them are for testing.
        percentile: if it is not 0, training traces are shorter than this percentile of the pool's different lengths,
            and test traces are at least as long.
        run: the number of the run; it decides which traces are drawn.
        validation: how many further traces to choose the best weights by.

    Raises:
        InputError: the pool has too few traces that are short (or long) enough.
    """
    traces = pool(name, size)
    drawn, test = split(traces.lengths, demos + validation, test_traces, percentile, run)
    return Data(
        training=traces[drawn[:demos]],
        test=traces[test],
        task=find_task(name),
        validation=traces[drawn[demos:]] if validation else None,
    )


def split(
    lengths: Int[np.ndarray, "N"], demos: int, test_traces: int, percentile: int, seed: int
) -> tuple[Int[np.ndarray, "demos"], Int[np.ndarray, "test"]]:
    """Numbers of the traces for training and of those for testing; no trace is both."""
    order = Stream.POOL_SPLIT.generator(seed).permutation(len(lengths))
    if not percentile:
        return order[test_traces : test_traces + demos], order[:test_traces]
    short = is_short(lengths, percentile)[order]
    training, test = order[short][:demos], order[~short][:test_traces]
    if len(training) < demos or len(test) < test_traces:
        raise InputError(
            f"{len(lengths)} demonstrations have {short.sum()} below percentile {percentile} of their lengths and "
            f"{(~short).sum()} above; {demos} and {test_traces} were wanted"
        )
    return training, test


def is_short(lengths: Int[np.ndarray, "N"], percentile: int) -> Bool[np.ndarray, "N"]:
    """Which traces are shorter than a percentile of the different lengths that occur."""
    return np.asarray(lengths < np.percentile(np.unique(lengths), percentile))


@lru_cache(maxsize=8)
def pool(name: str, size: int) -> Traces:
    """The demonstrations of a pool, read from the cache or made and written there."""
    source = find_task(name)
    path = _cache_path(source, size)
    with suppress(InputError):  # the file is missing or damaged: make the pool again
        return trace_files.load(path)
    traces = source.demonstrations(size, POOL_SEED)
    with suppress(OSError, InputError):  # a cache that cannot be written costs time, and nothing else
        path.parent.mkdir(parents=True, exist_ok=True)
        trace_files.save(traces, path)
    return traces


def _cache_path(source: Task, size: int) -> Path:
    """The file of a pool; its name changes with everything that the demonstrations depend on."""
    text = f"{source.name} {source.contents} {size} {POOL_SEED} {__version__}"
    return cache_directory() / "pools" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.npz"
