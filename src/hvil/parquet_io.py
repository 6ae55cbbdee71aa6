"""Trace sets as Parquet: one row a step, readable by any other tool.

Columns: `trace`, `step`, `action` (null in a trace's last row), `observation.NAME` (or one list `observation` if there
are many) and, where there are any, `stack` (list of procedure names), `kept`, `metadata.NAME` (in a trace's first row).
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hvil.errors import InputError
from hvil.traces import Annotations, Traces

ROW_GROUP_ROWS = 1 << 17
WIDE = 64
"""Observations of more numbers than this are one list column, not a column a number."""


class Columns(NamedTuple):
    """Which columns of a table mean what; the defaults are those of files written here."""

    trace: str = "trace"
    step: str = "step"
    action: str = "action"
    observations: tuple[str, ...] = ()
    """Empty: `observation`, or every column that starts with `observation.`."""


OWN_COLUMNS = Columns()


def write_parquet(traces: Traces, path: Path) -> None:
    """Write the file, a row group at a time, whole traces in each."""
    schema = _schema(traces)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for first, last in _groups(traces):
            writer.write_table(_table(traces, first, last, schema))


def _groups(traces: Traces) -> Iterator[tuple[int, int]]:
    """Ranges of whole traces, each about one row group."""
    ends = traces.observation_offsets
    first = 0
    while first < len(traces):
        last = int(np.searchsorted(ends, ends[first] + ROW_GROUP_ROWS, side="right")) - 1
        last = min(max(last, first + 1), len(traces))
        yield first, last
        first = last


def _is_wide(traces: Traces) -> bool:
    return len(traces.observation_shape) > 1 or int(np.prod(traces.observation_shape)) > WIDE


def _columns(traces: Traces) -> list[str]:
    if traces.observation_names:
        return [f"observation.{name}" for name in traces.observation_names]
    return [f"observation.{number}" for number in range(int(np.prod(traces.observation_shape)))]


def _schema(traces: Traces) -> pa.Schema:
    number = pa.from_numpy_dtype(traces.observations.dtype)
    fields = [("trace", pa.int64()), ("step", pa.int32()), ("action", pa.dictionary(pa.int32(), pa.string()))]
    if _is_wide(traces):
        fields.append(("observation", pa.list_(number, int(np.prod(traces.observation_shape)))))
    else:
        fields += [(name, number) for name in _columns(traces)]
    if traces.annotations is not None:
        fields += [("stack", pa.list_(pa.string())), ("kept", pa.int16())]
    for name, values in traces.metadata.items():
        item = pa.string() if values.dtype.kind == "U" else pa.from_numpy_dtype(values.dtype)
        width = int(np.prod(values.shape[1:]))
        fields.append((f"metadata.{name}", item if values.ndim == 1 else pa.list_(item, width)))
    facts = {
        "action_names": traces.action_names,
        "observation_names": traces.observation_names,
        "observation_shape": traces.observation_shape,
        "attributes": dict(traces.attributes),
        "metadata_shapes": {name: values.shape[1:] for name, values in traces.metadata.items()},
    }
    if traces.annotations is not None:
        facts["procedures"] = traces.annotations.procedures
    return pa.schema(fields, metadata={"hvil": json.dumps(facts, sort_keys=True)})


def _table(traces: Traces, first: int, last: int, schema: pa.Schema) -> pa.Table:
    part = traces[first:last]
    rows, lengths = part.observation_offsets, part.lengths
    final = np.zeros(rows[-1], dtype=bool)
    final[rows[1:] - 1] = True
    codes = np.zeros(rows[-1], dtype=np.int32)
    codes[~final] = part.actions
    steps = np.arange(rows[-1]) - np.repeat(rows[:-1], lengths + 1)
    names = pa.array(traces.action_names, pa.string())
    columns: list[pa.Array] = [
        pa.array(np.repeat(np.arange(first, last), lengths + 1)),
        pa.array(steps.astype(np.int32)),
        pa.DictionaryArray.from_arrays(pa.array(codes, mask=final), names),
    ]
    flat = part.observations.reshape(len(part.observations), -1)
    if _is_wide(traces):
        columns.append(pa.FixedSizeListArray.from_arrays(pa.array(flat.ravel()), flat.shape[1]))
    else:
        columns += [pa.array(np.ascontiguousarray(flat[:, column])) for column in range(flat.shape[1])]
    if part.annotations is not None:
        columns += _annotation_columns(part.annotations, final)
    for values in part.metadata.values():
        columns.append(_metadata_column(values, rows))
    return pa.table(columns, schema=schema)


def _annotation_columns(annotations: Annotations, final: np.ndarray) -> list[pa.Array]:
    depths = np.zeros(len(final), dtype=np.int32)
    depths[~final] = annotations.depths
    entries = annotations.stacks[annotations.stacks >= 0]
    names = pa.array(annotations.procedures, pa.string())
    known = np.zeros(len(final), dtype=bool)
    known[~final] = annotations.known
    offsets = np.concatenate([[0], np.cumsum(depths)]).astype(np.int32)
    stacks = pa.ListArray.from_arrays(
        pa.array(offsets, mask=np.concatenate([~known, [False]])), names.take(pa.array(entries))
    )
    kept = np.full(len(final), -1, dtype=np.int16)
    kept[~final] = annotations.kept
    return [stacks, pa.array(kept, mask=~known)]


def _metadata_column(values: np.ndarray, rows: np.ndarray) -> pa.Array:
    place = np.full(rows[-1], -1, dtype=np.int64)
    place[rows[:-1]] = np.arange(len(values))
    if values.ndim == 1:
        column = pa.array(values if values.dtype.kind != "U" else values.tolist())
    else:
        flat = values.reshape(len(values), -1)
        column = pa.FixedSizeListArray.from_arrays(pa.array(flat.ravel()), flat.shape[1])
    return column.take(pa.array(place, mask=place < 0))


def read_parquet(path: str | os.PathLike[str], columns: Columns = OWN_COLUMNS) -> Traces:
    """Read a file written here, or another tool's whose columns are named."""
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: not a Parquet file, or damaged ({str(error).splitlines()[0]})") from error
    return traces_from_table(table, columns)


