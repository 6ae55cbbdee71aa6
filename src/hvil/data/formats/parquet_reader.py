"""Trace sets read from Parquet. What the columns mean is said in `tables`; `parquet_writer` writes our own files."""

import os
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from hvil.data.formats.columns import TableReader, decoded_lists, is_list
from hvil.data.formats.nested import flattened, is_flat
from hvil.data.formats.recognition import OWN_COLUMNS, Columns
from hvil.data.formats.tables import read_traces, traces_from_table
from hvil.data.reading import Reading
from hvil.data.traces import Traces
from hvil.gate.border import file_size, regular_file
from hvil.gate.budget import ROW_BYTES, check_budget
from hvil.gate.errors import InputError, one_line

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 4}
"""Bytes that a value takes in memory, by its type in the file; texts are kept once, with a number in each row."""


def open_parquet(path: str | os.PathLike[str]) -> pq.ParquetFile:
    """Open a file. Texts are read as dictionaries: else a few bytes could stand for one text in millions of rows."""
    with pq.ParquetFile(regular_file(path)) as file:
        columns = (file.schema.column(index) for index in range(len(file.schema)))
        texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    return pq.ParquetFile(regular_file(path), page_checksum_verification=True, read_dictionary=texts)


def check_row_groups(path: str | os.PathLike[str], file: pq.ParquetFile, groups: Sequence[int]) -> None:
    """Refuse row groups that would take more memory than the file may, by what its footer says of them."""
    check_columns(file, groups)
    parts = [file.metadata.row_group(group) for group in groups]
    columns = [part.column(index) for part in parts for index in range(part.num_columns)]
    need = sum(part.num_rows for part in parts) * ROW_BYTES
    for column in columns:
        width = _WIDTHS.get(column.physical_type, 16)
        need += column.num_values * width + max(column.total_uncompressed_size, 0)
    check_budget(path, need, file_size(path))


def check_columns(file: pq.ParquetFile, groups: Sequence[int]) -> None:
    """Raise an `OSError` if what the footer says of a column is damaged, before anybody asks for it.

    `RowGroupMetaData.column` ends the process then. A reader says it properly, and for no rows it reads no values.
    """
    for group in groups:
        every = list(range(file.metadata.num_columns))
        for _ in file.reader.iter_batches(0, row_groups=[group], column_indices=every, use_threads=False):
            pass


def read_column(file: pq.ParquetFile, name: str, groups: Sequence[int]) -> pa.ChunkedArray:
    """A column of some row groups.

    Lists are read a row group at a time, because Arrow knows dictionaries inside of them in one group only.
    """
    kind = file.schema_arrow.field(name).type
    if not is_list(kind) or not groups:
        return file.read_row_groups(groups, columns=[name]).column(name)
    parts = [decoded_lists(file.read_row_group(group, columns=[name]).column(name)) for group in groups]
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks])


def read_parquet(
    path: str | os.PathLike[str], columns: Columns = OWN_COLUMNS, reading: Reading | None = None
) -> Traces:
    """Read a file of our own or another tool's, a column at a time if its columns are plain."""
    try:
        with open_parquet(path) as file:
            groups = range(file.metadata.num_row_groups)
            check_row_groups(path, file, groups)
            if is_flat(file.schema_arrow):
                rows = file.metadata.num_rows
                table = TableReader(file.schema_arrow, rows, lambda name: read_column(file, name, groups))
                return read_traces(table, columns, reading).traces
            return traces_from_table(flattened(file.read()), columns, reading)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: not a Parquet file of traces, or damaged ({one_line(error, 200)})") from error


def is_own(path: str | os.PathLike[str]) -> bool:
    """Whether a file says that it is one of ours."""
    try:
        return b"hvil" in (pq.read_schema(regular_file(path)).metadata or {})
    except (pa.ArrowException, OSError, ValueError):
        return False
