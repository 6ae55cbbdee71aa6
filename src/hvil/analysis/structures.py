"""Call structure as data: the stack at each action of given traces, from the PHP steps that a learner infers.

As annotations it goes into trace files; as a table it labels steps with sub-tasks for other tools.

Letters: S actions of all traces together, K steps of a structure.
"""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Int

from hvil.data.annotations import Annotations
from hvil.data.formats.parquet_writer import write_parquet
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.learner import InfersStructure, Learner, Structure
from hvil.machine.callgraph import CallGraph


class Segments(NamedTuple):
    """Sub-tasks: what was on the stack when each action was taken."""

    annotations: Annotations
    procedure: Int[np.ndarray, "S"]
    """The active one."""
    segment: Int[np.ndarray, "S"]
    """Number, within its trace, of the stretch of actions that one invocation takes without calling or returning."""


def infer(learner: Learner, traces: Traces, rng: np.random.Generator | None = None, exact: bool = False) -> Structure:
    """The call structure of each trace; what the traces' own annotations say is not looked at.

    Args:
        learner: with its current weights.
        traces: of the learner's actions and observations.
        rng: draw from the posterior; None: the most likely step at each turn.
        exact: from the exact posterior (with `rng`) or the most likely structure (without), by dynamic programming.
    """
    if not isinstance(learner, InfersStructure):
        raise InputError("this learner infers no call structure (an LSTM, a feed-forward network or a Stack-RNN)")
    traces = replace(traces, annotations=None)
    parts = []
    first = 0
    for group in traces.parts():
        part = _exactly(learner, group, rng) if exact else learner.infer(group, rng)
        parts.append(part._replace(trace=part.trace + first))
        first += len(group)
    return Structure(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _exactly(learner: object, traces: Traces, rng: np.random.Generator | None) -> Structure:
    from hvil.learners.exact_learner import ExactLearner, infer_exactly
    from hvil.learners.hvil import HvilLearner

    if isinstance(learner, ExactLearner):
        return learner.infer(traces, rng)
    if isinstance(learner, HvilLearner):
        return infer_exactly(learner.policy_network, traces, learner.config, rng=rng)
    raise InputError("exact inference needs a policy of procedures")


def segments(graph: CallGraph, traces: Traces, structure: Structure) -> Segments:
    """The stacks of a structure at each action."""
    order = np.arange(len(structure.choice))
    acts = np.flatnonzero(structure.choice < graph.terminate)
    if len(acts) != len(traces.actions):
        raise InputError(f"a structure of {len(acts)} actions for traces of {len(traces.actions)}")
    depths = structure.depth[acts]
    stacks = np.full((len(acts), int(depths.max())), -1, dtype=np.int16)
    for level in range(stacks.shape[1]):
        # The frame at a level is the one that took the latest step there: above it, it has called.
        latest = np.maximum.accumulate(np.where(structure.depth == level + 1, order, 0))[acts]
        stacks[:, level] = np.where(depths > level, structure.procedure[latest], -1)
    since = np.append(0, acts[:-1] + 1)
    first = np.zeros(len(acts), dtype=bool)
    first[traces.offsets[:-1]] = True
    # Between two actions come returns, then calls: the lowest height in between is what was kept.
    # (The returns after the very last action belong to none.)
    kept = np.where(first, 1, np.minimum.reduceat(structure.depth[: acts[-1] + 1], since))
    same = ~first & (kept == depths) & (kept == np.append(0, depths[:-1]))
    changes = np.cumsum(~same)
    starts = np.repeat(changes[traces.offsets[:-1]], traces.lengths)
    return Segments(
        Annotations(graph.procedures, stacks, kept.astype(np.int16)),
        stacks[np.arange(len(acts)), depths - 1].astype(np.int64),
        (changes - starts).astype(np.int64),
    )


def write_segments(path: Path, traces: Traces, found: Segments) -> None:
    """Write a Parquet trace file whose annotations are the segments, with `depth`, `procedure`, `segment` beside them.

    Columns: `trace`, `step`, `action`, the observations, `stack`, `kept` and these; null in a trace's last row.
    """
    annotated = replace(traces, annotations=found.annotations)
    plain = path.with_name(path.name + ".traces")
    try:
        write_parquet(annotated, plain)
        with pq.ParquetFile(plain) as file:
            added = [("depth", pa.int16()), ("procedure", pa.dictionary(pa.int32(), pa.string()))]
            added.append(("segment", pa.int32()))
            schema = file.schema_arrow
            for name, kind in added:
                schema = schema.append(pa.field(name, kind))
            columns = _columns(traces, found)
            with pq.ParquetWriter(path, schema, compression="zstd") as writer:
                at = 0
                for group in range(file.num_row_groups):
                    table = file.read_row_group(group)
                    for (name, _), column in zip(added, columns, strict=True):
                        table = table.append_column(name, column.slice(at, table.num_rows))
                    at += table.num_rows
                    writer.write_table(table.cast(schema))
    finally:
        plain.unlink(missing_ok=True)


def _columns(traces: Traces, found: Segments) -> list[pa.Array]:
    rows = traces.row_offsets
    final = np.zeros(rows[-1], dtype=bool)
    final[rows[1:] - 1] = True

    def column(values: np.ndarray, kind: pa.DataType) -> pa.Array:
        spread = np.zeros(rows[-1], dtype=np.int64)
        spread[~final] = values
        return pa.array(spread, mask=final).cast(kind)

    names = pa.array(found.annotations.procedures, pa.string())
    codes = column(found.procedure, pa.int32())
    return [
        column(found.annotations.depths, pa.int16()),
        pa.DictionaryArray.from_arrays(codes, names),
        column(found.segment, pa.int32()),
    ]
