"""Finds out how a table is to be read: which columns say what, and how each column of the observation is read.

What the user names is taken as named. The rest is recognised by names (`session`, `timestamp`, `action`) and by values
(text is a category, a time orders the rows, a column that numbers the rows is left out). All problems are collected, so
that a user hears of them at once. How the columns then become traces is said in `tables`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hvil.data.formats.columns import FILE, TableReader, decoded, is_list, is_text, refuse_problems
from hvil.data.formats.vectors import vector_columns
from hvil.data.reading import MISSING, ColumnReading, LeftOut, Reading

N = TypeVar("N", str, tuple[str, ...])

MOST_CATEGORIES = 64
"""Different texts of a column that is read as a category, unless the user names the column."""
MOST_NAMED_CATEGORIES = 4096
"""The same for a column that the user names."""
FEWEST_ROWS = 8
"""Below this many rows, nothing is taken for an identifier: every short column has different values."""

TRACE_NAMES = (
    "trace",
    "episode",
    "session",
    "trajectory",
    "run",
    "case",
    "demo",
    "rollout",
    "game",
    "visit",
    "cycle",
    "job",
)
STEP_NAMES = ("step", "t", "timestep", "tick", "frame", "seq", "sequence", "index", "event_index", "order")
TIME_NAMES = ("timestamp", "time", "datetime", "ts", "date")
ACTION_NAMES = ("action", "act", "move", "command", "cmd", "operation", "button", "event", "decision")
"""What columns are called that say this, each also with `id`, `number`, `name` or `no` behind it, or in the plural."""


class Columns(NamedTuple):
    """Which columns of a table mean what, as far as the user says so; what is empty is recognised."""

    trace: str = ""
    """One column, or several with commas between them."""
    step: str = ""
    action: str = ""
    observations: tuple[str, ...] = ()
    """Empty: `observation`, or every column that starts with `observation.`, or all that say nothing else."""
    annotation: str = ""
    """Lists of procedure names from the root on, or the label of the segment that the step belongs to."""
    elapsed: bool = False
    """Whether the time since the row before is an input."""


OWN_COLUMNS = Columns()
STACK = "stack"
"""The column with the call structure in our own files."""


def recognise(table: TableReader, columns: Columns) -> Reading:
    """How a table is to be read; an `InputError` lists all reasons why it cannot be."""
    problems: list[str] = []
    roles = recognise_roles(table, columns, problems)
    named = columns.observations or observation_columns(table)
    absent = [name for name in named if name not in table.names]
    problems += [f"no column {name!r} (--observation-columns)" for name in absent]
    if problems:
        refuse_problems(problems, table.names)
    times = [name for name in table.names if _is_time(table.column(name), name)] if columns.elapsed else []
    taken = {*roles.trace, roles.step, *action_columns(roles.action, table), roles.annotation, FILE}
    candidates = named or [name for name in table.names if name not in taken and not _is_metadata(name)]
    read: list[ColumnReading] = []
    left_out: list[LeftOut] = []
    traces = _trace_codes(table, roles.trace)
    for name in candidates:
        found = _column_reading(table, name, named, traces)
        if isinstance(found, ColumnReading):
            read.append(found)
        elif named:
            problems.append(f"the column {name!r} cannot be part of an observation: {found.why}")
        else:
            left_out.append(found)
    if columns.elapsed:
        time = next((name for name in (roles.step, *times) if name in times), None)
        if time is None:
            problems.append("no column with times to take the time since the last step from (--elapsed)")
        else:
            read.append(ColumnReading(time, "elapsed"))
            left_out = [column for column in left_out if column.name != time]
    if not read and not problems:
        problems.append("no column is left for the observation; name some with --observation-columns")
    refuse_problems(problems, table.names)
    return Reading(columns=tuple(read), **roles._asdict(), left_out=tuple(left_out))


class Roles(NamedTuple):
    """Which columns say the trace, the step, the action and the call structure, as in a `Reading`."""

    trace: tuple[str, ...]
    step: str
    action: str
    annotation: str


def recognise_roles(table: TableReader, columns: Columns, problems: list[str], earlier: Reading | None = None) -> Roles:
    """Which columns say what: as the user says, as in an earlier reading, by their names.

    Args:
        table: the table.
        columns: what the user says.
        problems: to this list the problems are added.
        earlier: the reading of the data that a run was trained on.
    """
    # Earlier versions wrote the names of our own files into a run, whether the table had such columns or not.
    given_step = "" if columns.step == "step" not in table.names else columns.step
    given_annotation = "" if columns.annotation == STACK not in table.names else columns.annotation
    given_trace = tuple(name.strip() for name in columns.trace.split(",") if name.strip())
    known = earlier or Reading(())
    trace = given_trace or _if_there(known.trace, table) or _found_trace(table)
    vectors = vector_columns(table, columns.action)
    if vectors is not None and columns.action not in table.names:
        columns = columns._replace(action=",".join((*vectors.columns, "")))
    action = columns.action or _if_there(known.action, table) or _called(table, ACTION_NAMES, but=trace)
    step = given_step or _if_there(known.step, table) or _found_step(table, trace, action)
    annotation = given_annotation or (STACK if STACK in table.names else "")
    if not trace:
        problems.append("no column says which trace a row belongs to; name it with --trace-column")
    if not action:
        problems.append("no column says which action was taken; name it with --action-column")
    flags = {**dict.fromkeys(given_trace, "--trace-column"), given_step: "--step-column"}
    flags |= {**dict.fromkeys(action_columns(columns.action, table), "--action-column")}
    flags |= {given_annotation: "--annotation-column"}
    problems += [f"no column {name!r} ({flag})" for name, flag in flags.items() if name and name not in table.names]
    return Roles(trace=trace, step=step, action=action, annotation=annotation)


def action_columns(action: str, table: TableReader) -> tuple[str, ...]:
    """The columns that an action is in: one, or those of a continuous action, named with commas."""
    names = tuple(name.strip() for name in action.split(",") if name.strip())
    return (action,) if action in table.names or len(names) < 1 else names


def _if_there(names: N, table: TableReader) -> N | None:
    """A column's name, or several, if the table has them all."""
    wanted = (names,) if isinstance(names, str) else names
    return names if all(name in table.names for name in wanted) else None


