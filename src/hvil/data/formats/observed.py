"""Applies a reading to a table: the columns of an observation become numbers side by side.

Who makes a reading is said in `recognition`; what a reading is, in `hvil.data.reading`.

Letters: N traces.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int, Shaped

from hvil.data.formats.columns import TableReader, as_dictionary, codes_in, decoded, is_text, refuse_problems, step_name
from hvil.data.formats.recognition import (
    Columns,
    as_numbers,
    is_number,
    missing_values,
    numbers_in_text,
    recognise_roles,
    time_values,
)
from hvil.data.reading import MISSING, UNKNOWN, ColumnReading, Reading
from hvil.gate.errors import InputError


def adapted(reading: Reading, table: TableReader, columns: Columns) -> Reading:
    """The reading of a run for another table: its columns must be there; who says what may be named anew.

    Args:
        reading: how the run's own data were read.
        table: the other table.
        columns: what the user says of it. Observation columns that are named stand for the run's, in their order.
    """
    problems: list[str] = []
    roles = recognise_roles(table, columns, problems, reading)
    renamed = columns.observations and columns.observations != tuple(column.name for column in reading.columns)
    read = reading.columns
    if renamed and len(columns.observations) == len(read):
        read = tuple(replace(column, name=name) for column, name in zip(read, columns.observations, strict=True))
    elif renamed:
        problems.append(
            f"--observation-columns names {len(columns.observations)} columns, the run reads {len(reading.columns)}: "
            f"{', '.join(column.name for column in reading.columns)}"
        )
    problems += _absent(read, table)
    refuse_problems(problems, table.names)
    return Reading(columns=read, **roles._asdict(), left_out=reading.left_out)


def adapted_columns(reading: Reading, table: TableReader) -> Reading:
    """The reading of a run for other observations, whose parts must have the same names."""
    refuse_problems(_absent(reading.columns, table), table.names)
    return reading


def _absent(columns: Sequence[ColumnReading], table: TableReader) -> list[str]:
    """A problem for each column that the run reads and the table does not have."""
    absent = [column.name for column in columns if column.name not in table.names]
    return [f"no column {name!r}, which the run reads (--observation-columns)" for name in absent]


def observed_values(
    table: TableReader, reading: Reading, starts: Int[np.ndarray, "N"]
) -> Shaped[np.ndarray, "rows columns"]:
    """The numbers of all rows, in the narrowest type that holds them all; fractions are 32-bit floats."""
    width = len(reading.names)
    values = np.empty((table.rows, 0), dtype=bool)
    for index, part in enumerate(_parts(table, reading, starts)):
        dtype = np.result_type(values.dtype, part.dtype)
        dtype = np.dtype(np.float32) if dtype.kind == "f" else dtype
        if dtype != values.dtype or not index:
            wider = np.empty((table.rows, width), dtype=dtype)
            wider[:, :index] = values[:, :index]
            values = wider
        with np.errstate(over="ignore"):  # infinities are refused by `Traces`, which names the step
            values[:, index] = part
    return values


def _parts(table: TableReader, reading: Reading, starts: Int[np.ndarray, "N"]) -> Iterator[Shaped[np.ndarray, "rows"]]:
    """The numbers of all rows, one output of the reading after another."""
    problems: list[str] = []
    for column in reading.columns:
        try:
            yield from _column_parts(table, column, starts)
        except InputError as error:
            problems.append(str(error))
            yield from (np.zeros(table.rows, dtype=bool) for _ in column.outputs)  # the rest has problems too, perhaps
    refuse_problems(problems, ())


def _column_parts(
    table: TableReader, column: ColumnReading, starts: Int[np.ndarray, "N"]
) -> list[Shaped[np.ndarray, "rows"]]:
    """One or two arrays: the values and, if the reading has a fill, whether they are missing."""
    values = decoded(table.column(column.name))
    if column.kind == "elapsed":
        return [elapsed(values, column.name, starts)]
    missing = missing_values(values)
    if column.kind == "category":
        return [_codes(values, column, missing)]
    if is_text(values.type):
        values = numbers_in_text(values, missing)
    if values is None or not (
        is_number(values.type) or pa.types.is_boolean(values.type) or pa.types.is_null(values.type)
    ):
        raise InputError(f"the column {column.name!r} holds {table.column(column.name).type}, expected numbers")
    if missing.any() and column.fill is None:
        where = step_name(starts, int(np.argmax(missing)))
        raise InputError(f"{where}: no value in the column {column.name!r}; the run was trained without gaps in it")
    numbers = _filled(values, missing, column.fill)
    return [numbers] if column.fill is None else [numbers, missing]


def _filled(
    values: pa.ChunkedArray, missing: Bool[np.ndarray, "rows"], fill: float | None
) -> Shaped[np.ndarray, "rows"]:
    """The numbers of a column, with the fill where there are none."""
    if pa.types.is_null(values.type):
        return np.full(len(values), fill)
    numbers = as_numbers(values)
    if fill is None:
        return np.asarray(numbers.to_numpy())
    if pa.types.is_floating(numbers.type):
        return np.where(missing, fill, numbers.to_numpy())
    kind = numbers.type if float(fill).is_integer() else pa.float64()
    wide = numbers.cast(kind)
    return np.asarray(wide.fill_null(pa.scalar(fill).cast(kind)).to_numpy())


def _codes(
    values: pa.ChunkedArray, column: ColumnReading, missing: Bool[np.ndarray, "rows"]
) -> Int[np.ndarray, "rows"]:
    """The position of each text among the categories; `UNKNOWN` for others."""
    codes = codes_in(as_dictionary(values.cast(pa.string())), column.categories)
    absent = column.categories.index(MISSING) if MISSING in column.categories else UNKNOWN
    return np.where(missing, np.int32(absent), codes).astype(np.int32)


def elapsed(values: pa.ChunkedArray, name: str, starts: Int[np.ndarray, "N"]) -> Shaped[np.ndarray, "rows"]:
    """The time since the row before, in seconds (numbers in their own unit); 0 in the first row of a trace."""
    missing = missing_values(values)
    if missing.any():
        raise InputError(f"{step_name(starts, int(np.argmax(missing)))}: no value in the column {name!r} (--elapsed)")
    times = time_values(values) if is_text(values.type) else values
    if times is None:
        raise InputError(f"the column {name!r} holds {values.type}, expected times (--elapsed)")
    temporal = pa.types.is_temporal(times.type)
    numbers = nanoseconds(times) if temporal else np.asarray(times.to_numpy(), dtype=np.float64)
    gaps = np.zeros(len(numbers), dtype=np.float64)
    gaps[1:] = np.diff(numbers) / (1e9 if temporal else 1.0)
    gaps[starts] = 0.0
    return gaps


def nanoseconds(times: pa.ChunkedArray) -> Int[np.ndarray, "rows"]:
    """Times as whole numbers: nanoseconds since some moment that is the same for all."""
    kind = times.type
    if pa.types.is_date(kind):
        times = times.cast(pa.timestamp("ns"))
    elif pa.types.is_time(kind):
        times = times.cast(pa.time64("ns"))
    elif pa.types.is_timestamp(kind):
        times = times.cast(pa.timestamp("ns", tz=kind.tz))
    else:
        times = times.cast(pa.duration("ns"))
    return np.asarray(times.cast(pa.int64()).to_numpy())
