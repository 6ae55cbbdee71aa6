"""What the networks see of an observation: here whole numbers become one-hot, and other numbers get a common scale.

Our own tasks give numbers that suit a network; they pass unchanged. For other data `suitable_inputs` looks at the
columns once, before the training. Its result (the values of a discrete column, mean and scale of a continuous one) is
part of the run's configuration, so that policy, posterior and baselines see the same in training and in use.

Letters: R rows, C columns of a flat observation, D features (numbers that the networks see).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from hvil.data.traces import Traces
from hvil.gate import settings
from hvil.gate.errors import InputError

FEW_VALUES = 32
"""A column of whole numbers with at most this many different values is discrete: each value becomes an input."""
STATES = 4096
"""The same if an observation is one whole number: the state of a tabular environment, which has no order."""
MAX_INPUTS = 1 << 20
"""Of all columns together; a file that asks for more would only exhaust the memory."""
LARGEST_WHOLE = 1 << 24
"""From here on a 32-bit float does not hold every whole number."""


@dataclass(frozen=True)
class Inputs:
    """How each column of an observation is given to the networks."""

    values: tuple[tuple[int, ...], ...]
    """The values of a discrete column, ascending, each a one-hot input; () for a number. Another value gives zeros."""
    means: tuple[float, ...]
    """What is subtracted from a number."""
    scales: tuple[float, ...]
    """What a number is then divided by."""

    def __post_init__(self) -> None:
        if not len(self.values) == len(self.means) == len(self.scales) > 0:
            raise InputError("values, means and scales must have one entry a column")
        if not all(np.isfinite(self.means)) or not all(np.isfinite(self.scales)) or min(self.scales) <= 0:
            raise InputError("means must be finite, scales finite and positive")
        if any(list(values) != sorted(set(values)) for values in self.values):
            raise InputError("the values of a column must be ascending")
        if any(values and max(-values[0], values[-1]) >= 1 << 63 for values in self.values):
            raise InputError("the values of a column must be 64-bit whole numbers")
        if sum(max(len(values), 1) for values in self.values) > MAX_INPUTS:
            raise InputError(f"more than {MAX_INPUTS} inputs")

    @cached_property
    def offsets(self) -> Int[np.ndarray, "C_plus_1"]:
        """Inputs of column c are `offsets[c]:offsets[c+1]`."""
        return np.cumsum([0, *(len(values) or 1 for values in self.values)])

    @property
    def width(self) -> int:
        """How many numbers the networks see."""
        return int(self.offsets[-1])

    @cached_property
    def _numbers(self) -> tuple[Int[np.ndarray, "numbers"], Float[np.ndarray, "numbers"], Float[np.ndarray, "numbers"]]:
        columns = np.array([c for c, values in enumerate(self.values) if not values], dtype=np.int64)
        return columns, np.array(self.means)[columns], np.array(self.scales)[columns]

    @cached_property
    def _discrete(self) -> list[tuple[int, Int[np.ndarray, "values"]]]:
        return [(c, np.array(values, dtype=np.int64)) for c, values in enumerate(self.values) if values]

    def __call__(self, observations: Num[np.ndarray, "R ..."] | Bool[np.ndarray, "R ..."]) -> Float[np.ndarray, "R D"]:
        """The inputs of each row."""
        flat = observations.reshape(len(observations), -1)
        if flat.shape[1] != len(self.values):
            raise InputError(f"observations of {flat.shape[1]} columns, expected {len(self.values)}")
        inputs = np.zeros((len(flat), self.width), dtype=np.float32)
        columns, means, scales = self._numbers
        if len(columns):
            inputs[:, self.offsets[columns]] = (flat[:, columns] - means) / scales
        for column, values in self._discrete:
            code = np.searchsorted(values, flat[:, column]).clip(max=len(values) - 1)
            rows = np.flatnonzero(values[code] == flat[:, column])
            inputs[rows, self.offsets[column] + code[rows]] = 1
        return inputs

    def to_mapping(self) -> dict[str, Any]:
        """The form of `config.json`."""
        return {"values": [list(v) for v in self.values], "means": list(self.means), "scales": list(self.scales)}

    @staticmethod
    def from_mapping(value: Any, where: str) -> "Inputs":
        """Read what `to_mapping` gives."""
        return settings.from_mapping(Inputs, value, where, noun="list")


def features(
    inputs: Inputs | None, observations: Num[np.ndarray, "..."] | Bool[np.ndarray, "..."], rows: int
) -> Float[np.ndarray, "rows D"]:
    """What the networks see of observations: what `inputs` makes of them; without any, the numbers (bytes as 0..1)."""
    if inputs is not None:
        return inputs(observations.reshape(rows, -1))
    flat = np.array(observations, dtype=np.float32).reshape(rows, -1)
    if observations.dtype == np.uint8:
        flat /= 255
    return flat


def may_be_image(traces: Traces) -> bool:
    """Whether observations could be pictures: bytes in two or three dimensions."""
    return traces.observations.dtype == np.uint8 and len(traces.observation_shape) in (2, 3)


def is_image(traces: Traces, pictures: str = "auto") -> bool:
    """Whether observations are read as pictures.

    Bytes in two or three dimensions may also be a grid whose cells hold one of a few things. Its numbers are small.

    Args:
        traces: the observations.
        pictures: `yes` and `no` decide for all that may be pictures; `auto` looks at the largest number.
    """
    if not may_be_image(traces) or pictures == "no":
        return False
    return pictures == "yes" or int(traces.observations.max()) >= FEW_VALUES


def suitable_inputs(traces: Traces, pictures: str = "auto") -> Inputs | None:
    """Inputs for traces that come from no task of ours; None for pictures, and if the observations suit as they are."""
    if is_image(traces, pictures):
        return None
    flat = traces.observations.reshape(len(traces.observations), -1)
    limit = STATES if flat.shape[1] == 1 else FEW_VALUES
    texts = {} if traces.reading is None else traces.reading.categories
    values, means, scales = [], [], []
    for index, column in enumerate(flat.T):
        named = texts.get(traces.observation_names[index]) if texts else None
        categories = tuple(range(len(named))) if named else _few_values(column, limit)
        mean, scale = (0.0, 1.0) if categories or _is_indicator(column) else _mean_and_scale(column)
        values.append(categories)
        means.append(mean)
        scales.append(scale)
    unchanged = not any(values) and set(means) == {0.0} and set(scales) == {1.0}
    if unchanged and traces.observations.dtype != np.uint8:
        return None
    return Inputs(values=tuple(values), means=tuple(means), scales=tuple(scales))


def _is_indicator(column: Num[np.ndarray, "R"] | Bool[np.ndarray, "R"]) -> bool:
    return bool(np.isin(column, (0, 1)).all())


def _few_values(column: Num[np.ndarray, "R"] | Bool[np.ndarray, "R"], limit: int) -> tuple[int, ...]:
    """The values of a column of whole numbers with few different ones; none for other columns and for 0 and 1.

    The values decide, not their type: beside a column of fractions, categories are stored as floats too.
    """
    if _is_indicator(column):
        return ()
    values = np.unique(column)
    whole = values.dtype.kind in "iu" or bool(
        (np.abs(values) < LARGEST_WHOLE).all() and (values == np.round(values)).all()
    )
    return tuple(int(value) for value in values) if whole and len(values) <= limit else ()


def _mean_and_scale(column: Num[np.ndarray, "R"]) -> tuple[float, float]:
    """Mean and standard deviation; a column that never changes keeps its scale."""
    mean, deviation = float(column.mean(dtype=np.float64)), float(column.std(dtype=np.float64))
    return mean, deviation if deviation > 1e-6 * max(abs(mean), 1.0) else 1.0