def _found_trace(table: TableReader) -> tuple[str, ...]:
    """The columns that say the trace: one that is called so; of several files, the file if nothing else does."""
    name = _called(table, TRACE_NAMES, but=(FILE,))
    if FILE not in table.names or len(pc.unique(table.column(FILE))) == 1:
        return (name,) if name else ()
    if not name:
        return (FILE,)
    # Files may each number their traces from 0 on. Words are names that hold in all files.
    values = decoded(table.column(name))
    if not pa.types.is_integer(values.type):
        return (name,)
    pairs = pa.table({"file": decoded(table.column(FILE)), "trace": values}).group_by(["file", "trace"]).aggregate([])
    return (name,) if len(pairs) == len(pc.unique(values)) else (FILE, name)


def _found_step(table: TableReader, trace: Sequence[str], action: str) -> str:
    """The column that orders the rows: one that is called so and tells the rows of a trace apart, or else a time."""
    but = (*trace, action)
    if "step" in table.names:
        return "step"
    name = _called(table, STEP_NAMES, but=but)
    if name and pa.types.is_integer(table.column(name).type) and _rises(table, trace, name, strictly=True):
        return name
    times = [name for name in table.names if name not in but and _is_time(table.column(name), name)]
    kinds = {name: table.column(name).type for name in times}
    right = [name for name in times if not is_number(kinds[name]) or _rises(table, trace, name, strictly=False)]
    return right[0] if right else ""


def _rises(table: TableReader, trace: Sequence[str], name: str, strictly: bool) -> bool:
    """Whether a column of numbers rises, or at least never falls, within each trace as the rows stand."""
    if any(column not in table.names for column in trace):
        return False
    codes, values = _trace_codes(table, trace), table.column(name).to_numpy()
    order = np.argsort(codes, kind="stable")
    codes, values = codes[order], values[order]
    rises = values[1:] > values[:-1] if strictly else values[1:] >= values[:-1]
    return bool((rises | (codes[1:] != codes[:-1])).all())


