"""Trace sets written as Parquet: one row a step, readable by any other tool; `parquet_reader` reads them back.

Columns: `trace`, `step`, `action` (null in a trace's last row; `action.NAME` for each number of a continuous action),
`observation.NAME` (or one list `observation` if there
are many) and, where there are any, `stack` (list of procedure names), `kept`, `metadata.NAME` (in a trace's first row).

Letters: N traces.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool, Int, Shaped

from hvil.data.formats.vectors import ACTION_PREFIX
from hvil.data.traces import Annotations, Traces

ROW_GROUP_ROWS = 1 << 17
ROW_GROUP_BYTES = 1 << 25
"""A row group ends at whichever comes first, so that a reader that takes a few at a time needs little memory."""
WIDE = 64
"""An observation of more numbers than this is one column of lists instead of a column for each number."""


def write_parquet(traces: Traces, path: Path) -> None:
    """Write the file, a row group at a time, whole traces in each."""
    schema = _schema(traces)
    with pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True) as writer:
        for first, last in _groups(traces):
            writer.write_table(_table(traces, first, last, schema))


def _groups(traces: Traces) -> Iterator[tuple[int, int]]:
    """Ranges of whole traces, each about one row group."""
    ends = traces.row_offsets
    row_bytes = max(traces.observations.nbytes // len(traces.observations), 1)
    rows = max(min(ROW_GROUP_ROWS, ROW_GROUP_BYTES // row_bytes), 1)
    first = 0
    while first < len(traces):
        last = int(np.searchsorted(ends, ends[first] + rows, side="right")) - 1
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
    fields = [("trace", pa.int64()), ("step", pa.int32())]
    if traces.vectors is None:
        fields.append(("action", pa.dictionary(pa.int32(), pa.string())))
    else:
        fields += [(f"{ACTION_PREFIX}{name}", pa.float32()) for name in traces.vector_names]
    if _is_wide(traces):
        fields.append(("observation", pa.list_(number, int(np.prod(traces.observation_shape)))))
    else:
        fields += [(name, number) for name in _columns(traces)]
    if traces.annotations is not None:
        fields += [("stack", pa.list_(pa.string())), ("kept", pa.int16())]
    for name, values in traces.metadata.items():
        item = pa.string() if values.dtype.kind == "U" else pa.from_numpy_dtype(values.dtype)
        fields.append((f"metadata.{name}", item if values.ndim == 1 else pa.list_(item)))
    facts = {
        "action_names": traces.action_names,
        "observation_names": traces.observation_names,
        "observation_shape": traces.observation_shape,
        "attributes": dict(traces.attributes),
        "metadata_shapes": {name: values.shape[1:] for name, values in traces.metadata.items()},
    }
    if traces.annotations is not None:
        facts["procedures"] = traces.annotations.procedures
    if traces.reading is not None:
        facts["reading"] = traces.reading.to_mapping()
    return pa.schema(fields, metadata={"hvil": json.dumps(facts, sort_keys=True)})


def _table(traces: Traces, first: int, last: int, schema: pa.Schema) -> pa.Table:
    part = traces[first:last]
    rows, lengths = part.row_offsets, part.lengths
    final = np.zeros(rows[-1], dtype=bool)
    final[rows[1:] - 1] = True
    steps = np.arange(rows[-1]) - np.repeat(rows[:-1], lengths + 1)
    columns: list[pa.Array] = [
        pa.array(np.repeat(np.arange(first, last), lengths + 1)),
        pa.array(steps.astype(np.int32)),
        *_action_columns(part, final),
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


def _action_columns(part: Traces, final: Bool[np.ndarray, "rows"]) -> list[pa.Array]:
    """The kind of each action, or a column for each number of a continuous one; null in each trace's last row."""
    if part.vectors is not None:
        return [pa.array(np.ascontiguousarray(numbers), mask=final) for numbers in part.vector_rows().T]
    codes = np.zeros(len(final), dtype=np.int32)
    codes[~final] = part.actions
    names = pa.array(part.action_names, pa.string())
    return [pa.DictionaryArray.from_arrays(pa.array(codes, mask=final), names)]


def _annotation_columns(annotations: Annotations, final: Bool[np.ndarray, "rows"]) -> list[pa.Array]:
    annotated = np.zeros(len(final), dtype=bool)
    annotated[~final] = annotations.known
    kept = np.full(len(final), -1, dtype=np.int16)
    kept[~final] = annotations.kept
    names = pa.array(annotations.procedures, pa.string())
    entries = names.take(pa.array(annotations.stacks[annotations.stacks >= 0]))
    return [_lists(entries, annotated, annotations.depths[annotations.known]), pa.array(kept, mask=~annotated)]


def _metadata_column(values: Shaped[np.ndarray, "N ..."], rows: Int[np.ndarray, "N_plus_1"]) -> pa.Array:
    flat = pa.array(values.ravel().tolist(), pa.string()) if values.dtype.kind == "U" else pa.array(values.ravel())
    first = np.zeros(rows[-1], dtype=bool)
    first[rows[:-1]] = True
    if values.ndim > 1:
        return _lists(flat, first, int(np.prod(values.shape[1:])))
    return flat.take(pa.array(np.cumsum(first) - 1, mask=~first))


def _lists(entries: pa.Array, present: Bool[np.ndarray, "rows"], lengths: Int[np.ndarray, "lists"] | int) -> pa.Array:
    """Lists of these lengths in the rows where they are present, null in the others."""
    offsets = np.zeros(len(present) + 1, dtype=np.int32)
    offsets[1:][present] = lengths
    np.cumsum(offsets, out=offsets)
    return pa.ListArray.from_arrays(pa.array(offsets, mask=np.append(~present, False)), entries)
