"""Trace sets read from Parquet. What the columns mean is said in `tables`; `parquet_writer` writes our own files."""

import os

import pyarrow as pa
import pyarrow.parquet as pq

from hvil.data.formats.columns import TableReader
from hvil.data.formats.tables import OWN_COLUMNS, Columns, read_traces
from hvil.data.traces import Traces
from hvil.gate.errors import InputError, one_line


def read_parquet(path: str | os.PathLike[str], columns: Columns = OWN_COLUMNS) -> Traces:
    """Read a file of our own, or another tool's whose columns are named."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            rows = file.metadata.num_rows
            table = TableReader(file.schema_arrow, rows, lambda name: file.read(columns=[name]).column(name))
            return read_traces(table, columns)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: not a Parquet file of traces, or damaged ({one_line(error, 200)})") from error
