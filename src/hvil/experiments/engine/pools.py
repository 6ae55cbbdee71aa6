"""Training and test traces out of one large set of demonstrations, as in the paper's Karel experiments.

A pool takes a while to make, so it is kept: in memory, and in the user's cache directory. What is done with the traces
is `cells`' business.

Letters: N traces of the pool.
"""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Int

from hvil import __version__
from hvil.data.sources import Data
from hvil.data.tasks import Task, find_task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError

if TYPE_CHECKING:
    from hvil.experiments.engine.cells import Cell

POOL_SEED = 0
"""Of the one pool that all runs draw from."""


def pooled_data(cell: "Cell") -> Data:
    """The cell's traces: the run's number decides which of the pool's they are.

    Raises:
        InputError: the pool has too few that are short (or long) enough.
    """
    traces = pool(cell.task, cell.pool)
    training, test = split(traces.lengths, cell.demos, cell.test_traces, cell.percentile, cell.run)
    return Data(traces[training], traces[test], find_task(cell.task))


def split(
    lengths: Int[np.ndarray, "N"], demos: int, test_traces: int, percentile: int, seed: int
) -> tuple[Int[np.ndarray, "demos"], Int[np.ndarray, "test"]]:
    """Which traces are for training and which for testing; no trace is both."""
    order = np.random.default_rng([seed, 3]).permutation(len(lengths))
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
def pool(name: str, count: int) -> Traces:
    """The task's demonstrations, from the cache if they are there."""
    from hvil.data import trace_files as traces_io

    found = find_task(name)
    path = _path(found, count)
    with suppress(InputError):  # not there, or damaged: make it again
        return traces_io.load(path)
    traces = found.demonstrations(count, POOL_SEED)
    _keep(path, lambda: traces_io.save(traces, path))
    return traces


def _path(found: Task, count: int) -> Path:
    text = f"{found.name} {found.contents} {count} {POOL_SEED} {__version__}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "hvil" / "pools" / f"{digest}.npz"


def _keep(path: Path, save: Callable[[], None]) -> None:
    """Save what can be made again; if there is no place for it, it will be."""
    with suppress(OSError, InputError):
        path.parent.mkdir(parents=True, exist_ok=True)
        save()
