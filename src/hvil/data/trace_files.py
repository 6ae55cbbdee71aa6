"""Trace files: `save` and `load` pick the format that a name asks for. The formats themselves are in `formats`.

Arrow and Minari are imported when a file needs them, because loading them takes longer than most commands do.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Int

from hvil.data.file_names import READ, SEVERAL, TABLES, ending, files_of
from hvil.data.formats import npz
from hvil.data.reading import Reading
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.gate.files import write_atomically

if TYPE_CHECKING:
    import pyarrow as pa

    from hvil.data.formats.recognition import Columns

WRITTEN = (".npz", ".parquet")
"""Endings of the files that `save` writes."""


def save(traces: Traces, path: str | os.PathLike[str]) -> None:
    """Write a trace file (the name's ending says which kind), or the Minari data set `minari:ID`."""
    if _is_minari(path):
        from hvil.data.formats.minari import save_minari  # here, for a fast start

        save_minari(traces, str(path))
    elif _kind(path) == ".npz":
        npz.write_traces(traces, path)
    else:
        from hvil.data.formats.parquet_writer import write_parquet  # here, for a fast start

        write_atomically(path, lambda temporary: write_parquet(traces, temporary))


def load(path: str | os.PathLike[str], columns: "Columns | None" = None, reading: Reading | None = None) -> Traces:
    """Read trace files or the Minari data set `minari:ID`; what is wrong with one is an `InputError` that names it.

    Args:
        path: a file, several with `|` between them, a pattern such as `logs/*.csv`, a directory, or `minari:ID`.
            Files end in `.npz` (one alone), or are tables with one row a step (`formats.table_files`).
        columns: which columns of a table mean what, as far as the user says so.
        reading: how the columns are to be read, if a run has been trained on such a table.
    """
    if _is_minari(path):
        from hvil.data.formats.minari import load_minari  # here, for a fast start

        return load_minari(str(path), reading)
    if ending(path) not in READ and not Path(path).is_dir() and SEVERAL not in str(path):
        raise InputError(f"{path}: trace files end in {', '.join(READ)}; Minari data sets are minari:ID")
    files = files_of(path)
    try:
        if ending(files[0]) == ".npz":
            return npz.read_traces(files[0])
        from hvil.data.formats.columns import FILE  # here, for a fast start
        from hvil.data.formats.parquet_reader import read_parquet  # here, for a fast start
        from hvil.data.formats.recognition import OWN_COLUMNS  # here, for a fast start

        by_file = reading is not None and FILE in reading.trace
        if len(files) == 1 and ending(files[0]) == ".parquet" and not by_file:
            return read_parquet(files[0], columns or OWN_COLUMNS, reading)
        return load_located(path, columns, reading).traces
    except InputError as error:
        raise _named(error, path, files) from error


class LocatedTraces(NamedTuple):
    """Traces with the table of another tool that they come from."""

    traces: Traces
    rows: Int[np.ndarray, "R"]
    """The row of the table that each observation is from."""
    table: "pa.Table"


def load_located(
    path: str | os.PathLike[str], columns: "Columns | None" = None, reading: Reading | None = None
) -> LocatedTraces:
    """Read tables of other tools, and keep the table beside the traces; `load` explains the arguments."""
    from hvil.data.formats.columns import FILE  # here, for a fast start
    from hvil.data.formats.recognition import OWN_COLUMNS  # here, for a fast start
    from hvil.data.formats.table_files import read_files  # here, for a fast start
    from hvil.data.formats.tables import located_traces  # here, for a fast start

    files = files_of(path)
    try:
        table = read_files(files)
        traces, rows = located_traces(table, columns or OWN_COLUMNS, reading)
        own = table if len(files) > 1 else table.drop_columns([FILE])
        return LocatedTraces(traces=traces, rows=rows, table=own)
    except InputError as error:
        raise _named(error, path, files) from error


def is_foreign_table(path: str | os.PathLike[str]) -> bool:
    """Whether a source names tables of other tools, as opposed to trace files of our own and Minari data sets."""
    if _is_minari(path):
        return False
    files = files_of(path)
    if len(files) > 1 or ending(files[0]) != ".parquet":
        return ending(files[0]) in TABLES
    from hvil.data.formats.parquet_reader import is_own  # here, for a fast start

    return not is_own(files[0])


def _named(error: InputError, path: str | os.PathLike[str], files: Sequence[str]) -> InputError:
    """The error with the name of what was read before it, unless it begins with it."""
    message = str(error)
    return InputError(message if message.startswith((str(path), *files)) else f"{path}: {message}")


def check_target(path: str | os.PathLike[str]) -> None:
    """Refuse a name that `save` could not write to, before the work of making traces is done."""
    if _is_minari(path):
        from hvil.data.formats.minari import check_new  # here, for a fast start

        check_new(str(path))
    elif _kind(path) and not Path(path).parent.is_dir():
        raise InputError(f"{path}: the directory {Path(path).parent} does not exist")


def _is_minari(path: str | os.PathLike[str]) -> bool:
    return str(path).startswith("minari:")


def _kind(path: str | os.PathLike[str]) -> str:
    kind = Path(path).suffix
    if kind not in WRITTEN:
        raise InputError(f"{path}: trace files end in {' or '.join(WRITTEN)}; Minari data sets are minari:ID")
    return kind