def traces_from_table(table: pa.Table, columns: Columns = OWN_COLUMNS) -> Traces:
    """A trace set from a table with one row a step."""
    facts = _facts(table.schema)
    for name in (columns.trace, columns.action, *columns.observations):
        if name not in table.column_names:
            raise InputError(f"no column {name!r}; there are {', '.join(table.column_names)}")
    if not table.num_rows:
        raise InputError("no rows")
    table = _in_order(table, columns)
    starts = _starts(table.column(columns.trace))
    rows = np.append(starts, table.num_rows)
    final = np.zeros(table.num_rows, dtype=bool)
    final[rows[1:] - 1] = True
    names, codes = _actions(table.column(columns.action), facts, final, starts)
    observation_names, observations = _observations(table, columns, facts)
    return Traces(
        observations,
        codes[~final],
        rows - np.arange(len(rows)),
        names,
        observation_names,
        _annotations(table, facts, final),
        _metadata(table, facts, starts),
        {str(key): str(value) for key, value in _mapping(facts, "attributes").items()},
    )


def _in_order(table: pa.Table, columns: Columns) -> pa.Table:
    """Rows of a trace together and in the order of their steps; files written here already are."""
    trace = table.column(columns.trace)
    if trace.null_count:
        raise InputError(f"row {_first_null(trace)}: no value in the column {columns.trace!r}")
    starts = _starts(trace)
    grouped = len(starts) == len(pc.unique(trace))
    if columns.step not in table.column_names:
        if not grouped:
            raise InputError(f"the rows of a trace do not stand together, and there is no column {columns.step!r}")
        return table
    step = table.column(columns.step)
    if step.null_count or not pa.types.is_integer(step.type):
        raise InputError(f"the column {columns.step!r} must hold whole numbers")
    steps = step.to_numpy()
    rising = np.diff(steps) > 0
    rising[starts[1:] - 1] = True
    if grouped and rising.all():
        return table
    return table.take(pc.sort_indices(table, sort_keys=[(columns.trace, "ascending"), (columns.step, "ascending")]))


def _starts(trace: pa.ChunkedArray) -> np.ndarray:
    """Rows at which another trace begins."""
    if len(trace) < 2:
        return np.zeros(len(trace), dtype=np.int64)
    change = pc.not_equal(trace.slice(1), trace.slice(0, len(trace) - 1))
    return np.concatenate([[0], np.flatnonzero(change.to_numpy()) + 1])


def _actions(
    column: pa.ChunkedArray, facts: Mapping[str, Any], final: np.ndarray, starts: np.ndarray
) -> tuple[tuple[str, ...], np.ndarray]:
    """Action names and a code for each row (0 where there is none)."""
    missing = column.is_null().to_numpy()
    if (missing & ~final).any():
        row = int(np.argmax(missing & ~final))
        raise InputError(f"{_place(starts, row)}: no action, and it is not the trace's last row")
    if (~missing & final).any():
        row = int(np.argmax(~missing & final))
        raise InputError(
            f"{_place(starts, row)}: the last row of a trace holds the last observation and must have no action"
        )
    given = facts.get("action_names")
    if pa.types.is_integer(column.type):
        codes = pc.fill_null(column, 0).to_numpy().astype(np.int64)
        largest = int(codes.max(initial=0))
        if not given and largest > 1 << 16:
            raise InputError(f"action {largest}: actions are numbers from 0 to {1 << 16}, or text")
        return _texts(given) or tuple(str(number) for number in range(largest + 1)), codes
    text = column.cast(pa.string())
    names = _texts(given) or tuple(sorted(value for value in pc.unique(text).to_pylist() if value is not None))
    codes = pc.index_in(text, value_set=pa.array(names, pa.string()))
    unknown = codes.is_null().to_numpy() & ~missing
    if unknown.any():
        row = int(np.argmax(unknown))
        raise InputError(f"{_place(starts, row)}: action {text[row].as_py()!r} is not among {', '.join(names)}")
    return names, pc.fill_null(codes, 0).to_numpy().astype(np.int64)


