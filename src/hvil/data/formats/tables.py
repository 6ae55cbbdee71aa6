"""Traces from an Arrow table with one row a step: our own files (`parquet_writer`) or another tool's.

Other tools' files differ in small ways that are accepted here: whole numbers stored as floats (pandas, where a column
has gaps), categories, large text and lists, rows in another order, metadata in every row, and logs that end with the
last action: there the last observation is repeated, because a trace has one more observation than actions. How a
column becomes an array is said in `columns`.

Letters: N traces, S actions of all traces together (so S + N rows).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Int, Shaped

from hvil.data.formats.columns import (
    TableReader,
    as_dictionary,
    codes_in,
    decoded,
    is_list,
    is_text,
    list_values,
    mapping_in,
    plain_values,
    refuse_gaps,
    refuse_problems,
    shape_of,
    step_name,
    texts,
    whole_numbers,
)
from hvil.data.formats.observed import adapted, nanoseconds, observed_values
from hvil.data.formats.recognition import (
    OWN_COLUMNS,
    Columns,
    missing_values,
    observation_columns,
    recognise,
    time_values,
)
from hvil.data.formats.vectors import read_vectors, vector_columns
from hvil.data.reading import Reading
from hvil.data.segments import segment_annotations
from hvil.data.traces import ACT, Annotations, Traces
from hvil.gate.errors import InputError, one_line

T = TypeVar("T")

MAX_ACTIONS = 1 << 16
"""The largest action number of a file that names no actions: each number up to it becomes a kind of action."""
MAX_STACK = 1000
"""The highest stack of an annotation: that of a call graph."""
REPEATED = "repeated: the log ends with the last action"
"""The attribute `last_observation` of traces whose last observation was not logged."""
NO_ACTION = frozenset(("NA", "N/A", "NaN", "nan", "null", "NULL", "None", "-"))
"""Words for no action, where they stand in the last row of every trace and nowhere else."""
TRACE_ID = "trace_id"
"""The metadata that hold what another tool's table calls each trace."""


class TableTraces(NamedTuple):
    """The traces of a table, and where they stand in it."""

    traces: Traces
    rows: Int[np.ndarray, "R"]
    """The row of the table that each observation is from; that of a trace's last action twice, if the log ends so."""


def traces_from_table(table: pa.Table, columns: Columns = OWN_COLUMNS, reading: Reading | None = None) -> Traces:
    """A trace set from a table with one row a step; `read_traces` explains the arguments."""
    return located_traces(table, columns, reading).traces


def located_traces(table: pa.Table, columns: Columns = OWN_COLUMNS, reading: Reading | None = None) -> TableTraces:
    """The same, with the rows that the traces come from."""
    try:
        return read_traces(TableReader(table.schema, table.num_rows, table.column), columns, reading)
    except pa.ArrowException as error:
        raise InputError(f"a column does not hold what it should ({one_line(error, 200)})") from error


def read_traces(table: TableReader, columns: Columns = OWN_COLUMNS, reading: Reading | None = None) -> TableTraces:
    """A trace set from a table that is read column by column.

    Args:
        table: the table.
        columns: which columns mean what, as far as the user says so.
        reading: how the columns were read before, if a run has been trained on such a table; None: find out.
    """
    if not table.rows:
        raise InputError("no rows")
    if reading is None or not reading.columns or table.facts:
        reading = recognise(table, columns)
    else:
        reading = adapted(reading, table, columns)
    starts, ids = _arrange(table, reading)
    attributes = {str(key): str(value) for key, value in mapping_in(table.facts, "attributes").items()}
    of_vectors = vector_columns(table, reading.action)
    action = reading.action if of_vectors is None else of_vectors.columns[0]
    if not table.facts and _ends_with_action(table, action, starts):
        starts = _repeat_last(table, starts)
        attributes["last_observation"] = REPEATED
    row_offsets = np.append(starts, table.rows)
    final = np.zeros(table.rows, dtype=bool)
    final[row_offsets[1:] - 1] = True
    problems: list[str] = []
    repeated = "last_observation" in attributes
    vectors = None
    if of_vectors is None:
        actions = _unless_wrong(problems, lambda: _actions(table, reading.action, final, starts, repeated))
    else:
        vectors = _unless_wrong(problems, lambda: read_vectors(table, of_vectors, final, starts, repeated))
        actions = (ACT,), np.zeros(int((~final).sum()), dtype=np.int64)
    observed = _unless_wrong(problems, lambda: _observations(table, reading, starts))
    annotations = _unless_wrong(problems, lambda: _annotations(table, reading.annotation, final, starts))
    metadata = _unless_wrong(problems, lambda: _metadata(table, starts))
    refuse_problems(problems, ())
    assert actions is not None
    assert observed is not None
    assert metadata is not None
    if not table.facts:
        metadata = {TRACE_ID: ids, **metadata}
    traces = Traces(
        observations=observed[1],
        actions=actions[1],
        offsets=row_offsets - np.arange(len(row_offsets)),
        action_names=actions[0],
        vectors=vectors,
        vector_names=() if of_vectors is None else of_vectors.names,
        observation_names=observed[0],
        annotations=annotations,
        metadata=metadata,
        attributes=attributes,
        reading=_stated_reading(table) if table.facts else None if is_whole(table, reading) else reading,
    )
    rows = np.arange(table.rows) if table.order is None else table.order.to_numpy()
    return TableTraces(traces=traces, rows=rows)


