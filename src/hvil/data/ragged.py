"""Checks and index arithmetic on flat arrays, shared by traces and annotations. Knows nothing of what they mean.

Letters: N ranges (traces), K of them chosen.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Int, Shaped

from hvil.gate.errors import InputError

P = TypeVar("P")


def unique_names(names: Sequence[str], what: str) -> tuple[str, ...]:
    """The names as a tuple; one that stands twice is an `InputError`."""
    names = tuple(str(name) for name in names)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{what} name {twice!r} stands twice")
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
    """Which range a flat index lies in, and where in it."""
    index = int(np.searchsorted(offsets, flat, side="right")) - 1
    return index, flat - int(offsets[index])


def rows_of(offsets: Int[np.ndarray, "N_plus_1"], chosen: Int[np.ndarray, "K"]) -> Int[np.ndarray, "rows"] | slice:
    """All flat indices of the chosen ranges, one after another; a slice (no copy) if they are neighbours."""
    if (np.diff(chosen) == 1).all():
        return slice(int(offsets[chosen[0]]), int(offsets[chosen[-1] + 1]))
    lengths = offsets[chosen + 1] - offsets[chosen]
    ends = np.cumsum(lengths)
    rows = np.repeat(offsets[chosen] - (ends - lengths), lengths)
    rows += np.arange(ends[-1])
    return rows


def part_of(whole: P, **changed: Any) -> P:
    """A copy with other fields, unchecked: part of a valid set is valid, and a training loop cuts one each update."""
    part = object.__new__(type(whole))
    for name, value in (vars(whole) | changed).items():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(part, name, value)
    return part


def selection(index: int | slice | Sequence[int] | np.ndarray, count: int) -> Int[np.ndarray, "K"]:
    """The chosen ones of `count` things as indices from 0; like numpy's indexing, but none at all is an error."""
    if isinstance(index, int | np.integer):
        if not -count <= index < count:
            raise IndexError(f"trace {index} of {count}")
        return np.array([int(index) % count])
    if not isinstance(index, slice):
        index = np.asarray(index, dtype=None if len(index) else np.int64)
        if index.ndim != 1:
            raise IndexError(f"traces are chosen by a number, a slice or a one-dimensional array, not {index.ndim}")
    chosen = np.arange(count)[index]
    if not len(chosen):
        raise InputError("no traces chosen: a set needs at least one")
    return chosen
