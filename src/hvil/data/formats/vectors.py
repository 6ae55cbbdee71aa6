"""Continuous actions in tables: columns `action.NAME`, columns that a user names with commas, or lists in one column.

A single column of fractions is no continuous action: it may as well be a mistake. `tables` reads everything else.

Letters: N traces, S actions of all traces together, A numbers of an action.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Int

from hvil.data.formats.columns import TableReader, is_list, step_name
from hvil.gate.errors import InputError

ACTION_PREFIX = "action."
"""What the columns of a continuous action begin with."""


class VectorColumns(NamedTuple):
    """Where a table has its continuous actions."""

    columns: tuple[str, ...]
    """One for each number, or one column of lists."""
    names: tuple[str, ...]
    """Of the numbers; empty for lists."""


def vector_columns(table: TableReader, action: str) -> VectorColumns | None:
    """The columns of continuous actions, given what the user calls the action's column; None for discrete actions."""
    if action not in table.names:
        named = tuple(name.strip() for name in action.split(",") if name.strip())
        if named and "," in action:
            return VectorColumns(named, tuple(name.removeprefix(ACTION_PREFIX) for name in named))
        prefix = f"{action or 'action'}."
        found = tuple(name for name in table.names if name.startswith(prefix))
        for name in found:
            if "," in name or name != name.strip():  # names are listed with commas, in flags and with a run
                raise InputError(f"the column {name!r}: a name with a comma, or with blanks around it; rename it")
        return VectorColumns(found, tuple(name.removeprefix(prefix) for name in found)) if found else None
    return VectorColumns((action,), ()) if is_list(table.column(action).type) else None


def missing_action(table: TableReader, column: str) -> Bool[np.ndarray, "rows"]:
    """The rows without a value."""
    return np.asarray(pc.is_null(table.column(column), nan_is_null=True).to_numpy())


def read_vectors(
    table: TableReader, of: VectorColumns, final: Bool[np.ndarray, "rows"], starts: Int[np.ndarray, "N"], repeated: bool
) -> Float[np.ndarray, "S A"]:
    """The vectors of all rows but each trace's last, which must have none unless the log `repeated` it."""
    for name in of.columns:
        missing = missing_action(table, name)
        if (missing & ~final).any():
            where = step_name(starts, int(np.argmax(missing & ~final)))
            raise InputError(f"{where}: no value in the column {name!r}, and it is not the trace's last row")
        if (~missing & final).any() and not repeated:
            where = step_name(starts, int(np.argmax(~missing & final)))
            raise InputError(
                f"{where}: the last row of a trace holds the last observation and must have no value in {name!r}"
            )
    kept = pa.array(np.flatnonzero(~final))
    parts = [_numbers(table.column(name).take(kept), name) for name in of.columns]
    return np.concatenate(parts, axis=1)


def _numbers(column: pa.ChunkedArray, name: str) -> Float[np.ndarray, "S A"]:
    """One column as rows of numbers; lists must have one length."""
    if is_list(column.type):
        lengths = np.unique(pc.list_value_length(column).to_numpy())
        if len(lengths) != 1:
            raise InputError(f"the lists in the column {name!r} differ in length")
        values, width = pc.list_flatten(column), int(lengths[0])
    else:
        values, width = column, 1
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise InputError(f"the column {name!r} holds {column.type}, expected numbers: a part of a continuous action")
    if values.null_count:
        raise InputError(f"the lists in the column {name!r} have a gap")
    with np.errstate(over="ignore"):  # infinities are refused by `Traces`, which names the step
        return np.asarray(values.to_numpy(), dtype=np.float32).reshape(len(column), width)
