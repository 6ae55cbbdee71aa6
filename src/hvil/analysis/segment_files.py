"""Inferred call structure in files: traces, or another tool's table, with labels; and one row a segment."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from hvil.analysis.structures import Segments
from hvil.data.formats.columns import is_list
from hvil.data.formats.parquet_writer import write_parquet
from hvil.data.formats.tables import TRACE_ID
from hvil.data.trace_files import LocatedTraces
from hvil.data.traces import Traces
from hvil.gate.files import write_atomically


def write_segments(path: Path, traces: Traces, labels: Segments, effects: Mapping[str, str] | None = None) -> None:
    """Write a Parquet trace file whose annotations are the segments, with `depth`, `procedure`, `segment` beside them.

    Columns: `trace`, `step`, `action`, the observations, `stack`, `kept` and these; null in a trace's last row. With
    effects (by the names of procedures), the column `effect` says what the active procedure returns with.
    """
    annotated = replace(traces, annotations=labels.annotations)
    plain = path.with_name(path.name + ".traces")
    try:
        write_parquet(annotated, plain)
        with pq.ParquetFile(plain) as file:
            added = [("depth", pa.int16()), ("procedure", pa.dictionary(pa.int32(), pa.string()))]
            added.append(("segment", pa.int32()))
            if effects:
                added.append(("effect", pa.dictionary(pa.int32(), pa.string())))
            schema = file.schema_arrow
            for name, kind in added:
                schema = schema.append(pa.field(name, kind))
            columns = _columns(traces, labels, effects or {})
            with pq.ParquetWriter(path, schema, compression="zstd") as writer:
                written = 0
                for group in range(file.num_row_groups):
                    table = file.read_row_group(group)
                    for (name, _), column in zip(added, columns, strict=True):
                        table = table.append_column(name, column.slice(written, table.num_rows))
                    written += table.num_rows
                    writer.write_table(table.cast(schema))
    finally:
        plain.unlink(missing_ok=True)


def labelled_table(located: LocatedTraces, labels: Segments) -> pa.Table:
    """Another tool's table as it was, all rows and columns in their order, with the labels in columns behind them.

    The new columns are `stack`, `depth`, `procedure` and `segment`, with `hvil_` before a name that is taken. They are
    null in rows without an action.
    """
    traces, rows, table = located
    final = np.zeros(len(rows), dtype=bool)
    final[traces.row_offsets[1:] - 1] = True
    place = np.full(table.num_rows, -1, dtype=np.int64)
    place[rows[~final]] = np.arange(len(traces.actions))  # the action of each row of the table
    where = pa.array(place, mask=place < 0)
    annotations = labels.annotations
    names = pa.array(annotations.procedures, pa.string())
    filled = annotations.stacks >= 0
    offsets = np.concatenate([[0], np.cumsum(filled.sum(axis=1))]).astype(np.int32)
    added = {
        "stack": pa.ListArray.from_arrays(pa.array(offsets), names.take(pa.array(annotations.stacks[filled]))),
        "depth": pa.array(annotations.depths.astype(np.int16)),
        "procedure": names.take(pa.array(labels.procedure)),
        "segment": pa.array(labels.segment.astype(np.int32)),
    }
    for name, values in added.items():
        free = name if name not in table.column_names else f"hvil_{name}"
        table = table.append_column(free, values.take(where))
    return table


def segment_table(traces: Traces, labels: Segments) -> pa.Table:
    """One row a segment: the trace, its first and last action (counted from 0), the procedure and the depth."""
    begins = np.ones(len(traces.actions), dtype=bool)
    begins[1:] = labels.segment[1:] != labels.segment[:-1]
    begins[traces.offsets[:-1]] = True
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(traces.actions)) - 1
    trace = np.repeat(np.arange(len(traces)), traces.lengths)[first]
    start = traces.offsets[trace]
    names = pa.array(labels.annotations.procedures, pa.string())
    return pa.table(
        {
            "trace": pa.array(trace_names(traces)).take(pa.array(trace)),
            "segment": pa.array(labels.segment[first]),
            "start": pa.array(first - start),
            "end": pa.array(last - start),
            "procedure": names.take(pa.array(labels.procedure[first])),
            "depth": pa.array(labels.annotations.depths[first]),
        }
    )


def trace_names(traces: Traces) -> list[str] | list[int]:
    """What the user's table calls each trace; numbers if there was no table."""
    return traces.metadata[TRACE_ID].tolist() if TRACE_ID in traces.metadata else list(range(len(traces)))


def write_table(target: Path, table: pa.Table) -> None:
    """Write a table as the ending of its name says: `.parquet`, or `.csv`, where a stack is `main/fetch`."""
    if target.suffix == ".parquet":
        write_atomically(target, lambda path: pq.write_table(table, path, compression="zstd"))
        return
    plain = {
        name: pc.binary_join(column, "/") if is_list(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    write_atomically(target, lambda path: csv.write_csv(pa.table(plain), path))


def _columns(traces: Traces, labels: Segments, effects: Mapping[str, str]) -> list[pa.Array]:
    """The columns `depth`, `procedure`, `segment` and perhaps `effect`; an entry a row, null in each trace's last."""
    row_offsets = traces.row_offsets
    final = np.zeros(row_offsets[-1], dtype=bool)
    final[row_offsets[1:] - 1] = True

    def column(values: np.ndarray, kind: pa.DataType) -> pa.Array:
        spread = np.zeros(row_offsets[-1], dtype=np.int64)
        spread[~final] = values
        return pa.array(spread, mask=final).cast(kind)

    names = pa.array(labels.annotations.procedures, pa.string())
    codes = column(labels.procedure, pa.int32())
    texts = pa.array([effects.get(name, "") for name in labels.annotations.procedures], pa.string())
    return [
        column(labels.annotations.depths, pa.int16()),
        pa.DictionaryArray.from_arrays(codes, names),
        column(labels.segment, pa.int32()),
        *([pa.DictionaryArray.from_arrays(codes, texts)] if effects else []),
    ]
