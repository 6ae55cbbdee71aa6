"""Tables from files: one file, several, a pattern, or a directory; each becomes one Arrow table with one row a step.

The endings say the format: `.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.feather`, `.arrow`, `.parquet`, text also compressed
(`.csv.gz`). What the columns mean is said in `tables`.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from hvil.data.file_names import ending
from hvil.data.formats.arrow_files import read_arrow
from hvil.data.formats.columns import FILE
from hvil.data.formats.csv import read_csv
from hvil.data.formats.json_lines import read_json_lines
from hvil.data.formats.nested import flattened
from hvil.data.formats.parquet_reader import check_row_groups, open_parquet
from hvil.gate.errors import InputError, one_line


def read_files(files: Sequence[str]) -> pa.Table:
    """The rows of all files, one file after another; the column `source_file` names the file of each row."""
    tables = [
        table if FILE in table.column_names else table.append_column(FILE, pa.array([name] * len(table), pa.string()))
        for name, table in zip(_names(files), map(read_file, files), strict=True)
    ]
    if len(tables) == 1:
        return tables[0]
    try:
        return pa.concat_tables(_alike(tables), promote_options="permissive")
    except pa.ArrowException as error:
        what = f"{files[0]} and {len(files) - 1} more: a column is not alike in all"
        raise InputError(f"{what} ({one_line(error, 200)})") from error


def read_file(path: str | os.PathLike[str]) -> pa.Table:
    """The rows of one file; objects in it become columns `object.entry`, lists of one length columns `list[0]`."""
    kind = ending(path)
    if kind in (".csv", ".tsv"):
        return flattened(read_csv(path))
    try:
        if kind in (".jsonl", ".ndjson"):
            return flattened(read_json_lines(path))
        return flattened(read_arrow(path) if kind in (".feather", ".arrow") else _read_parquet(path))
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        names = {".jsonl": "JSON with one object a line", ".ndjson": "JSON with one object a line"}
        raise InputError(
            f"{path}: not {names.get(kind, f'a {kind[1:].capitalize()} file')}, or damaged ({one_line(error, 200)})"
        ) from error


def _read_parquet(path: str | os.PathLike[str]) -> pa.Table:
    with open_parquet(path) as file:
        check_row_groups(path, file, range(file.metadata.num_row_groups))
        return file.read()


def _names(files: Sequence[str]) -> list[str]:
    """A short name for each file: without directory and ending, if the names still differ."""
    short = [Path(file).name.partition(".")[0] for file in files]
    return short if len(set(short)) == len(short) else list(files)


def _alike(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """The tables without dictionaries and metadata; what is text in one of them is text in all."""
    kinds: dict[str, set[pa.DataType]] = {}
    for field in (field for table in tables for field in table.schema):
        kinds.setdefault(field.name, set()).add(_inner(field.type))
    texts = {name for name, found in kinds.items() if len(found) > 1 and pa.string() in found}
    return [
        pa.Table.from_arrays(
            [column.cast(pa.string() if name in texts else _inner(column.type)) for name, column in _items(table)],
            table.column_names,
        )
        for table in tables
    ]


def _items(table: pa.Table) -> list[tuple[str, pa.ChunkedArray]]:
    return list(zip(table.column_names, table.columns, strict=True))


def _inner(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
