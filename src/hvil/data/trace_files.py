"""Trace files: `save` and `load` pick the format that a name asks for. The formats themselves are in `formats`.

Arrow and Minari are imported when a file needs them, because loading them takes longer than most commands do.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from hvil.data.formats import npz
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.gate.files import write_atomically

if TYPE_CHECKING:
    from hvil.data.formats.tables import Columns

WRITTEN = (".npz", ".parquet")
"""Endings of the files that `save` writes."""
READ = (*WRITTEN, ".csv")
"""Endings of the files that `load` reads."""


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


def load(path: str | os.PathLike[str], columns: "Columns | None" = None) -> Traces:
    """Read a trace file or the Minari data set `minari:ID`; what is wrong with it is an `InputError` that names it.

    Args:
        path: `.npz`, `.parquet`, `.csv` (one row a step), or `minari:ID`.
        columns: which columns of a table mean what, if it is not one of ours.
    """
    if _is_minari(path):
        from hvil.data.formats.minari import load_minari  # here, for a fast start

        return load_minari(str(path))
    kind = _kind(path, READ)
    if not Path(path).is_file():
        raise InputError(f"{path}: no such file")
    try:
        if kind == ".npz":
            return npz.read_traces(path)
        from hvil.data.formats.csv import read_csv  # here, for a fast start
        from hvil.data.formats.parquet_reader import read_parquet  # here, for a fast start
        from hvil.data.formats.tables import OWN_COLUMNS  # here, for a fast start

        return (read_csv if kind == ".csv" else read_parquet)(path, columns or OWN_COLUMNS)
    except InputError as error:
        message = str(error)
        raise InputError(message if message.startswith(str(path)) else f"{path}: {message}") from error


def check_target(path: str | os.PathLike[str]) -> None:
    """Refuse a name that `save` could not write to, before the work of making traces is done."""
    if _is_minari(path):
        from hvil.data.formats.minari import check_new  # here, for a fast start

        check_new(str(path))
    elif _kind(path) and not Path(path).parent.is_dir():
        raise InputError(f"{path}: the directory {Path(path).parent} does not exist")


def _is_minari(path: str | os.PathLike[str]) -> bool:
    return str(path).startswith("minari:")


def _kind(path: str | os.PathLike[str], kinds: tuple[str, ...] = WRITTEN) -> str:
    kind = Path(path).suffix
    if kind not in kinds:
        raise InputError(f"{path}: trace files end in {' or '.join(kinds)}; Minari data sets are minari:ID")
    return kind
