"""Tables with objects and lists inside them as tables of plain columns: `page.kind`, `position[0]`."""

import pyarrow as pa
import pyarrow.compute as pc

from hvil.data.formats.columns import is_list
from hvil.gate.errors import InputError

MOST_NESTED = 4096
"""Columns that one column of lists or objects becomes, at most."""


def is_flat(schema: pa.Schema) -> bool:
    """Whether no column holds objects, or lists beside those of our own files."""
    return not any(
        pa.types.is_struct(field.type) or (is_list(field.type) and not _is_own_list(field.name)) for field in schema
    )


def _is_own_list(name: str) -> bool:
    """Whether a column of lists is one that our own files have."""
    return name in ("observation", "stack") or name.startswith("metadata.")


def flattened(table: pa.Table) -> pa.Table:
    """The table with a column for each entry of an object, and for each position of lists of numbers of one length."""
    table.validate(full=True)  # indices and offsets of a damaged file can point anywhere
    for index, field in enumerate(table.schema):
        if str(field.type) == "string_view":  # of polars; Arrow can do little with it
            table = table.set_column(index, field.name, table.column(index).cast(pa.large_string()))
    while any(pa.types.is_struct(kind) for kind in table.schema.types):
        table = table.flatten()
        if table.num_columns > MOST_NESTED:
            raise InputError(f"objects of more than {MOST_NESTED} entries cannot be read")
    columns: dict[str, pa.ChunkedArray] = {}
    if is_flat(table.schema):
        return table
    for name, column in zip(table.column_names, table.columns, strict=True):
        parts = {name: column} if _is_own_list(name) else _positions(name, column)
        if columns.keys() & parts.keys():
            raise InputError(f"two columns {next(iter(columns.keys() & parts.keys()))!r}")
        columns |= parts
    return pa.table(columns, metadata=table.schema.metadata)


def _positions(name: str, column: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    """The columns that a column of lists becomes; itself if it is no list of plain values of one length."""
    kind = column.type
    if not is_list(kind) or column.null_count or is_list(kind.value_type) or pa.types.is_struct(kind.value_type):
        return {name: column}
    lengths = pc.unique(pc.list_value_length(column)).to_pylist()
    if len(lengths) != 1 or not 0 < lengths[0] <= MOST_NESTED:
        return {name: column}
    return {f"{name}[{i}]": pc.list_element(column, i) for i in range(lengths[0])}