def _stated_reading(table: TableReader) -> Reading | None:
    """The reading that a file of our own was made with, if it was made from another tool's table."""
    stated = table.facts.get("reading")
    return None if stated is None else Reading.from_mapping(stated, "the reading in its 'hvil' metadata")


def _unless_wrong(problems: list[str], read: Callable[[], T]) -> T | None:
    """What is read; None if it is wrong, and then the problem is among the others."""
    try:
        return read()
    except InputError as error:
        problems.append(str(error))
        return None


def _arrange(table: TableReader, reading: Reading) -> tuple[Int[np.ndarray, "N"], Shaped[np.ndarray, "N"]]:
    """Set the table's order: a trace's rows together, by their steps. Return where each trace starts, and its name."""
    trace = _trace_column(table, reading.trace)
    starts = _starts(trace)
    grouped = len(starts) == len(pc.unique(trace))
    if not reading.step:
        if not grouped:
            raise InputError(
                "the rows of a trace do not stand together, and no column orders them; name one with --step-column"
            )
        return starts, _names(trace, starts)
    steps = step_values(table.column(reading.step), reading.step)
    is_order = steps.dtype.kind == "i" and not pa.types.is_temporal(table.column(reading.step).type)
    if grouped and _unsorted(starts, steps, is_order) is None:
        return starts, _names(trace, starts)
    keys = pa.table({"trace": trace, "step": steps})
    table.order = pc.sort_indices(keys, sort_keys=[("trace", "ascending"), ("step", "ascending")])
    ordered = trace.take(table.order)
    starts = _starts(ordered)
    twice = _unsorted(starts, steps[table.order.to_numpy()], is_order)
    if twice is not None:
        row = table.order[twice].as_py()
        raise InputError(
            f"trace {trace[row].as_py()!r} has the step {steps[row]} twice; --step-column names the column that orders"
        )
    return starts, _names(ordered, starts)


def _trace_column(table: TableReader, names: Sequence[str]) -> pa.ChunkedArray:
    """What tells the traces apart: a column, or the texts of several."""
    columns = []
    for name in names:
        column = decoded(table.column(name))
        missing = missing_values(column)
        if missing.any():
            raise InputError(f"row {int(np.argmax(missing))}: no value in the column {name!r} (--trace-column)")
        columns.append(column)
    if len(columns) == 1:
        return columns[0]
    return pc.binary_join_element_wise(*(column.cast(pa.string()) for column in columns), "/")


def _names(trace: pa.ChunkedArray, starts: Int[np.ndarray, "N"]) -> Shaped[np.ndarray, "N"]:
    """What each trace is called."""
    values = trace.take(pa.array(starts))
    return np.array([str(value) for value in values.to_pylist()], dtype=np.str_)


def step_values(column: pa.ChunkedArray, name: str) -> Shaped[np.ndarray, "rows"]:
    """Numbers that order the rows: whole numbers as they are, times in nanoseconds, other numbers as floats."""
    column = decoded(column)
    missing = missing_values(column)
    if missing.any():
        raise InputError(f"row {int(np.argmax(missing))}: no value in the column {name!r} (--step-column)")
    times = time_values(column) if is_text(column.type) else column
    if times is None:
        raise InputError(f"the column {name!r} holds {column.type}, expected whole numbers or times (--step-column)")
    if pa.types.is_temporal(times.type):
        return nanoseconds(times)
    if pa.types.is_floating(times.type) and not pc.all(pc.equal(pc.floor(times), times)).as_py():
        return np.asarray(times.to_numpy(), dtype=np.float64)
    return whole_numbers(times, name, 0)


