"""Continuous actions of procedures: each procedure's action is a vector with a density of its own.

A procedure that acts emits a ~ N(μ_h(o, frame), σ_h²), a diagonal Gaussian. The mean follows from what the procedure
sees by a linear law or through a hidden layer; the deviation σ_h is a number for each component. The choice to act at
all stays a choice of the procedure (`bank`), and log N(a | μ, σ) is a *factor* of that choice: it is added to
log p(act | ·), and has no part in the soft-max. Vectors are in common units (`hvil.data.action_scale`).

Letters: S steps, R rows, D features, A numbers of an action, H procedures.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from hvil.learners.networks.bank import FrameInputs, Frames, Groups, LinearBank, MlpBank, grouped
from hvil.learners.networks.laws import Laws
from hvil.learners.settings import ProcedureSettings
from hvil.machine.steps import Steps

LEAST_EXCESS = 0.2
"""How much the deviation of a law that is set exceeds the smallest one at least, as a share of it: it can change."""
ACTING = 0
"""The choice to act: with continuous actions there is one kind of action."""


class ActionHead(nn.Module):
    """The means and deviations of all procedures' continuous actions."""

    def __init__(
        self, procedures: int, features: int, width: int, frame: FrameInputs, settings: ProcedureSettings
    ) -> None:
        """Build it.

        Args:
            procedures: how many.
            features: width of what a procedure sees beside its frame.
            width: how many numbers an action has.
            frame: which inputs a frame gives.
            settings: how the mean follows from the inputs, and the smallest deviation.
        """
        super().__init__()
        self.noise = settings.action_noise
        self.means: LinearBank | MlpBank
        if settings.action_mean == "linear":
            self.means = LinearBank(procedures, features, width, frame)
        else:
            self.means = MlpBank(procedures, features, settings.hidden, frame, outputs=width)
        self.log_excess = nn.Parameter(torch.zeros(procedures, width))
        """σ = noise + exp(log_excess)."""

    @property
    def deviations(self) -> Float[Tensor, "H A"]:
        """σ_h of each number."""
        return self.noise + self.log_excess.exp()

    def log_densities(
        self,
        features: Float[Tensor, "S D"],
        procedure: Int[np.ndarray, "S"],
        frames: Frames,
        vectors: Float[Tensor, "S A"],
    ) -> Float[Tensor, "S"]:
        """Log N(a | μ, σ) at each step, for steps in any order."""
        groups, order = self._sorted(procedure, features.device)
        means = self._means(features, frames, groups, order)
        deviations = self.deviations[torch.from_numpy(procedure[groups.order]).to(features.device)]
        sorted_densities = log_normal(vectors.index_select(0, order), means, deviations)
        return torch.zeros_like(sorted_densities).index_copy(0, order, sorted_densities)

    def mean_vectors(
        self, features: Float[Tensor, "S D"], procedure: Int[np.ndarray, "S"], frames: Frames
    ) -> Float[Tensor, "S A"]:
        """μ at each step, for steps in any order."""
        groups, order = self._sorted(procedure, features.device)
        means = self._means(features, frames, groups, order)
        return torch.zeros_like(means).index_copy(0, order, means)

    @torch.no_grad()
    def set_laws(self, procedures: Sequence[int], laws: Laws) -> None:
        """Give linear laws to some procedures, one each; what their frames show has no part in these."""
        assert isinstance(self.means, LinearBank)
        for h, weight, bias, deviation in zip(procedures, *laws, strict=True):
            self.means.weight[h] = 0
            self.means.weight[h, : len(weight)] = torch.from_numpy(weight)
            self.means.bias[h] = torch.from_numpy(bias)
            excess = np.maximum(deviation - self.noise, LEAST_EXCESS * self.noise)
            self.log_excess[h] = torch.from_numpy(np.log(excess))

    def _sorted(self, procedure: Int[np.ndarray, "S"], device: torch.device) -> tuple[Groups, Int[Tensor, "S"]]:
        groups = grouped(procedure, len(self.log_excess))
        return groups, torch.from_numpy(groups.order).to(device)

    def _means(
        self, features: Float[Tensor, "S D"], frames: Frames, groups: Groups, order: Int[Tensor, "S"]
    ) -> Float[Tensor, "S A"]:
        sorted_frames = Frames(frames.counter[groups.order], frames.last[groups.order])
        means: Tensor = self.means(features.index_select(0, order), sorted_frames, groups)
        return means


def log_normal(
    vectors: Float[Tensor, "S A"], means: Float[Tensor, "S A"], deviations: Float[Tensor, "*S A"]
) -> Float[Tensor, "S"]:
    """Log N(a | μ, σ) of each row, its components independent."""
    standard = (vectors - means) / deviations
    return -(0.5 * standard.square() + deviations.log() + 0.5 * math.log(2 * math.pi)).sum(dim=1)


def step_densities(
    head: ActionHead,
    features: Float[Tensor, "R D"],
    vectors: Float[Tensor, "R A"],
    steps: Steps,
    possible: Bool[np.ndarray, "S U"],
) -> Float[Tensor, "S"]:
    """The factor of the choice to act at each step, 0 where `possible` rules it out: log N(a_t | μ, σ).

    Args:
        head: of the policy.
        features: what the procedures see of each row.
        vectors: the action of each row.
        steps: the steps of a walk.
        possible: the posterior's mask at each step.
    """
    acting = np.flatnonzero(possible[:, ACTING])
    rows = torch.from_numpy(steps.row[acting]).to(features.device)
    frames = Frames(steps.counter[acting], steps.last[acting])
    densities = head.log_densities(
        features.index_select(0, rows), steps.procedure[acting], frames, vectors.index_select(0, rows)
    )
    factors = densities.new_zeros(len(steps.row))
    return factors.index_copy(0, torch.from_numpy(acting).to(features.device), densities)
