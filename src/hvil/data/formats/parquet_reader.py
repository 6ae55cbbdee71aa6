"""Trace sets read from Parquet or an Arrow table with one row a step: our own (`parquet_writer`) or another tool's.

Other tools' files differ in small ways that are accepted here: whole numbers stored as floats (pandas, where a column
has gaps), categories, large text and lists, rows in another order, metadata in every row, and logs that end with the
last action: there the last observation is repeated, because a trace has one more observation than actions.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Bool, Int, Shaped

from hvil.data.ragged import place
from hvil.data.segments import segment_annotations
from hvil.data.traces import Annotations, Traces
from hvil.gate.errors import InputError

MAX_ACTIONS = 1 << 16
MAX_STACK = 1000
REPEATED = "repeated: the log ends with the last action"


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


class _Source:
    """A table read one column at a time, so that a large file is never in memory as a whole beside its traces."""

    def __init__(self, schema: pa.Schema, rows: int, read: Callable[[str], pa.ChunkedArray]) -> None:
        self.names: list[str] = schema.names
        self.facts = _facts(schema)
        self.rows = self.stored = rows
        self.order: pa.Array | None = None
        """Which row comes when; None: as they stand."""
        self._read = read

    def column(self, name: str) -> pa.ChunkedArray:
        """A column, its rows in order."""
        if self.names.count(name) != 1:
            found = "two columns" if name in self.names else "no column"
            raise InputError(f"{found} {name!r}; there are {', '.join(self.names)}")
        values = self._read(name)
        values.validate(full=True)  # indices and offsets of a damaged file can point anywhere
        if len(values) != self.stored:
            raise InputError(f"the column {name!r} has {len(values)} rows, expected {self.stored}")
        return values if self.order is None else values.take(self.order)


def read_parquet(path: str | os.PathLike[str], columns: Columns = OWN_COLUMNS) -> Traces:
    """Read a file of our own, or another tool's whose columns are named."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            source = _Source(
                file.schema_arrow, file.metadata.num_rows, lambda name: file.read(columns=[name]).column(name)
            )
            return _traces(source, columns)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: not a Parquet file of traces, or damaged ({_first_line(error)})") from error


def traces_from_table(table: pa.Table, columns: Columns = OWN_COLUMNS) -> Traces:
    """A trace set from a table with one row a step."""
    try:
        return _traces(_Source(table.schema, table.num_rows, table.column), columns)
    except pa.ArrowException as error:
        raise InputError(f"a column does not hold what it should ({_first_line(error)})") from error


def _traces(source: _Source, columns: Columns) -> Traces:
    if not source.rows:
        raise InputError("no rows")
    starts = _arrange(source, columns)
    attributes = {str(key): str(value) for key, value in _mapping(source.facts, "attributes").items()}
    if not source.facts and _ends_with_action(source, columns.action, starts):
        starts = _repeat_last(source, starts)
        attributes["last_observation"] = REPEATED
    rows = np.append(starts, source.rows)
    final = np.zeros(source.rows, dtype=bool)
    final[rows[1:] - 1] = True
    names, actions = _actions(source, columns.action, final, starts, "last_observation" in attributes)
    observation_names, observations = _observations(source, columns, starts)
    return Traces(
        observations,
        actions,
        rows - np.arange(len(rows)),
        names,
        observation_names,
        _annotations(source, columns.annotation, final, starts),
        _metadata(source, starts),
        attributes,
    )


def _ends_with_action(source: _Source, name: str, starts: Int[np.ndarray, "N"]) -> bool:
    """Whether every trace has an action in its last row, so that the observation after it was not logged."""
    last = np.append(starts[1:], source.rows) - 1
    return not pc.is_null(source.column(name), nan_is_null=True).to_numpy()[last].any()


def _repeat_last(source: _Source, starts: Int[np.ndarray, "N"]) -> Int[np.ndarray, "N"]:
    """Let each trace's last row stand twice; where each trace starts then."""
    last = np.append(starts[1:], source.rows)
    rows = np.arange(source.rows) if source.order is None else source.order.to_numpy()
    source.order = pa.array(np.insert(rows, last, rows[last - 1]))
    source.rows += len(starts)
    return starts + np.arange(len(starts))


