"""How a table's columns become the numbers of an observation: one value, made once and kept with traces and run.

`formats.recognition` makes a reading from the data that a run is trained on. Whoever needs observations later (a test,
the inference of structure, a policy in a loop) applies the same reading, so that a word always has the same number.

Letters: M environments, D numbers of an observation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Num

from hvil.gate import settings
from hvil.gate.errors import InputError

MISSING = "(missing)"
"""The category of a row without a text, if the training data have such rows."""
UNKNOWN = -1
"""The number of a text that the training data do not have; the networks see zeros."""
UNKNOWN_NAME = "(unknown)"
"""How a text that the training data do not have is shown."""
ELAPSED = "elapsed"
"""The name of the time since the row before."""
IS_MISSING = " is missing"
"""Ends the name of the number that says whether a value is missing."""


@dataclass(frozen=True)
class ColumnReading:
    """How one column of a table is read."""

    name: str
    kind: Literal["number", "truth", "category", "elapsed"]
    """`elapsed` is the time since the row before, in seconds."""
    categories: tuple[str, ...] = ()
    """The texts of a category; each is stored as its position here."""
    fill: float | None = None
    """What stands for a missing value, with a second number that says that it is missing; None: none was missing."""

    def __post_init__(self) -> None:
        if (self.kind == "category") != bool(self.categories):
            raise InputError(
                f"column {self.name!r}: categories belong to a column of the kind category, and only there"
            )
        if len(set(self.categories)) < len(self.categories):
            raise InputError(f"column {self.name!r}: a category stands twice")

    @property
    def key(self) -> str:
        """Its name in an observation: the column's without `observation.`; `elapsed` for the time since the last."""
        return ELAPSED if self.kind == "elapsed" else self.name.removeprefix("observation.")

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the numbers that it gives."""
        return (self.key,) if self.fill is None else (self.key, self.key + IS_MISSING)

    def code(self, value: object) -> int:
        """The number of a text, as a policy is given it."""
        text = MISSING if value is None or value == "" else str(value)
        return self.categories.index(text) if text in self.categories else UNKNOWN

    def numbers(self, value: Any) -> tuple[float, ...]:
        """The numbers of one value, as a policy is given it; None and NaN are missing."""
        if self.kind == "category":
            return (float(self.code(value)),)
        missing = value is None or value != value
        if missing and self.fill is None:
            raise InputError(f"no value for {self.name!r}: the training data had no gap in it")
        try:
            number = float(self.fill if missing else value)  # type: ignore[arg-type]  # missing values have a fill
        except (TypeError, ValueError) as error:
            raise InputError(f"{self.name!r} is {value!r}, expected a number") from error
        return (number,) if self.fill is None else (number, float(missing))


@dataclass(frozen=True)
class LeftOut:
    """A column that is not read."""

    name: str
    why: str


@dataclass(frozen=True)
class Reading:
    """How the columns of a table are read: who says what, and how each column of the observation is read."""

    columns: tuple[ColumnReading, ...]
    trace: tuple[str, ...] = ()
    """The columns that together say which trace a row belongs to; none: each file is a trace."""
    step: str = ""
    """The column that orders the rows of a trace; empty: they stand in order."""
    action: str = ""
    annotation: str = ""
    left_out: tuple[LeftOut, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A name for each number of an observation."""
        return tuple(name for column in self.columns for name in column.outputs)

    @cached_property
    def categories(self) -> Mapping[str, tuple[str, ...]]:
        """The texts of each number of an observation that stands for one."""
        return {column.key: column.categories for column in self.columns if column.categories}

    def row(self, values: Mapping[str, Any]) -> list[float]:
        """The numbers of an observation that is given by the names of its columns, as in a row of the table."""
        keys = [column.key for column in self.columns]
        missing = [key for key in keys if key not in values]
        roles = {*self.trace, self.step, self.action, self.annotation}
        read = {column.name for column in self.columns} | {column.name for column in self.left_out}
        known = {*keys, *roles, *read}
        unknown = [str(name) for name in values if name not in known]
        if missing or unknown:
            raise InputError(_difference(missing, unknown, keys))
        return [number for column in self.columns for number in column.numbers(values[column.key])]

    def to_mapping(self) -> dict[str, Any]:
        """The form of `config.json` and of trace files."""
        return asdict(self)

    @staticmethod
    def from_mapping(value: Any, where: str) -> "Reading":
        """Read what `to_mapping` gives."""
        return settings.from_mapping(Reading, value, where, noun="entry")


NO_READING = Reading(())
"""The reading of a run that recorded none, as those of earlier versions: its data are read as they were then."""


@dataclass(frozen=True)
class ObservationReader:
    """Turns what a policy is given, an array or values by name, into an array, or refuses it by an `InputError`."""

    width: int
    """How many numbers an observation has."""
    names: tuple[str, ...] = ()
    """A name for each of them, or none."""
    reading: Reading | None = None

    def __call__(
        self, observation: Any, count: int, single: bool = True
    ) -> Num[np.ndarray, "M ..."] | Bool[np.ndarray, "M ..."]:
        """The observations as an array.

        Args:
            observation: an array, a mapping from names to values, or a list of mappings.
            count: how many environments there are.
            single: whether one observation is given, and not a list of one.
        """
        given = [observation] if isinstance(observation, Mapping) and single else observation
        if isinstance(given, Sequence) and not isinstance(given, str) and given and isinstance(given[0], Mapping):
            array = np.array([self._row(values) for values in given], dtype=np.float64)
        else:
            array = np.asarray(given)
        if array.size != count * self.width or not (single or len(array) == count):
            named = f" ({', '.join(self.names)})" if 0 < len(self.names) <= 20 else ""
            raise InputError(
                f"observations of shape {array.shape} do not fit: {count} environment(s), {self.width} numbers "
                f"each{named}"
            )
        if array.dtype.kind not in "biuf":
            raise InputError(
                f"observations are {array.dtype}, expected numbers, or values by the names of their columns"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(
                "the observation has a value that is not finite; a missing value is None in an observation by names"
            )
        return array

    def _row(self, values: Any) -> list[float]:
        values = named_parts(values)
        if self.reading is not None:
            return self.reading.row(values)
        if not self.names:
            raise InputError("observations by name need traces whose columns have names; give an array")
        missing = [name for name in self.names if name not in values]
        unknown = [str(name) for name in values if name not in self.names]
        if missing or unknown:
            raise InputError(_difference(missing, unknown, self.names))
        return [float(values[name]) for name in self.names]


def named_parts(value: Any, name: str = "") -> dict[str, Any]:
    """An observation by names whose values have no parts: `place[0]`, `page.kind`; as columns are named."""
    parts: Iterable[tuple[str, Any]]
    if isinstance(value, Mapping):
        parts = ((f"{name}.{key}" if name else str(key), part) for key, part in value.items())
    elif isinstance(value, np.ndarray) and value.ndim:
        parts = ((f"{name}[{i}]", part) for i, part in enumerate(value.reshape(-1).tolist()))
    elif isinstance(value, tuple | list):
        parts = ((f"{name}[{i}]", part) for i, part in enumerate(value))
    else:
        return {name: value}
    return {inner: entry for key, part in parts for inner, entry in named_parts(part, key).items()}


def _difference(missing: Sequence[str], unknown: Sequence[str], names: Sequence[str]) -> str:
    """What is wrong with the names of an observation."""
    parts = [f"no value for {', '.join(missing)}"] if missing else []
    parts += [f"unknown {', '.join(unknown)}"] if unknown else []
    return f"the observation has {' and '.join(parts)}; its columns are {', '.join(names)}"
