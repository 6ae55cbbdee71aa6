"""Ragged sets as flat arrays plus offsets: the checks, the index arithmetic and the cutting that they need.

`Traces` and `Annotations` are built on it. It holds what both of them do, and knows nothing of what the arrays mean.

Letters: N ranges (one for each trace), K ranges that are selected.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Int, Shaped

from hvil.gate.errors import InputError

P = TypeVar("P")


def unique_names(names: Sequence[str], what: str) -> tuple[str, ...]:
    """The names as a tuple; one that stands twice, or that no file can hold, is an `InputError`."""
    names = tuple(str(name) for name in names)
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{what} name {name[:80]!r} stands twice")
        if not name.isascii() and any("\ud800" <= character <= "\udfff" for character in name):
            raise InputError(f"{what} name {name[:80]!r} holds half a character")
        seen.add(name)
    return names


def integers(values: Any, what: str, dtype: type, dimensions: int) -> np.ndarray:
    """Whole numbers as a read-only array of the given type; what does not fit is an `InputError`."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise InputError(f"{what} must be whole numbers, found {array.dtype}")
    if array.ndim != dimensions:
        raise InputError(f"{what} must have {dimensions} dimension(s), found {array.ndim}")
    limits = np.iinfo(dtype)
    if array.size and (int(array.max()) > limits.max or int(array.min()) < limits.min):
        raise InputError(f"{what} hold a number outside {limits.min}..{limits.max}")
    return read_only(np.ascontiguousarray(array, dtype=dtype))


def read_only(array: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "..."]:
    """A view that cannot be written through."""
    view = array.view()
    view.flags.writeable = False
    return view


def locate(offsets: Int[np.ndarray, "N_plus_1"], flat: int) -> tuple[int, int]:
    """The range in which a flat index lies, and the index within that range."""
    index = int(np.searchsorted(offsets, flat, side="right")) - 1
    return index, flat - int(offsets[index])


def rows_of(offsets: Int[np.ndarray, "N_plus_1"], ranges: Int[np.ndarray, "K"]) -> Int[np.ndarray, "rows"] | slice:
    """All flat indices of some ranges, one after another; a slice if the ranges are neighbours, which saves a copy."""
    if (np.diff(ranges) == 1).all():
        return slice(int(offsets[ranges[0]]), int(offsets[ranges[-1] + 1]))
    lengths = offsets[ranges + 1] - offsets[ranges]
    ends = np.cumsum(lengths)
    rows = np.repeat(offsets[ranges] - (ends - lengths), lengths)
    rows += np.arange(ends[-1])
    return rows


def part_of(whole: P, **changed: Any) -> P:
    """A copy of a dataclass with other fields, unchecked: a part of a valid set is valid, and every update cuts one."""
    part = object.__new__(type(whole))
    for name, value in (vars(whole) | changed).items():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(part, name, value)
    return part


def selection(index: int | slice | Sequence[int] | np.ndarray, count: int) -> Int[np.ndarray, "K"]:
    """The numbers of the traces that an index selects out of `count`; as in numpy, but selecting none is an error."""
    if isinstance(index, int | np.integer):
        if not -count <= index < count:
            raise IndexError(f"trace {index} of {count}")
        return np.array([int(index) % count])
    if not isinstance(index, slice):
        index = np.asarray(index, dtype=None if len(index) else np.int64)
        if index.ndim != 1:
            raise IndexError(f"traces are selected by a number, a slice or a one-dimensional array, not {index.ndim}")
    selected = np.arange(count)[index]
    if not len(selected):
        raise InputError("no traces selected: a set needs at least one")
    return selected