def _arrange(source: _Source, columns: Columns) -> Int[np.ndarray, "N"]:
    """Order the rows, those of a trace together and by their steps (ours already are); where each trace starts."""
    trace = _decoded(source.column(columns.trace))
    missing = pc.is_null(trace, nan_is_null=True).to_numpy()
    if missing.any():
        raise InputError(f"row {int(np.argmax(missing))}: no value in the column {columns.trace!r}")
    starts = _starts(trace)
    grouped = len(starts) == len(pc.unique(trace))
    if columns.step not in source.names:
        if not grouped:
            raise InputError(f"the rows of a trace do not stand together, and there is no column {columns.step!r}")
        return starts
    step = source.column(columns.step)
    if step.null_count:
        raise InputError(f"row {int(np.argmax(step.is_null().to_numpy()))}: no value in the column {columns.step!r}")
    steps = _whole_numbers(step, columns.step, 0)
    if grouped and _unsorted(starts, steps) is None:
        return starts
    keys = pa.table({"trace": trace, "step": steps})
    source.order = pc.sort_indices(keys, sort_keys=[("trace", "ascending"), ("step", "ascending")])
    starts = _starts(trace.take(source.order))
    twice = _unsorted(starts, steps[source.order.to_numpy()])
    if twice is not None:
        row = source.order[twice].as_py()
        raise InputError(f"trace {trace[row].as_py()!r} has the step {steps[row]} twice")
    return starts


def _starts(trace: pa.ChunkedArray) -> Int[np.ndarray, "N"]:
    """Rows at which another trace begins."""
    change = pc.not_equal(trace.slice(1), trace.slice(0, len(trace) - 1))
    return np.concatenate([[0], np.flatnonzero(change.to_numpy()) + 1])


def _unsorted(starts: Int[np.ndarray, "N"], steps: Int[np.ndarray, "rows"]) -> int | None:
    """The first row whose step is not after the one before in the same trace."""
    falls = np.zeros(len(steps), dtype=bool)
    falls[1:] = steps[1:] <= steps[:-1]
    falls[starts] = False
    return int(np.argmax(falls)) if falls.any() else None


def _actions(
    source: _Source, name: str, final: Bool[np.ndarray, "rows"], starts: Int[np.ndarray, "N"], repeated: bool
) -> tuple[tuple[str, ...], Int[np.ndarray, "S"]]:
    """Action names, and the actions of all rows but each trace's last."""
    column = source.column(name)
    missing = pc.is_null(column, nan_is_null=True).to_numpy()
    if (missing & ~final).any():
        where = _place(starts, int(np.argmax(missing & ~final)))
        raise InputError(f"{where}: no action, and it is not the trace's last row")
    if (~missing & final).any() and not repeated:
        where = _place(starts, int(np.argmax(~missing & final)))
        raise InputError(f"{where}: the last row of a trace holds the last observation and must have no action")
    given = _texts(source.facts.get("action_names"))
    if not _is_text(column.type) and not pa.types.is_boolean(column.type):
        codes = _whole_numbers(_decoded(column), name, 0)[~final]
        largest = int(codes.max(initial=0))
        if given is None and largest > MAX_ACTIONS:
            raise InputError(f"action {largest}: actions are numbers from 0 to {MAX_ACTIONS}, or text")
        return given or tuple(str(number) for number in range(largest + 1)), codes
    text = _dictionary(column)
    used = pc.unique(_decoded(pc.unique(text))).to_pylist()
    names = given or tuple(sorted(value for value in used if value is not None))
    codes = _codes(text, names)
    unknown = (codes < 0) & ~missing
    if unknown.any():
        row = int(np.argmax(unknown))
        raise InputError(f"{_place(starts, row)}: action {text[row].as_py()!r} is not among {', '.join(names)}")
    return names, codes[~final]