def _called(table: TableReader, words: Sequence[str], but: Sequence[str] = ()) -> str:
    """The first column that is called one of these; empty if none is."""
    plain = {name: re.sub(r"[^a-z]+", "", name.lower()) for name in table.names if name not in but}
    for word in words:
        stem = re.sub(r"[^a-z]+", "", word)
        for form in (stem, *(f"{stem}{ending}" for ending in ("id", "number", "name", "no", "s"))):
            found = [name for name, called in plain.items() if called == form]
            if found:
                return found[0]
    return ""


def observation_columns(table: TableReader) -> tuple[str, ...]:
    """The columns of our own files, and of files that follow them."""
    if "observation" in table.names:
        return ("observation",)
    return tuple(name for name in table.names if name.startswith("observation."))


def _is_metadata(name: str) -> bool:
    return name.startswith("metadata.")


def _is_time(column: pa.ChunkedArray, name: str) -> bool:
    """Whether a column holds times: by its type, by its name if it holds numbers, or because its texts are times."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind):
        return True
    called = re.sub(r"[^a-z]+", "", name.lower()) in TIME_NAMES
    if called and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return True
    return is_text(kind) and time_values(column) is not None


def time_values(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """A column of texts as times; None if one of them is no time."""
    present = decoded(column)
    if present.null_count == len(present) or not re.match(r"\s*\d{4}-\d\d", str(pc.first(present).as_py())):
        return None
    try:
        return present.cast(pa.timestamp("ns"))
    except pa.ArrowException:
        pass
    try:
        return present.cast(pa.timestamp("ns", tz="UTC"))
    except pa.ArrowException:
        return None


def _trace_codes(table: TableReader, trace: Sequence[str]) -> np.ndarray:
    """A number for each row that tells its trace."""
    parts = [decoded(table.column(name)).dictionary_encode().combine_chunks() for name in trace]
    codes = np.zeros(table.rows, dtype=np.int64)
    for part in parts:
        part = part if isinstance(part, pa.DictionaryArray) else part.chunk(0)
        codes = codes * (len(part.dictionary) + 1) + part.indices.fill_null(len(part.dictionary)).to_numpy()
        codes = np.unique(codes, return_inverse=True)[1]
    return codes


def _column_reading(table: TableReader, name: str, named: Sequence[str], traces: np.ndarray) -> ColumnReading | LeftOut:
    """How a column of the observation is read, or why it is not."""
    column = decoded(table.column(name))
    kind = column.type
    missing = missing_values(column)
    if missing.all():
        return LeftOut(name, "it has no value")
    if pa.types.is_boolean(kind):
        reading = ColumnReading(name, "truth", fill=_fill(column, missing))
    elif is_number(kind):
        reading = ColumnReading(name, "number", fill=_fill(column, missing))
    elif is_text(kind):
        numbers = numbers_in_text(column, missing)
        if numbers is not None:
            reading = ColumnReading(name, "number", fill=_fill(numbers, missing))
        else:
            texts = sorted(text for text in pc.unique(column).to_pylist() if text)
            categories = (*texts, MISSING) if missing.any() and MISSING not in texts else tuple(texts)
            reading = ColumnReading(name, "category", categories=categories)
    elif is_list(kind) and len(named) == 1:
        return ColumnReading(name, "number")  # `tables` takes the lists as whole observations
    elif is_list(kind):
        return LeftOut(name, "its lists differ in length or hold no plain values")
    elif pa.types.is_temporal(kind):
        return LeftOut(name, "it is a time; --elapsed gives the time since the last step")
    else:
        return LeftOut(name, f"it holds {kind}")
    return _unless_useless(reading, column, missing, bool(named), traces)


def _unless_useless(
    reading: ColumnReading, column: pa.ChunkedArray, missing: np.ndarray, named: bool, traces: np.ndarray
) -> ColumnReading | LeftOut:
    """The reading, unless the column never changes, names rows or traces, or is free text; named columns are kept."""
    name, most = reading.name, MOST_NAMED_CATEGORIES if named else MOST_CATEGORIES
    different = int(pc.count_distinct(column, mode="only_valid").as_py())
    whole = pa.types.is_integer(column.type)
    if not named and different == 1 and not missing.any():
        return LeftOut(name, f"it is always {pc.first(column).as_py()}")
    long_enough = not named and len(column) >= FEWEST_ROWS and (whole or reading.kind == "category")
    if long_enough and different == len(column) and (not whole or _counts(column)):
        return LeftOut(name, "it identifies rows: no value stands twice")
    if long_enough and _identifies_traces(column, different, traces):
        return LeftOut(name, "it identifies traces: each has a value of its own, and keeps it")
    if len(reading.categories) > most:
        return LeftOut(name, f"it is text with {different} different values")
    return reading


def _counts(column: pa.ChunkedArray) -> bool:
    """Whether each value is larger than the one before."""
    values = column.to_numpy()
    return bool((values[1:] > values[:-1]).all())


def _identifies_traces(column: pa.ChunkedArray, different: int, traces: np.ndarray) -> bool:
    """Whether the column has one value in each trace, another in every one, and there are many traces."""
    count = int(traces.max()) + 1
    if different != count or count < FEWEST_ROWS or column.null_count:
        return False
    codes = column.dictionary_encode().combine_chunks()
    codes = codes if isinstance(codes, pa.DictionaryArray) else codes.chunk(0)
    return len(np.unique(np.stack([traces, codes.indices.to_numpy()]), axis=1).T) == count


def missing_values(column: pa.ChunkedArray) -> np.ndarray:
    """Which rows of a column have no value: null, NaN, or an empty text."""
    missing = np.asarray(pc.is_null(column, nan_is_null=True).to_numpy())
    if is_text(column.type):
        missing = missing | np.asarray(pc.equal(decoded(column), "").fill_null(True).to_numpy())
    return missing


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_duration(kind)
    )


def numbers_in_text(column: pa.ChunkedArray, missing: np.ndarray) -> pa.ChunkedArray | None:
    """Numbers that are written as text; None if one of them is no number."""
    try:
        return pc.if_else(pa.chunked_array([pa.array(missing)]), None, column).cast(pa.float64())
    except pa.ArrowException:
        return None


def _fill(column: pa.ChunkedArray, missing: np.ndarray) -> float | None:
    """What stands for a missing value: the one in the middle of those that are there. None if none is missing."""
    if not missing.any():
        return None
    values = np.sort(as_numbers(column).drop_null().to_numpy(zero_copy_only=False).astype(np.float64))
    values = values[~np.isnan(values)]
    return float(values[len(values) // 2])


def as_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of numbers in a type that numpy has: decimals as floats, durations in seconds."""
    if pa.types.is_decimal(column.type):
        return column.cast(pa.float64())
    if pa.types.is_duration(column.type):
        return pc.divide(column.cast(pa.duration("us")).cast(pa.int64()).cast(pa.float64()), 1e6)
    return column


def lines(reading: Reading) -> Iterator[tuple[str, str, str]]:
    """For each column its name, how it is read, and the flag that changes it."""
    yield ", ".join(reading.trace), "says which trace a row belongs to", "--trace-column"
    if reading.step:
        yield reading.step, "orders the rows of a trace", "--step-column"
    yield reading.action, "the action", "--action-column"
    if reading.annotation:
        yield reading.annotation, "the call structure", "--annotation-column"
    for column in reading.columns:
        yield column.name, _in_words(column), "--elapsed" if column.kind == "elapsed" else "--observation-columns"
    for left_out in reading.left_out:
        yield left_out.name, f"left out: {left_out.why}", "--observation-columns"


def _in_words(column: ColumnReading) -> str:
    words: Mapping[str, Any] = {
        "number": "a number",
        "truth": "true or false",
        "elapsed": "the time since the last step, in seconds",
        "category": f"one of {len(column.categories)}: {', '.join(column.categories[:8])}",
    }
    more = ", …" if len(column.categories) > 8 else ""
    gaps = "" if column.fill is None else f"; where it is missing, {column.fill:.6g} and a sign that it is missing"
    return f"{words[column.kind]}{more}{gaps}"
