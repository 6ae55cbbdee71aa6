"""Traces from an Arrow table with one row a step: our own files (`parquet_writer`) or another tool's.

Other tools' files differ in small ways that are accepted here: whole numbers stored as floats (pandas, where a column
has gaps), categories, large text and lists, rows in another order, metadata in every row, and logs that end with the
last action: there the last observation is repeated, because a trace has one more observation than actions. How a
column becomes an array is said in `columns`.

Letters: N traces, S actions of all traces together (so S + N rows).
"""

from typing import NamedTuple

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
    number_columns,
    plain_values,
    refuse_gaps,
    shape_of,
    step_name,
    texts,
    whole_numbers,
)
from hvil.data.segments import segment_annotations
from hvil.data.traces import Annotations, Traces
from hvil.gate.errors import InputError, one_line

MAX_ACTIONS = 1 << 16
"""The largest action number of a file that names no actions: each number up to it becomes a kind of action."""
MAX_STACK = 1000
"""The highest stack of an annotation: that of a call graph."""
REPEATED = "repeated: the log ends with the last action"
"""The attribute `last_observation` of traces whose last observation was not logged."""


class Columns(NamedTuple):
    """Which columns of a table mean what; by default those of our own files."""

    trace: str = "trace"
    step: str = "step"
    action: str = "action"
    observations: tuple[str, ...] = ()
    """Empty: `observation`, or every column that starts with `observation.`."""
    annotation: str = "stack"
    """Lists of procedure names from the root on, or the label of the segment that the step belongs to."""


OWN_COLUMNS = Columns()


def traces_from_table(table: pa.Table, columns: Columns = OWN_COLUMNS) -> Traces:
    """A trace set from a table with one row a step."""
    try:
        return read_traces(TableReader(table.schema, table.num_rows, table.column), columns)
    except pa.ArrowException as error:
        raise InputError(f"a column does not hold what it should ({one_line(error, 200)})") from error


def read_traces(table: TableReader, columns: Columns = OWN_COLUMNS) -> Traces:
    """A trace set from a table that is read column by column."""
    if not table.rows:
        raise InputError("no rows")
    starts = _arrange(table, columns)
    attributes = {str(key): str(value) for key, value in mapping_in(table.facts, "attributes").items()}
    if not table.facts and _ends_with_action(table, columns.action, starts):
        starts = _repeat_last(table, starts)
        attributes["last_observation"] = REPEATED
    row_offsets = np.append(starts, table.rows)
    final = np.zeros(table.rows, dtype=bool)
    final[row_offsets[1:] - 1] = True
    names, actions = _actions(table, columns.action, final, starts, "last_observation" in attributes)
    observation_names, observations = _observations(table, columns, starts)
    return Traces(
        observations=observations,
        actions=actions,
        offsets=row_offsets - np.arange(len(row_offsets)),
        action_names=names,
        observation_names=observation_names,
        annotations=_annotations(table, columns.annotation, final, starts),
        metadata=_metadata(table, starts),
        attributes=attributes,
    )


def _arrange(table: TableReader, columns: Columns) -> Int[np.ndarray, "N"]:
    """Set the table's order: a trace's rows together, by their steps. Return the row at which each trace starts."""
    trace = decoded(table.column(columns.trace))
    missing = pc.is_null(trace, nan_is_null=True).to_numpy()
    if missing.any():
        raise InputError(f"row {int(np.argmax(missing))}: no value in the column {columns.trace!r}")
    starts = _starts(trace)
    grouped = len(starts) == len(pc.unique(trace))
    if columns.step not in table.names:
        if not grouped:
            raise InputError(f"the rows of a trace do not stand together, and there is no column {columns.step!r}")
        return starts
    step = table.column(columns.step)
    if step.null_count:
        raise InputError(f"row {int(np.argmax(step.is_null().to_numpy()))}: no value in the column {columns.step!r}")
    steps = whole_numbers(step, columns.step, 0)
    if grouped and _unsorted(starts, steps) is None:
        return starts
    keys = pa.table({"trace": trace, "step": steps})
    table.order = pc.sort_indices(keys, sort_keys=[("trace", "ascending"), ("step", "ascending")])
    starts = _starts(trace.take(table.order))
    twice = _unsorted(starts, steps[table.order.to_numpy()])
    if twice is not None:
        row = table.order[twice].as_py()
        raise InputError(f"trace {trace[row].as_py()!r} has the step {steps[row]} twice")
    return starts