def _codes(text: pa.ChunkedArray, names: Sequence[str]) -> Int[np.ndarray, "rows"]:
    """For each row of a dictionary column the index of its text in `names`, -1 where it is not there."""
    index = {name: code for code, name in enumerate(names)}
    parts = [np.empty(0, dtype=np.int32)]
    for chunk in text.chunks:
        of_entry = np.array([index.get(entry, -1) for entry in chunk.dictionary.to_pylist()] + [-1], dtype=np.int32)
        parts.append(of_entry[chunk.indices.cast(pa.int64()).fill_null(-1).to_numpy()])
    return np.concatenate(parts)


def _observations(
    source: _Source, columns: Columns, starts: Int[np.ndarray, "N"]
) -> tuple[tuple[str, ...], Shaped[np.ndarray, "rows ..."]]:
    chosen = columns.observations or (
        ("observation",)
        if "observation" in source.names
        else tuple(name for name in source.names if name.startswith("observation."))
    )
    if not chosen:
        raise InputError(f"no observation columns; there are {', '.join(source.names)}")
    first = source.column(chosen[0])
    if len(chosen) == 1 and _is_list(first.type):
        _refuse_gaps(first, chosen[0], starts)
        values, names = _list_values(first, chosen[0]), None
    else:
        values, names = _numbers(source, chosen, starts), tuple(name.removeprefix("observation.") for name in chosen)
    if values.dtype.kind == "U":
        raise InputError(f"the column {chosen[0]!r} holds text, expected numbers")
    if columns.observations:
        return names or (), values
    shape = _shape(source.facts.get("observation_shape"), values.shape[1])
    own_names = _texts(source.facts.get("observation_names"))
    return own_names if own_names is not None else names or (), values.reshape(len(values), *shape)


def _numbers(
    source: _Source, chosen: Sequence[str], starts: Int[np.ndarray, "N"]
) -> Shaped[np.ndarray, "rows columns"]:
    """Columns of numbers side by side."""
    values = np.empty((source.rows, 0), dtype=bool)
    for index, name in enumerate(chosen):
        column = source.column(name)
        kind = column.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise InputError(f"the column {name!r} holds {kind}, expected numbers")
        _refuse_gaps(column, name, starts)
        dtype = np.result_type(values.dtype, kind.to_pandas_dtype())
        dtype = np.dtype(np.float32) if dtype.kind == "f" else dtype
        if dtype != values.dtype or not index:
            wider = np.empty((source.rows, len(chosen)), dtype=dtype)
            wider[:, :index] = values[:, :index]
            values = wider
        with np.errstate(over="ignore"):
            values[:, index] = column.to_numpy()
    return values


def _refuse_gaps(column: pa.ChunkedArray, name: str, starts: Int[np.ndarray, "N"]) -> None:
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise InputError(f"{_place(starts, row)}: no value in the column {name!r}")


def _list_values(column: pa.ChunkedArray, name: str) -> Shaped[np.ndarray, "rows width"]:
    """A column of lists of one length as an array."""
    lengths = np.unique(pc.list_value_length(column).to_numpy())
    if len(lengths) != 1:
        raise InputError(f"the lists in the column {name!r} differ in length")
    return _plain_values(pc.list_flatten(column), name).reshape(len(column), int(lengths[0]))


def _plain_values(column: pa.ChunkedArray, name: str) -> Shaped[np.ndarray, "rows"]:
    if column.null_count:
        raise InputError(f"the column {name!r} has a gap")
    if _is_text(column.type):
        return np.array(column.to_pylist(), dtype=np.str_)
    values: np.ndarray = _decoded(column).to_numpy()
    if values.dtype.hasobject:
        raise InputError(f"the column {name!r} holds {column.type}, expected numbers or text")
    return values


