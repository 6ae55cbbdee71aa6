"""What a procedure sees of its step counter τ: the numbers that a spec such as `20/10+hot4` asks for.

A raw counter lets a root count every step of an episode, and means nothing beyond the counts seen in training. Bounded
inputs do not change beyond their bound. The parts of a spec, joined by `+`:

- `raw`: τ itself;
- `B/S`: min(τ, B) / S;
- `hotN`: one input for each of τ = 0 … N, 1 where it is;
- `stepN`: one input for each of τ ≥ 1 … τ ≥ N.

Letters: C inputs.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32

from hvil.gate.errors import InputError

LARGEST_BOUND = 10_000
"""The largest bound that a spec may name; the table of a counter has a row for each number up to it."""


class CounterInputs(NamedTuple):
    """The numbers that a counter gives: perhaps τ itself, then a row of the table."""

    raw: bool
    table: Float32[np.ndarray, "rows C"]
    """Row min(τ, rows − 1) holds the bounded inputs of τ."""

    @property
    def width(self) -> int:
        """How many numbers."""
        return int(self.raw) + int(self.table.shape[1])


def counter_inputs(spec: str) -> CounterInputs:
    """The inputs that a spec names; an `InputError` says what a spec looks like."""
    parts = spec.split("+")
    columns = [column for part in parts if part != "raw" for column in _columns(part, spec)]
    rows = max((len(column) for column in columns), default=1)
    table = np.zeros((rows, len(columns)), dtype=np.float32)
    for number, column in enumerate(columns):
        table[:, number] = [*column, *[column[-1]] * (rows - len(column))]
    return CounterInputs(raw="raw" in parts, table=table)


def no_counter() -> CounterInputs:
    """Nothing is seen of the counter."""
    return CounterInputs(raw=False, table=np.zeros((1, 0), dtype=np.float32))


def _columns(part: str, spec: str) -> Sequence[Sequence[float]]:
    """The inputs of one part of a spec, each as its values at τ = 0, 1, …; the last value holds for all τ beyond."""
    bounded = re.fullmatch(r"(\d{1,5})/(\d{1,5})", part)
    if bounded and 0 < int(bounded[1]) <= LARGEST_BOUND and int(bounded[2]):
        return [[tau / int(bounded[2]) for tau in range(int(bounded[1]) + 1)]]
    several = re.fullmatch(r"(hot|step)(\d{1,3})", part)
    if several:
        kind, largest = several[1], int(several[2])
        if kind == "hot":
            return [[float(tau == n) for tau in range(largest + 2)] for n in range(largest + 1)]
        if largest:
            return [[float(tau >= n) for tau in range(largest + 1)] for n in range(1, largest + 1)]
    raise InputError(f"counter is {spec!r}; expected raw, B/S (such as 20/10), hotN, stepN, or several joined by +")
