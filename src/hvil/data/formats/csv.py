"""Trace sets read from CSV: a line of names, one line a step. What the columns mean is said in `tables`."""

import os

import pyarrow as pa
from pyarrow import csv

from hvil.data.formats.tables import OWN_COLUMNS, Columns, traces_from_table
from hvil.data.traces import Traces
from hvil.gate.errors import InputError, one_line


def read_csv(path: str | os.PathLike[str], columns: Columns = OWN_COLUMNS) -> Traces:
    """Read a CSV file; an empty field is a gap."""
    try:
        table = csv.read_csv(path, convert_options=csv.ConvertOptions(strings_can_be_null=True))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: not a CSV file with one line a step ({one_line(error, 200)})") from error
    return traces_from_table(table, columns)
