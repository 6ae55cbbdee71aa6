"""Observations of Gymnasium's spaces as numbers: the parts of a Dict or Tuple side by side, with their names.

Discrete parts and texts are categories, truth values stay so, and all else that holds numbers is numbers. Spaces
without parts pass as they are. What has no fixed number of values (sequences, graphs) is left out, and so is text with
too many different values.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pyarrow as pa
from gymnasium import spaces
from jaxtyping import Shaped

from hvil.data.formats.columns import TableReader
from hvil.data.formats.observed import adapted_columns, observed_values
from hvil.data.formats.recognition import MOST_CATEGORIES, MOST_NAMED_CATEGORIES
from hvil.data.reading import ColumnReading, LeftOut, Reading
from hvil.gate.errors import InputError

MOST_COLUMNS = 4096
"""Numbers of an observation whose parts get names; with more, such as those of pictures, nobody reads the names."""


class Observed(NamedTuple):
    """Observations as an array, and how it was made."""

    values: Shaped[np.ndarray, "rows ..."]
    reading: Reading | None
    """None if the observations were numbers from the start."""

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each number, or none."""
        return () if self.reading is None else self.reading.names


class _Leaf(NamedTuple):
    """A part of a space that has no parts itself."""

    name: str
    path: tuple[Any, ...]
    space: gymnasium.Space[Any]


def observe(space: gymnasium.Space[Any], episodes: Sequence[Any], reading: Reading | None = None) -> Observed:
    """The observations of some episodes, one after another.

    Args:
        space: the observation space.
        episodes: for each episode what Minari has: an array, or arrays in a dict or tuple.
        reading: how the parts were read before, if a run has been trained on such data.
    """
    if isinstance(space, spaces.Graph | spaces.Sequence):
        raise InputError(f"observations of the space {space} cannot be used; expected numbers")
    if not isinstance(space, spaces.Dict | spaces.Tuple | spaces.Text):
        return Observed(np.concatenate([np.asarray(values) for values in episodes]), None)
    earlier = reading is not None and not reading.columns
    if earlier or sum(_width(leaf.space) for leaf in _leaves(space)) > MOST_COLUMNS:
        return Observed(np.concatenate([_side_by_side(space, values) for values in episodes]), None)
    columns: dict[str, pa.Array] = {}
    found: list[ColumnReading] = []
    left_out: list[LeftOut] = []
    for leaf in _leaves(space):
        if isinstance(leaf.space, spaces.Graph | spaces.Sequence):
            left_out.append(LeftOut(leaf.name, f"it is of the space {leaf.space}"))
            continue
        values = np.concatenate([np.asarray(_at(episode, leaf.path)) for episode in episodes])
        for column, entries in _columns(leaf, values):
            columns[column.name] = entries
            if len(column.categories) > (MOST_CATEGORIES if isinstance(leaf.space, spaces.Text) else 1 << 20):
                left_out.append(LeftOut(column.name, f"it is text with {len(column.categories)} different values"))
            else:
                found.append(column)
    if not found:
        raise InputError("no part of the observations can be read as numbers")
    table = pa.table(columns)
    reader = TableReader(table.schema, table.num_rows, table.column)
    made = Reading(tuple(found), left_out=tuple(left_out)) if reading is None else adapted_columns(reading, reader)
    return Observed(observed_values(reader, made, np.zeros(1, dtype=np.int64)), made)


def _leaves(space: gymnasium.Space[Any], name: str = "", path: tuple[Any, ...] = ()) -> Iterator[_Leaf]:
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from _leaves(part, f"{name}.{key}" if name else str(key), (*path, key))
    elif isinstance(space, spaces.Tuple):
        for index, part in enumerate(space.spaces):
            yield from _leaves(part, f"{name}[{index}]", (*path, index))
    else:
        yield _Leaf(name or "text", path, space)


def _at(values: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        values = values[key]
    return values


def _width(space: gymnasium.Space[Any]) -> int:
    shape = () if isinstance(space, spaces.Text) else space.shape
    return int(np.prod(shape or ()))


def _columns(leaf: _Leaf, values: Shaped[np.ndarray, "rows ..."]) -> Iterator[tuple[ColumnReading, pa.Array]]:
    """The columns of a part: how each is read, and its values."""
    if isinstance(leaf.space, spaces.Text):
        texts = [value.decode() if isinstance(value, bytes) else str(value) for value in values.tolist()]
        yield ColumnReading(leaf.name, "category", categories=tuple(sorted(set(texts)))), pa.array(texts, pa.string())
        return
    flat = values.reshape(len(values), -1)
    names = [leaf.name] if values.ndim == 1 else [f"{leaf.name}[{i}]" for i in range(flat.shape[1])]
    for index, (name, numbers) in enumerate(zip(names, flat.T, strict=True)):
        numbers = np.ascontiguousarray(numbers)
        start, count = _choices(leaf.space, index)
        if count == 2 and not start:
            yield ColumnReading(name, "truth"), pa.array(numbers.astype(bool))
        elif 0 < count <= MOST_NAMED_CATEGORIES:
            categories = tuple(str(start + i) for i in range(count))
            codes = numbers.astype(np.int64) - start
            if ((codes < 0) | (codes >= count)).any():
                raise InputError(f"the part {name!r} has a value outside {start}..{start + count - 1}")
            yield (
                ColumnReading(name, "category", categories=categories),
                pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(categories)),
            )
        else:
            yield ColumnReading(name, "number"), pa.array(numbers)


def _choices(space: gymnasium.Space[Any], index: int) -> tuple[int, int]:
    """The first value of a part that holds one of some choices, and how many there are; 0 for other numbers."""
    if isinstance(space, spaces.Discrete):
        return int(space.start), int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(np.ravel(space.start)[index]), int(np.ravel(space.nvec)[index])
    if isinstance(space, spaces.MultiBinary) or (isinstance(space, spaces.Box) and space.dtype == np.bool_):
        return 0, 2
    return 0, 0


def _side_by_side(space: gymnasium.Space[Any], values: Any) -> Shaped[np.ndarray, "rows ..."]:
    """All parts as floats side by side, discrete ones one-hot, without names: as in earlier versions."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        if isinstance(space, spaces.Text | spaces.Graph | spaces.Sequence):
            raise InputError(f"observations of the space {space} cannot be used; expected numbers")
        return np.asarray(values)
    named = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    parts = []
    for key, part in named:
        array = _side_by_side(part, values[key])
        if isinstance(part, spaces.Discrete):
            array = np.eye(int(part.n), dtype=np.float32)[array.astype(np.int64) - int(part.start)]
        parts.append(array.reshape(len(array), -1).astype(np.float32))
    return np.concatenate(parts, axis=1)
