"""Numbers that are given one-hot, and the price of treating neighbouring values differently.

A network that sees a number as ten columns (`value=0` … `value=9`) may do as it likes with each of them. What it does
with two values that no trace compares is then an accident. The price draws the weights of such columns towards a
straight line, so that a value is treated as its neighbours say unless the traces say otherwise. A straight line costs
nothing.

Letters: D features, K hidden units, B bends.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from hvil.data.effect_fields import feature_columns
from hvil.learners.config import Config

Value = tuple[int, float]
"""The place of a column among the features, and the number that it stands for."""


def bends(config: Config) -> Float[Tensor, "B D"]:
    """One row for each three neighbouring values of a number that is given one-hot.

    Times the weights of a hidden unit, a row is the second difference: how much the slope from the second value to the
    third differs from that from the first to the second.
    """
    rows = []
    for values in _ordered_fields(config):
        values.sort(key=lambda value: value[1])
        for (a, at_a), (b, at_b), (c, at_c) in zip(values, values[1:], values[2:], strict=False):
            row = torch.zeros(config.input_width)
            row[c] += 1 / (at_c - at_b)
            row[b] -= 1 / (at_c - at_b) + 1 / (at_b - at_a)
            row[a] += 1 / (at_b - at_a)
            rows.append(row)
    return torch.stack(rows) if rows else torch.zeros(0, config.input_width)


def curvature(weights: Float[Tensor, "*H I K"], rows: Float[Tensor, "B D"]) -> Float[Tensor, ""]:
    """Σ(second differences)² over the bends and hidden units; the first D inputs are the features."""
    second_differences = rows.to(weights) @ weights[..., : rows.shape[1], :]
    return second_differences.square().sum()


def _ordered_fields(config: Config) -> list[list[Value]]:
    """The columns of each number that is given one-hot."""
    columns = feature_columns(config.observation_names, int(np.prod(config.observation_shape)), config.inputs)
    numbered = [(column.field, place, _number(column.label)) for place, column in enumerate(columns)]
    ordered: dict[str, list[Value]] = {}
    for field, place, number in numbered:
        if number is not None:
            ordered.setdefault(field, []).append((place, number))
    return list(ordered.values())


def _number(label: str) -> float | None:
    """The number that a column with this label stands for; None if it stands for something else."""
    return float(label) if label.removeprefix("-").isdecimal() else None
