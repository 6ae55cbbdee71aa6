"""Inferred call structure in a Parquet file: a trace file whose actions are labelled with sub-tasks for other tools."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hvil.analysis.structures import Segments
from hvil.data.formats.parquet_writer import write_parquet
from hvil.data.traces import Traces


def write_segments(path: Path, traces: Traces, labels: Segments) -> None:
    """Write a Parquet trace file whose annotations are the segments, with `depth`, `procedure`, `segment` beside them.

    Columns: `trace`, `step`, `action`, the observations, `stack`, `kept` and these; null in a trace's last row.
    """
    annotated = replace(traces, annotations=labels.annotations)
    plain = path.with_name(path.name + ".traces")
    try:
        write_parquet(annotated, plain)
        with pq.ParquetFile(plain) as file:
            added = [("depth", pa.int16()), ("procedure", pa.dictionary(pa.int32(), pa.string()))]
            added.append(("segment", pa.int32()))
            schema = file.schema_arrow
            for name, kind in added:
                schema = schema.append(pa.field(name, kind))
            columns = _columns(traces, labels)
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


def _columns(traces: Traces, labels: Segments) -> list[pa.Array]:
    """The columns `depth`, `procedure` and `segment`, one entry a row, null in each trace's last."""
    row_offsets = traces.row_offsets
    final = np.zeros(row_offsets[-1], dtype=bool)
    final[row_offsets[1:] - 1] = True

    def column(values: np.ndarray, kind: pa.DataType) -> pa.Array:
        spread = np.zeros(row_offsets[-1], dtype=np.int64)
        spread[~final] = values
        return pa.array(spread, mask=final).cast(kind)

    names = pa.array(labels.annotations.procedures, pa.string())
    codes = column(labels.procedure, pa.int32())
    return [
        column(labels.annotations.depths, pa.int16()),
        pa.DictionaryArray.from_arrays(codes, names),
        column(labels.segment, pa.int32()),
    ]
