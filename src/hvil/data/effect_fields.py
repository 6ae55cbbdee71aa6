"""The fields of an observation that a procedure's effect is about: what is observed when an invocation returns.

A field is a value that the networks see in one or several columns: a category (one-hot), a truth (0 or 1), or a number.
Which column is which follows from the columns' names and from the training traces. The result is part of a run's
configuration. The distributions themselves are in `learners.networks.effects`.

Letters: R rows, D features (numbers that the networks see).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from hvil.data.inputs import Inputs, features
from hvil.data.traces import Traces
from hvil.gate import settings
from hvil.gate.errors import InputError

PIXEL = "pixel"
"""Columns whose names begin so are parts of a picture, and no effect is about them."""

Kind = Literal["category", "truth", "number"]


@dataclass(frozen=True)
class EffectField:
    """One field, in the columns that the networks see."""

    name: str
    kind: Kind
    columns: tuple[int, ...]
    labels: tuple[str, ...] = ()
    """The values of a category, one a column."""

    def __post_init__(self) -> None:
        """Refuse a field that cannot be."""
        if not self.columns or min(self.columns) < 0 or (self.kind != "category" and len(self.columns) > 1):
            raise InputError(f"effect field {self.name!r}: a {self.kind} cannot have the columns {self.columns}")
        if len(self.labels) != (len(self.columns) if self.kind == "category" else 0):
            raise InputError(f"effect field {self.name!r}: a category has one label a column, other fields have none")

    def to_mapping(self) -> dict[str, Any]:
        """The form of `config.json`."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}


class Column(NamedTuple):
    """What one of the networks' inputs shows: a field, or of a one-hot field one value."""

    field: str
    label: str
    """The value; empty if the column is the field itself."""


def feature_columns(names: Sequence[str], count: int, inputs: Inputs | None) -> list[Column]:
    """What each number shows that the networks see of an observation.

    Args:
        names: of the observation's columns; a column `value=3` is one of the one-hot field `value`. Perhaps none.
        count: how many columns an observation has.
        inputs: how they are given to the networks; None: as they are.
    """
    names = names or tuple(f"o[{column}]" for column in range(count))
    if inputs is None:
        parts = [name.partition("=") for name in names]
        return [Column(field=field, label=label) for field, _, label in parts]
    return [
        Column(field=name, label=label)
        for name, values in zip(names, inputs.values, strict=True)
        for label in (map(str, values) if values else ("",))
    ]


def effect_fields(traces: Traces, inputs: Inputs | None, network: str) -> tuple[EffectField, ...]:
    """The fields that effects can be about.

    What no trace ever changes, such as a task's argument, is nobody's effect and left out. So are pictures. A network
    other than a perceptron encodes pictures, so there numbers and columns without a name are taken for pixels.

    Args:
        traces: the training traces.
        inputs: how observations are given to the networks.
        network: the network of a procedure.
    """
    seen = features(inputs, traces.observations, len(traces.observations))
    columns = feature_columns(traces.observation_names, int(np.prod(traces.observation_shape)), inputs)
    changes = _changes(seen, traces)
    found: list[EffectField] = []
    for name, group in groupby(range(len(columns)), key=lambda column: columns[column].field):
        numbers = [column for column in group if changes[column]]
        if name.startswith(PIXEL) or not numbers:
            continue
        if len(numbers) > 1 and _is_one_hot(seen[:, numbers]):
            labels = tuple(columns[column].label or str(column) for column in numbers)
            found.append(EffectField(name=name, kind="category", columns=tuple(numbers), labels=labels))
            continue
        for column in numbers:
            kind: Kind = "truth" if np.isin(seen[:, column], (0, 1)).all() else "number"
            if network == "mlp" or (traces.observation_names and kind == "truth"):
                label = columns[column].label
                found.append(EffectField(name=f"{name}={label}" if label else name, kind=kind, columns=(column,)))
    if not found:
        raise InputError("effects need observations that change within a trace and are not pixels")
    return tuple(found)


def effect_fields_from_mapping(value: Any, width: int, where: str) -> tuple[EffectField, ...]:
    """Read what `EffectField.to_mapping` gave for each field; `width` is how many numbers the networks see."""
    if not isinstance(value, list):
        raise InputError(f"{where}: expected a list of fields")
    found = tuple(settings.from_mapping(EffectField, entry, where, noun="entry") for entry in value)
    if any(column >= width for field in found for column in field.columns):
        raise InputError(f"{where}: a column beyond the {width} that the networks see")
    return found


def _changes(seen: Float[np.ndarray, "R D"], traces: Traces) -> np.ndarray:
    """Whether each column differs between two times of some trace."""
    first = np.repeat(traces.row_offsets[:-1], np.diff(traces.row_offsets))
    changes: np.ndarray = (seen != seen[first]).any(axis=0)
    return changes


def _is_one_hot(seen: Float[np.ndarray, "R D"]) -> bool:
    """Whether at most one of the columns is 1 in each row, and the others are 0."""
    return bool(np.isin(seen, (0, 1)).all() and (seen.sum(axis=1) <= 1).all())
