"""Training batches from a Parquet file that does not fit in memory: a few shuffled row groups at a time.

Our own files have whole traces in each row group. In every epoch the groups come in a new order; a few of them at a
time are in memory (a pool), and batches are drawn from those. A batch depends on the seed and the number of the update
alone, so a run that is resumed draws the same batches as one that was never stopped.

Letters: G row groups.
"""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Int

from hvil.data.formats.columns import TableReader
from hvil.data.formats.parquet_reader import check_columns, check_row_groups, open_parquet, read_column
from hvil.data.formats.tables import read_traces
from hvil.data.streams import Stream
from hvil.data.traces import Traces
from hvil.gate.errors import InputError, one_line

POOL_GROUPS = 2
"""Row groups in memory at a time. More of them mix the traces better; each has up to 131,072 steps."""
STREAMED_BYTES = 1 << 30
"""A file that is larger than this, uncompressed, is streamed unless the user says otherwise."""


class TraceStream:
    """The traces of some row groups of a file, in batches."""

    def __init__(self, path: str | os.PathLike[str], groups: Int[np.ndarray, "G"], seed: int) -> None:
        """Draw from a file.

        Args:
            path: a Parquet file of ours.
            groups: the row groups to draw from.
            seed: of the run.
        """
        self.path, self.groups, self.seed = Path(path), groups, seed
        self.counts = trace_counts(self.path)[groups]
        self._start, self._epoch = 0, 0
        self._loaded: tuple[tuple[int, int], Traces] | None = None

    def __len__(self) -> int:
        return int(self.counts.sum())

    def batch(self, update: int, size: int) -> Traces:
        """The batch of an update, counted from 0."""
        if update < self._start:
            self._start = self._epoch = 0
        pools, batches = self._plan(size)
        while update >= self._start + batches[-1]:
            self._start, self._epoch = self._start + int(batches[-1]), self._epoch + 1
            pools, batches = self._plan(size)
        batch = update - self._start
        pool = int(np.searchsorted(batches, batch, side="right"))
        batch -= int(batches[pool - 1]) if pool else 0
        traces = self._pool(pool, pools[pool])
        order = Stream.STREAMED_TRACES.generator(self.seed, self._epoch, pool).permutation(len(traces))
        return traces[order[batch * size : (batch + 1) * size]]

    def _plan(self, size: int) -> tuple[list[Int[np.ndarray, "groups"]], Int[np.ndarray, "pools"]]:
        """This epoch's pools of row groups, and how many batches there are up to the end of each."""
        order = Stream.STREAMED_GROUPS.generator(self.seed, self._epoch).permutation(len(self.groups))
        pools = [order[first : first + POOL_GROUPS] for first in range(0, len(order), POOL_GROUPS)]
        return pools, np.cumsum([max(int(self.counts[pool].sum()) // size, 1) for pool in pools])

    def _pool(self, number: int, members: Int[np.ndarray, "groups"]) -> Traces:
        key = (self._epoch, number)
        if self._loaded is None or self._loaded[0] != key:
            self._loaded = None  # frees the old pool before the new one is read
            self._loaded = (key, read_groups(self.path, np.sort(self.groups[members])))
        return self._loaded[1]


def should_stream(path: str | os.PathLike[str]) -> bool:
    """Whether a trace file is one of ours in Parquet, and too large to be read as a whole."""
    if Path(path).suffix != ".parquet" or not Path(path).is_file():
        return False
    try:
        with open_parquet(path) as file:
            parts = file.metadata
            size = sum(parts.row_group(group).total_byte_size for group in range(parts.num_row_groups))
            return size > STREAMED_BYTES and b"hvil" in (file.schema_arrow.metadata or {})
    except (pa.ArrowException, OSError, ValueError):
        return False  # reading the file says what is wrong with it


def trace_counts(path: Path) -> Int[np.ndarray, "G"]:
    """How many traces each row group of a file of ours has, from the file's own statistics."""
    try:
        with open_parquet(path) as file:
            parts, names = file.metadata, file.schema_arrow.names
            if b"hvil" not in (file.schema_arrow.metadata or {}) or "trace" not in names:
                raise InputError(f"{path}: only Parquet files written by hvil can be streamed; load and save it first")
            check_columns(file, range(parts.num_row_groups))
            column = names.index("trace")
            groups = [parts.row_group(group).column(column).statistics for group in range(parts.num_row_groups)]
            if not groups or not all(statistics and statistics.has_min_max for statistics in groups):
                raise InputError(f"{path}: cannot be streamed, its row groups do not say which traces they hold")
            counts = [statistics.max - statistics.min + 1 for statistics in groups]
            if any(not 0 < count <= parts.row_group(group).num_rows for group, count in enumerate(counts)):
                raise InputError(f"{path}: cannot be streamed, its traces are not numbered one after another")
            return np.array(counts, dtype=np.int64)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: not a Parquet file of traces, or damaged ({one_line(error)})") from error


def read_groups(path: Path, groups: Int[np.ndarray, "G"]) -> Traces:
    """The traces of some row groups."""
    try:
        with open_parquet(path) as file:
            numbers: list[int] = groups.tolist()
            check_row_groups(path, file, numbers)
            rows = sum(file.metadata.row_group(number).num_rows for number in numbers)
            return read_traces(
                TableReader(file.schema_arrow, rows, lambda name: read_column(file, name, numbers))
            ).traces
    except InputError as error:
        message = str(error)
        raise InputError(message if message.startswith(str(path)) else f"{path}: {message}") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: damaged ({one_line(error)})") from error
