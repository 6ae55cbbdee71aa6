"""Columns of Arrow tables as arrays: whole numbers, text, lists, whoever wrote them and however they are encoded.

What the columns mean for traces is said in `tables`.

Letters: N traces.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int, Shaped

from hvil.data.ragged import locate
from hvil.gate.budget import ALLOWANCE, ROW_BYTES, check_budget
from hvil.gate.errors import InputError
from hvil.gate.files import parse_json
from hvil.gate.text import in_line

FILE = "source_file"
"""The column that says which file a row comes from."""
COLUMNS_LISTED = 40
"""Names of columns in an error message, at most."""


class TableReader:
    """A table read one column at a time, so that a large file is never in memory as a whole beside its traces."""

    def __init__(self, schema: pa.Schema, rows: int, read: Callable[[str], pa.ChunkedArray]) -> None:
        """Describe the table.

        Args:
            schema: names and types of the columns.
            rows: how many rows the table has.
            read: gives the column of a name.
        """
        self.names: list[str] = schema.names
        self.facts = _facts(schema)
        """What a file of our own says of itself beside its columns; empty for another tool's."""
        self.rows = self._stored = rows
        """How many rows `column` gives: those of the table, unless `order` names some of them twice."""
        self.order: pa.Array | None = None
        """Which row of the table comes when; None: as they stand."""
        self._read = read

    def column(self, name: str) -> pa.ChunkedArray:
        """A column, its rows in order."""
        if self.names.count(name) != 1:
            problem = "two columns" if name in self.names else "no column"
            raise InputError(f"{problem} {name!r}; there are {', '.join(map(in_line, self.names))}")
        values = self._read(name)
        values.validate(full=True)  # indices and offsets of a damaged file can point anywhere
        if len(values) != self._stored:
            raise InputError(f"the column {name!r} has {len(values)} rows, expected {self._stored}")
        if pa.types.is_dictionary(values.type):
            values = values.unify_dictionaries()
        return values if self.order is None else values.take(self.order)


def _facts(schema: pa.Schema) -> dict[str, Any]:
    text = (schema.metadata or {}).get(b"hvil")
    facts = {} if text is None else parse_json(text, "its 'hvil' metadata")
    return facts if isinstance(facts, dict) else {}


def mapping_in(facts: Mapping[str, Any], key: str) -> dict[str, Any]:
    """An entry of a file's facts as a mapping; empty if it is none, because the columns themselves are enough."""
    value = facts.get(key, {})
    return value if isinstance(value, dict) else {}


def texts(value: Any) -> tuple[str, ...] | None:
    """An entry of a file's facts as texts; None if it is no list."""
    return tuple(str(name) for name in value) if isinstance(value, list) else None


def shape_of(value: Any, width: int) -> tuple[int, ...]:
    """The shape that a file's facts name for lists of this width, if it fits; else one dimension."""
    lengths = isinstance(value, list) and all(isinstance(length, int) and length >= 0 for length in value)
    return tuple(value) if lengths and int(np.prod(value)) == width else (width,)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text, in any of Arrow's encodings."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner) or str(inner) == "string_view")


def is_list(kind: pa.DataType) -> bool:
    """Whether a column of this type holds lists, in any of Arrow's encodings."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def decoded(column: Any) -> Any:
    """A column without dictionary encoding."""
    if not pa.types.is_dictionary(column.type):
        return column
    if is_text(column.type):
        _check_expansion(column, lambda lengths: int(pc.sum(lengths).as_py() or 0))
    return column.cast(column.type.value_type)


def decoded_lists(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of lists whose entries are without dictionary encoding."""
    entry = column.type.value_type
    if not pa.types.is_dictionary(entry):
        return column
    for chunk in column.chunks:
        decoded(pc.list_flatten(chunk))  # refuses texts that would take too much memory
    return column.cast(pa.list_(entry.value_type))


def _check_expansion(column: Any, need: Callable[[Any], int]) -> None:
    """Refuse a column of text that would take much more memory than its rows have.

    Args:
        column: with dictionary encoding.
        need: the memory that it would take, from the length of the text in each row.
    """
    parts = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    lengths = [pc.binary_length(part.dictionary).take(part.indices).cast(pa.int64()) for part in parts]
    expanded = need(pa.chunked_array(lengths, pa.int64()))
    if expanded > max(ALLOWANCE, ROW_BYTES * len(column)):
        check_budget("a column of text", expanded, 0)


def as_dictionary(column: Any) -> Any:
    """A column of text with dictionary encoding."""
    return column if pa.types.is_dictionary(column.type) else column.cast(pa.string()).dictionary_encode()


def codes_in(text: pa.ChunkedArray, names: Sequence[str]) -> Int[np.ndarray, "rows"]:
    """For each row of a dictionary column the index of its text in `names`, -1 where it is not there."""
    index = {name: code for code, name in enumerate(names)}
    parts = [np.empty(0, dtype=np.int32)]
    for chunk in text.chunks:
        of_entry = np.array([index.get(entry, -1) for entry in chunk.dictionary.to_pylist()] + [-1], dtype=np.int32)
        parts.append(of_entry[chunk.indices.cast(pa.int64()).fill_null(-1).to_numpy()])
    return np.concatenate(parts)


def whole_numbers(column: pa.ChunkedArray, name: str, gap: int) -> Int[np.ndarray, "rows"]:
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


def list_values(column: pa.ChunkedArray, name: str) -> Shaped[np.ndarray, "rows width"]:
    """A column of lists of one length as an array."""
    lengths = np.unique(pc.list_value_length(column).to_numpy())
    if len(lengths) != 1:
        raise InputError(f"the lists in the column {name!r} differ in length")
    return plain_values(pc.list_flatten(column), name).reshape(len(column), int(lengths[0]))


def plain_values(column: pa.ChunkedArray, name: str) -> Shaped[np.ndarray, "rows"]:
    """A column of numbers or of text as an array."""
    if column.null_count:
        raise InputError(f"the column {name!r} has a gap")
    if is_text(column.type):
        text = as_dictionary(column)
        _check_expansion(text, lambda lengths: 4 * len(column) * int(pc.max(lengths).as_py() or 0))
        return np.array(column.to_pylist(), dtype=np.str_)
    values: np.ndarray = decoded(column).to_numpy()
    if values.dtype.hasobject:
        raise InputError(f"the column {name!r} holds {column.type}, expected numbers or text")
    return values


def refuse_problems(problems: Sequence[str], names: Sequence[str]) -> None:
    """Raise an `InputError` that lists all problems of a table with these columns; do nothing if there are none."""
    if problems:
        listed = "; ".join(f"({i}) {problem}" for i, problem in enumerate(problems, start=1))
        text = problems[0] if len(problems) == 1 else f"{len(problems)} problems: {listed}"
        names = [name for name in names if name != FILE]
        columns = ", ".join(map(in_line, names[:COLUMNS_LISTED])) + (", …" if len(names) > COLUMNS_LISTED else "")
        raise InputError(f"{text}; there are {columns}" if columns and "no column" in text else text)


def refuse_gaps(column: pa.ChunkedArray, name: str, starts: Int[np.ndarray, "N"]) -> None:
    """Raise an `InputError` that names the step, if a column has a row without a value."""
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise InputError(f"{step_name(starts, row)}: no value in the column {name!r}")


def step_name(starts: Int[np.ndarray, "N"], row: int) -> str:
    """A row in the words of an error message, given the rows at which the traces start."""
    trace, step = locate(starts, row)
    return f"trace {trace}, step {step}"
