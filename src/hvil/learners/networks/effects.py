"""Effects: for each procedure a distribution over the observation with which an invocation of it returns.

It is conditioned on the procedure alone, so procedures that lead to different observations are worth telling apart.
With the weight λ, the step ∅ of procedure h at row r has λ·log p(o_r | h) added to its log-probability. That is all:
objective, posterior and exact sums follow. A policy that acts never reads its effects.

A category that shows no value at a row (all its columns are 0) has nothing to account for there.

Letters: R rows, D features, H procedures, C columns of categories and truths, M numbers.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from hvil.data.effect_fields import EffectField

PACE = 10.0
"""Logits and means are this many times their parameters. Adam moves a parameter by about the learning rate, whatever
its gradient; a network moves faster, because many weights move together."""
SMALLEST_VARIANCE = 0.01
"""Floor of a number's variance: a density has no upper bound without one."""
SPREAD = 1.0
"""Standard deviation of the first logits and means: procedures must not begin with equal effects."""


class Effects(nn.Module):
    """p(o | h) as a product over fields: categorical, Bernoulli or Gaussian."""

    def __init__(self, fields: Sequence[EffectField], procedures: int, weight: float) -> None:
        """Build it.

        Args:
            fields: what an effect is about.
            procedures: how many procedures there are.
            weight: λ.
        """
        super().__init__()
        self.fields = tuple(fields)
        self.weight = weight
        self.columns = [column for field in fields for column in field.columns]
        """The features that effects are about; the parameters are in this order."""
        numbers = sum(field.kind == "number" for field in fields)
        self.location = nn.Parameter(torch.randn(procedures, len(self.columns)) * SPREAD / PACE)
        """The logit of each category and truth, and the mean of each number, divided by `PACE`."""
        self.log_variance = nn.Parameter(torch.zeros(procedures, numbers))
        """Of each number, above the floor."""

    def log_prob(self, features: Float[Tensor, "R D"]) -> Float[Tensor, "R H"]:
        """Log p(o_r | h) of each row under each procedure."""
        seen = features[:, self.columns].to(self.location)
        total = seen.new_zeros(len(seen), len(self.location))
        first, number = 0, 0
        for field in self.fields:
            own = slice(first, first + len(field.columns))
            x, location = seen[:, own], PACE * self.location[:, own]
            if field.kind == "category":
                total = total + x @ location.log_softmax(dim=1).T
            elif field.kind == "truth":
                total = total + x @ logsigmoid(location).T + (1 - x) @ logsigmoid(-location).T
            else:
                variance = SMALLEST_VARIANCE + self.log_variance[:, number].exp()
                total = total - ((x - location[:, 0]).square() / variance + (2 * math.pi * variance).log()) / 2
                number += 1
            first = own.stop
        return total

    def at(self, features: Float[Tensor, "R D"]) -> Float[Tensor, "R H"]:
        """λ·log p(o_r | h) of each row under each procedure."""
        return self.weight * self.log_prob(features)