def _starts(trace: pa.ChunkedArray) -> Int[np.ndarray, "N"]:
    """Rows at which another trace begins."""
    change = pc.not_equal(trace.slice(1), trace.slice(0, len(trace) - 1))
    return np.concatenate([[0], np.flatnonzero(change.to_numpy()) + 1])


def _unsorted(starts: Int[np.ndarray, "N"], steps: Int[np.ndarray, "rows"]) -> int | None:
    """The first row whose step is not larger than that of the row before in the same trace; None if there is none."""
    falls = np.zeros(len(steps), dtype=bool)
    falls[1:] = steps[1:] <= steps[:-1]
    falls[starts] = False
    return int(np.argmax(falls)) if falls.any() else None


def _ends_with_action(table: TableReader, name: str, starts: Int[np.ndarray, "N"]) -> bool:
    """Whether every trace has an action in its last row, so that the observation after it was not logged."""
    last = np.append(starts[1:], table.rows) - 1
    return not pc.is_null(table.column(name), nan_is_null=True).to_numpy()[last].any()


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
    missing = pc.is_null(column, nan_is_null=True).to_numpy()
    if (missing & ~final).any():
        where = step_name(starts, int(np.argmax(missing & ~final)))
        raise InputError(f"{where}: no action, and it is not the trace's last row")
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
    names = stated_names or tuple(sorted(value for value in used if value is not None))
    codes = codes_in(text, names)
    unknown = (codes < 0) & ~missing
    if unknown.any():
        row = int(np.argmax(unknown))
        raise InputError(f"{step_name(starts, row)}: action {text[row].as_py()!r} is not among {', '.join(names)}")
    return names, codes[~final]


def _observations(
    table: TableReader, columns: Columns, starts: Int[np.ndarray, "N"]
) -> tuple[tuple[str, ...], Shaped[np.ndarray, "rows ..."]]:
    """Observation names (none for lists), and the observations of all rows."""
    column_names = columns.observations or _observation_columns(table)
    names: tuple[str, ...] = ()
    first_name = column_names[0]
    first = table.column(first_name)
    if len(column_names) == 1 and is_list(first.type):
        refuse_gaps(first, first_name, starts)
        values = list_values(first, first_name)
        if values.dtype.kind == "U":
            raise InputError(f"the column {first_name!r} holds text, expected numbers")
    else:
        names = tuple(name.removeprefix("observation.") for name in column_names)
        values = number_columns(table, column_names, starts)
    if columns.observations:
        return names, values
    stated_names = texts(table.facts.get("observation_names"))
    shape = shape_of(table.facts.get("observation_shape"), values.shape[1])
    return names if stated_names is None else stated_names, values.reshape(len(values), *shape)


def _observation_columns(table: TableReader) -> tuple[str, ...]:
    if "observation" in table.names:
        return ("observation",)
    names = tuple(name for name in table.names if name.startswith("observation."))
    if not names:
        raise InputError(f"no observation columns; there are {', '.join(table.names)}")
    return names


def _annotations(
    table: TableReader, name: str, final: Bool[np.ndarray, "rows"], starts: Int[np.ndarray, "N"]
) -> Annotations | None:
    """Annotations from labels of segments or from stacks; none if the table has neither."""
    if name not in table.names and name == OWN_COLUMNS.annotation:
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
    entries = pc.list_flatten(column).cast(pa.string()).dictionary_encode()
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