def _starts(trace: pa.ChunkedArray) -> Int[np.ndarray, "N"]:
    """Rows at which another trace begins."""
    change = pc.not_equal(trace.slice(1), trace.slice(0, len(trace) - 1))
    return np.concatenate([[0], np.flatnonzero(change.to_numpy()) + 1])


def _unsorted(starts: Int[np.ndarray, "N"], steps: Shaped[np.ndarray, "rows"], strictly: bool) -> int | None:
    """The first row whose step does not come after that of the row before in the same trace; None if there is none."""
    falls = np.zeros(len(steps), dtype=bool)
    falls[1:] = steps[1:] <= steps[:-1] if strictly else steps[1:] < steps[:-1]
    falls[starts] = False
    return int(np.argmax(falls)) if falls.any() else None


def _ends_with_action(table: TableReader, name: str, starts: Int[np.ndarray, "N"]) -> bool:
    """Whether every trace has an action in its last row, so that the observation after it was not logged."""
    last = np.append(starts[1:], table.rows) - 1
    return not _no_action(table, name, last)[last].any()


def _no_action(table: TableReader, name: str, last: Int[np.ndarray, "N"]) -> Bool[np.ndarray, "rows"]:
    """Which rows have no action. An empty text is none, except in our own files, which have null for it."""
    column = table.column(name)
    missing = np.asarray(pc.is_null(column, nan_is_null=True).to_numpy())
    if table.facts or not is_text(column.type):
        return missing
    missing = missing | np.asarray(pc.equal(decoded(column), "").fill_null(True).to_numpy())
    words = decoded(column).take(pa.array(last))
    if not missing[last].any() and len(pc.unique(words)) == 1 and words[0].as_py() in NO_ACTION:
        marked = np.asarray(pc.equal(decoded(column), words[0]).fill_null(False).to_numpy())
        if marked.sum() == len(last):
            return np.asarray(missing | marked)
    return np.asarray(missing)


def _repeat_last(table: TableReader, starts: Int[np.ndarray, "N"]) -> Int[np.ndarray, "N"]:
    """Set the table's order: each trace's last row twice. Return the row at which each trace then starts."""
    last = np.append(starts[1:], table.rows)
    rows = np.arange(table.rows) if table.order is None else table.order.to_numpy()
    table.order = pa.array(np.insert(rows, last, rows[last - 1]))
    table.rows += len(starts)
    return starts + np.arange(len(starts))


def _actions(
    table: TableReader, name: str, final: Bool[np.ndarray, "rows"], starts: Int[np.ndarray, "N"], repeated: bool
) -> tuple[tuple[str, ...], Int[np.ndarray, "S"]]:
    """Action names, and the actions of all rows but each trace's last."""
    column = table.column(name)
    missing = _no_action(table, name, np.flatnonzero(final))
    if (missing & ~final).any():
        where = step_name(starts, int(np.argmax(missing & ~final)))
        raise InputError(f"{where}: no action in the column {name!r}, and it is not the trace's last row")
    if (~missing & final).any() and not repeated:
        where = step_name(starts, int(np.argmax(~missing & final)))
        raise InputError(f"{where}: the last row of a trace holds the last observation and must have no action")
    stated_names = texts(table.facts.get("action_names"))
    if not is_text(column.type) and not pa.types.is_boolean(column.type):
        numbers = whole_numbers(decoded(column), name, 0)[~final]
        largest = int(numbers.max(initial=0))
        if stated_names is None and largest > MAX_ACTIONS:
            raise InputError(f"action {largest}: actions are numbers from 0 to {MAX_ACTIONS}, or text")
        return stated_names or tuple(str(number) for number in range(largest + 1)), numbers
    text = as_dictionary(column)
    used = pc.unique(decoded(pc.unique(text))).to_pylist()
    kept = set(pc.unique(decoded(text).filter(pa.array(~missing))).to_pylist())
    names = stated_names or tuple(sorted(value for value in used if value in kept))
    codes = codes_in(text, names)
    unknown = (codes < 0) & ~missing
    if unknown.any():
        row = int(np.argmax(unknown))
        raise InputError(f"{step_name(starts, row)}: action {text[row].as_py()!r} is not among {', '.join(names)}")
    return names, codes[~final]