def _observations(table: pa.Table, columns: Columns, facts: Mapping[str, Any]) -> tuple[tuple[str, ...], np.ndarray]:
    chosen = columns.observations or (
        ("observation",)
        if "observation" in table.column_names
        else tuple(name for name in table.column_names if name.startswith("observation."))
    )
    if not chosen:
        raise InputError(f"no observation columns; there are {', '.join(table.column_names)}")
    for name in chosen:
        if table.column(name).null_count:
            raise InputError(f"row {_first_null(table.column(name))}: no value in the column {name!r}")
    shape = tuple(int(n) for n in facts.get("observation_shape", ()) if isinstance(n, int))
    if len(chosen) == 1 and pa.types.is_list(table.column(chosen[0]).type) | pa.types.is_fixed_size_list(
        table.column(chosen[0]).type
    ):
        flat = pc.list_flatten(table.column(chosen[0])).to_numpy()
        lengths = np.unique(pc.list_value_length(table.column(chosen[0])).to_numpy())
        if len(lengths) != 1:
            raise InputError(f"the lists in the column {chosen[0]!r} differ in length")
        values = flat.reshape(table.num_rows, *(shape if np.prod(shape) == lengths[0] else lengths))
        return _texts(facts.get("observation_names")) or (), values
    parts = []
    for name in chosen:
        kind = table.column(name).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise InputError(f"the column {name!r} holds {kind}, expected numbers")
        parts.append(table.column(name).to_numpy())
    dtype = np.result_type(*parts)
    values = np.empty((table.num_rows, len(parts)), dtype=np.float32 if dtype == np.float64 else dtype)
    for index, part in enumerate(parts):
        values[:, index] = part
    return tuple(name.removeprefix("observation.") for name in chosen), values


def _annotations(table: pa.Table, facts: Mapping[str, Any], final: np.ndarray) -> Annotations | None:
    if "stack" not in table.column_names:
        return None
    column = table.column("stack").combine_chunks()
    if not pa.types.is_list(column.type):
        raise InputError("the column 'stack' must hold lists of procedure names")
    entries = pc.list_flatten(column).cast(pa.string())
    names = _texts(facts.get("procedures")) or tuple(dict.fromkeys(entries.to_pylist()))
    codes = pc.index_in(entries, value_set=pa.array(names, pa.string()))
    if codes.null_count:
        raise InputError(f"the column 'stack' names an unknown procedure {entries[_first_null(codes)].as_py()!r}")
    depths = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
    if depths.max(initial=0) > 1000:
        raise InputError("the column 'stack' holds a stack of more than 1000 frames")
    stacks = np.full((table.num_rows, max(int(depths.max(initial=0)), 1)), -1, dtype=np.int16)
    stacks[np.arange(stacks.shape[1]) < depths[:, None]] = codes.to_numpy()
    kept = np.full(table.num_rows, -1, dtype=np.int16)
    if "kept" in table.column_names:
        kept = pc.fill_null(table.column("kept"), -1).to_numpy().astype(np.int16)
    return Annotations(names, stacks[~final], kept[~final])


def _metadata(table: pa.Table, facts: Mapping[str, Any], starts: np.ndarray) -> dict[str, np.ndarray]:
    found = {}
    shapes = _mapping(facts, "metadata_shapes")
    first = table.select([n for n in table.column_names if n.startswith("metadata.")]).take(pa.array(starts))
    for column in first.column_names:
        name = column.removeprefix("metadata.")
        values = first.column(column)
        if values.null_count:
            raise InputError(f"the column {column!r} has no value in the first row of a trace")
        if pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type):
            flat = pc.list_flatten(values).to_numpy()
            shape = tuple(shapes.get(name, (-1,)))
            found[name] = flat.reshape(len(starts), *shape)
        else:
            text = pa.types.is_string(values.type)
            found[name] = np.array(values.to_pylist(), dtype=np.str_) if text else values.to_numpy()
    return found


def _facts(schema: pa.Schema) -> dict[str, Any]:
    """What a file written here says of itself beside its columns."""
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
    return tuple(str(name) for name in value) if isinstance(value, Sequence) and not isinstance(value, str) else None


def _first_null(column: pa.ChunkedArray) -> int:
    return int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))


def _place(starts: np.ndarray, row: int) -> str:
    trace = int(np.searchsorted(starts, row, side="right")) - 1
    return f"trace {trace}, step {row - starts[trace]}"
