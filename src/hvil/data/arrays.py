"""The arrays of a set of traces in the types in which they are stored, and checks of what they hold.

What the arrays mean together is said in `traces`.

Letters: N traces, S actions of all traces together, A numbers of a continuous action, M rows of D numbers, K different
ones.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from hvil.data.ragged import locate, read_only
from hvil.gate.errors import InputError

OBSERVATION_DTYPES = {
    **dict.fromkeys(("float16", "float32", "float64"), np.float32),
    **dict.fromkeys(("int8", "int16", "uint16", "int32"), np.int32),
    **dict.fromkeys(("uint32", "int64"), np.int64),
    "uint8": np.uint8,
    "bool": np.bool_,
}
"""The types in which observations may come, and the type in which each is stored."""


def distinct_rows(rows: Shaped[np.ndarray, "M D"]) -> tuple[Int[np.ndarray, "K"], Int[np.ndarray, "M"]]:
    """Where each different row stands first, and for each row which of the different ones it is, byte by byte."""
    if not rows.shape[1]:
        return np.zeros(min(len(rows), 1), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    rows = np.ascontiguousarray(rows)
    whole = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()
    _, first, number = np.unique(whole, return_index=True, return_inverse=True)
    return first, number.ravel()


def is_vectors(actions: Any) -> bool:
    """Whether the actions of a trace are vectors: fractions in two dimensions."""
    array = np.asarray(actions)
    return array.ndim == 2 and array.dtype.kind == "f"


def stored_observations(values: Any) -> np.ndarray:
    """Observations as they are stored; types and shapes that cannot be are an `InputError`."""
    array = np.asarray(values)
    if array.dtype.name not in OBSERVATION_DTYPES:
        raise InputError(f"observations are {array.dtype}; allowed: {', '.join(sorted(OBSERVATION_DTYPES))}")
    if array.ndim == 0 or 0 in array.shape[1:]:
        raise InputError(f"observations of the shape {array.shape}: expected rows of at least one number each")
    with np.errstate(over="ignore"):  # `Traces` refuses the infinities that this makes
        return read_only(np.ascontiguousarray(array, dtype=OBSERVATION_DTYPES[array.dtype.name]))


def stored_vectors(values: Any) -> np.ndarray:
    """Continuous actions as they are stored."""
    array = np.asarray(values)
    if not is_vectors(array) or not array.shape[1]:
        raise InputError(
            f"continuous actions must be rows of fractions, one row a step, found {array.dtype} of {array.shape}"
        )
    with np.errstate(over="ignore"):  # `Traces` refuses the infinities that this makes
        return read_only(np.ascontiguousarray(array, dtype=np.float32))


def stored_metadata(values: Any) -> np.ndarray:
    """Metadata as it is stored."""
    array = np.asarray(values)
    return read_only(np.asarray(array, dtype=array.dtype.newbyteorder("=")))


def check_vectors(
    vectors: Float[np.ndarray, "S_vectors A"], names: tuple[str, ...], offsets: Int[np.ndarray, "N_plus_1"]
) -> None:
    """Refuse vectors that do not fit traces with these offsets, and names that do not fit the vectors."""
    if len(vectors) != offsets[-1]:
        raise InputError(f"{len(vectors)} vectors for {offsets[-1]} actions")
    if len(names) != vectors.shape[1]:
        raise InputError(f"{len(names)} names for actions of {vectors.shape[1]} number(s)")
    row = first_non_finite(vectors)
    if row is not None:
        i, step = locate(offsets, row)
        raise InputError(f"trace {i}, step {step}: the action has a value that is not finite")


def first_non_finite(values: Float[np.ndarray, "rows *shape"]) -> int | None:
    """The first row with a value that is not finite; None if there is none."""
    # A sum is finite only if all its parts are (or they overflow, which the second look sorts out): no mask in memory.
    with np.errstate(all="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return None
    finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
    return None if finite.all() else int(np.argmin(finite))