def _observations(
    table: TableReader, reading: Reading, starts: Int[np.ndarray, "N"]
) -> tuple[tuple[str, ...], Shaped[np.ndarray, "rows ..."]]:
    """Observation names (none for lists), and the observations of all rows."""
    if is_whole(table, reading):
        name = reading.columns[0].name
        column = table.column(name)
        refuse_gaps(column, name, starts)
        names: tuple[str, ...] = ()
        values = list_values(column, name)
        if values.dtype.kind == "U":
            raise InputError(f"the column {name!r} holds text, expected numbers")
    else:
        names, values = reading.names, observed_values(table, reading, starts)
    if any(column.name not in observation_columns(table) for column in reading.columns):
        return names, values  # columns that the user named have another meaning than those that the file speaks of
    stated_names = texts(table.facts.get("observation_names"))
    if stated_names is None:
        return names, values.reshape(len(values), *shape_of(table.facts.get("observation_shape"), values.shape[1]))
    shape = shape_of(table.facts.get("observation_shape"), values.shape[1])
    return stated_names, values.reshape(len(values), *shape)


def is_whole(table: TableReader, reading: Reading) -> bool:
    """Whether one column of lists holds the whole observation."""
    return len(reading.columns) == 1 and is_list(table.column(reading.columns[0].name).type)


def _annotations(
    table: TableReader, name: str, final: Bool[np.ndarray, "rows"], starts: Int[np.ndarray, "N"]
) -> Annotations | None:
    """Annotations from labels of segments or from stacks; none if the table has neither."""
    if not name:
        return None
    column = table.column(name)
    if is_text(column.type):
        labels = as_dictionary(column)
        names = sorted({label for label in decoded(pc.unique(labels)).to_pylist() if label})
        offsets = np.append(starts, table.rows) - np.arange(len(starts) + 1)
        return segment_annotations(names, codes_in(labels, names)[~final].astype(np.int64), offsets)
    if not is_list(column.type):
        raise InputError(f"the column {name!r} must hold lists of procedure names, or the labels of segments")
    return _stack_annotations(table, name, column, final)


def _stack_annotations(
    table: TableReader, name: str, column: pa.ChunkedArray, final: Bool[np.ndarray, "rows"]
) -> Annotations:
    """Annotations from a column with lists of procedure names, the root first."""
    entries = as_dictionary(pc.list_flatten(column))
    used = decoded(pc.unique(entries)).to_pylist()
    procedures = texts(table.facts.get("procedures")) or tuple(entry for entry in used if entry is not None)
    codes = codes_in(entries, procedures)
    if (codes < 0).any():
        unknown = entries[int(np.argmax(codes < 0))].as_py()
        raise InputError(
            f"the column {name!r} names an unknown procedure {unknown!r}; there are {', '.join(procedures)}"
        )
    depths = pc.list_value_length(column).cast(pa.int64()).fill_null(0).to_numpy()
    if depths.max(initial=0) > MAX_STACK or len(procedures) > np.iinfo(np.int16).max:
        raise InputError(f"the column {name!r} holds a stack of more than {MAX_STACK} frames, or too many procedures")
    stacks = np.full((table.rows, max(int(depths.max(initial=0)), 1)), -1, dtype=np.int16)
    stacks[np.arange(stacks.shape[1]) < depths[:, None]] = codes
    kept = np.full(table.rows, -1, dtype=np.int64)
    if "kept" in table.names:
        kept = whole_numbers(table.column("kept"), "kept", -1)
    return Annotations(procedures, stacks[~final], kept[~final])


def _metadata(table: TableReader, starts: Int[np.ndarray, "N"]) -> dict[str, Shaped[np.ndarray, "N ..."]]:
    """What the first row of each trace says in the columns `metadata.NAME`."""
    metadata = {}
    for column in (name for name in table.names if name.startswith("metadata.")):
        name, values = column.removeprefix("metadata."), table.column(column).take(pa.array(starts))
        if values.null_count:
            trace = int(np.argmax(values.is_null().to_numpy()))
            raise InputError(f"the column {column!r} has no value in the first row of trace {trace}")
        if is_list(values.type):
            lists = list_values(values, column)
            shape = shape_of(mapping_in(table.facts, "metadata_shapes").get(name), lists.shape[1])
            metadata[name] = lists.reshape(len(lists), *shape)
        else:
            metadata[name] = plain_values(values, column)
    return metadata