def _annotations(
    source: _Source, name: str, final: Bool[np.ndarray, "rows"], starts: Int[np.ndarray, "N"]
) -> Annotations | None:
    if name not in source.names and name == OWN_COLUMNS.annotation:
        return None
    column = source.column(name)
    if _is_text(column.type):
        labels = _dictionary(column)
        named = sorted({value for value in _decoded(pc.unique(labels)).to_pylist() if value})
        offsets = np.append(starts, source.rows) - np.arange(len(starts) + 1)
        return segment_annotations(named, _codes(labels, named)[~final].astype(np.int64), offsets)
    if not _is_list(column.type):
        raise InputError(f"the column {name!r} must hold lists of procedure names, or the labels of segments")
    entries = pc.list_flatten(column).cast(pa.string()).dictionary_encode()
    used = _decoded(pc.unique(entries)).to_pylist()
    names = _texts(source.facts.get("procedures")) or tuple(name for name in used if name is not None)
    codes = _codes(entries, names)
    if (codes < 0).any():
        unknown = entries[int(np.argmax(codes < 0))].as_py()
        raise InputError(f"the column {name!r} names an unknown procedure {unknown!r}; there are {', '.join(names)}")
    depths = pc.list_value_length(column).cast(pa.int64()).fill_null(0).to_numpy()
    if depths.max(initial=0) > MAX_STACK or len(names) > np.iinfo(np.int16).max:
        raise InputError(f"the column {name!r} holds a stack of more than {MAX_STACK} frames, or too many procedures")
    stacks = np.full((source.rows, max(int(depths.max(initial=0)), 1)), -1, dtype=np.int16)
    stacks[np.arange(stacks.shape[1]) < depths[:, None]] = codes
    kept = np.full(source.rows, -1, dtype=np.int64)
    if "kept" in source.names:
        kept = _whole_numbers(source.column("kept"), "kept", -1)
    return Annotations(names, stacks[~final], kept[~final])


def _metadata(source: _Source, starts: Int[np.ndarray, "N"]) -> dict[str, Shaped[np.ndarray, "N ..."]]:
    found = {}
    for column in (name for name in source.names if name.startswith("metadata.")):
        name, values = column.removeprefix("metadata."), source.column(column).take(pa.array(starts))
        if values.null_count:
            trace = int(np.argmax(values.is_null().to_numpy()))
            raise InputError(f"the column {column!r} has no value in the first row of trace {trace}")
        if _is_list(values.type):
            lists = _list_values(values, column)
            shape = _shape(_mapping(source.facts, "metadata_shapes").get(name), lists.shape[1])
            found[name] = lists.reshape(len(lists), *shape)
        else:
            found[name] = _plain_values(values, column)
    return found


def _whole_numbers(column: pa.ChunkedArray, name: str, gap: int) -> Int[np.ndarray, "rows"]:
    """The numbers of a column, also if they are stored as floats; `gap` where there is none."""
    if pa.types.is_floating(column.type):
        floats = column.to_numpy()
        numbers = np.where(np.isnan(floats), gap, floats)
        if not (np.abs(numbers) < 2**53).all() or (numbers != np.floor(numbers)).any():
            raise InputError(f"the column {name!r} must hold whole numbers")
        return numbers.astype(np.int64)
    if not pa.types.is_integer(column.type):
        raise InputError(f"the column {name!r} holds {column.type}, expected whole numbers")
    return np.asarray(column.cast(pa.int64()).fill_null(gap).to_numpy())


def _decoded(column: Any) -> Any:
    """A column without dictionary encoding."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _dictionary(column: Any) -> Any:
    return column if pa.types.is_dictionary(column.type) else column.cast(pa.string()).dictionary_encode()


def _is_text(kind: pa.DataType) -> bool:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner) or str(inner) == "string_view")


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _facts(schema: pa.Schema) -> dict[str, Any]:
    """What a file of our own says of itself beside its columns."""
    raw = (schema.metadata or {}).get(b"hvil")
    if raw is None:
        return {}
    try:
        facts = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InputError(f"its 'hvil' metadata is not JSON ({error})") from error
    return facts if isinstance(facts, dict) else {}


def _mapping(facts: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = facts.get(key, {})
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> tuple[str, ...] | None:
    return tuple(str(name) for name in value) if isinstance(value, list) else None


def _shape(value: Any, width: int) -> tuple[int, ...]:
    """The shape that the file names for lists of this width, if it fits."""
    lengths = isinstance(value, list) and all(isinstance(length, int) and length >= 0 for length in value)
    return tuple(value) if lengths and int(np.prod(value)) == width else (width,)


def _place(starts: Int[np.ndarray, "N"], row: int) -> str:
    trace, step = place(starts, row)
    return f"trace {trace}, step {step}"


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
