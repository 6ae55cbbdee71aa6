"""Banks: the networks of all procedures as one object, evaluated for many PHP steps at once.

The steps are sorted by procedure, so that a layer is one matrix product for each procedure. `policy` and `posterior`
decide what the networks see.

Letters: S steps, R rows of the batch, D features, F frame inputs, K hidden units, U choices, H procedures.
"""

from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from hvil.learners.networks.counters import CounterInputs, counter_inputs, no_counter
from hvil.learners.settings import ProcedureSettings
from hvil.machine.arrays import NetworkArrays
from hvil.machine.steps import Steps

IMPOSSIBLE = -1e9
"""Score of an impossible choice. Its probability is 0, as with −∞, but gradients have no 0·∞."""


class Groups(NamedTuple):
    """Steps sorted by procedure."""

    order: Int[np.ndarray, "S"]
    """The number of the step that stands at each position after sorting."""
    offsets: Int[np.ndarray, "H_plus_1"]
    """After sorting, the steps of procedure h are `offsets[h]:offsets[h+1]`."""


class Frames(NamedTuple):
    """What a procedure knows of its own frame, one entry a step."""

    counter: Int[np.ndarray, "S"]
    last: Int[np.ndarray, "S"]


def grouped(procedures: Int[np.ndarray, "S"], count: int) -> Groups:
    """Sort steps by procedure; the steps of one procedure keep their order."""
    order = np.argsort(procedures, kind="stable")
    return Groups(order, np.concatenate([[0], np.cumsum(np.bincount(procedures, minlength=count))]))


class FrameInputs(NamedTuple):
    """Which inputs a frame gives: what is seen of the counter, and the last step one-hot."""

    counter: CounterInputs
    last: bool
    choices: int

    @staticmethod
    def of(settings: ProcedureSettings, choices: int) -> "FrameInputs":
        """What the settings ask for, for procedures of so many choices."""
        counts = settings.frame_inputs in ("both", "counter")
        return FrameInputs(
            counter=counter_inputs(settings.counter) if counts else no_counter(),
            last=settings.frame_inputs in ("both", "last"),
            choices=choices,
        )

    @property
    def width(self) -> int:
        """How many numbers a frame gives."""
        return self.counter.width + (self.choices if self.last else 0)

    def encode(self, frames: Frames, device: torch.device) -> Float[Tensor, "S F"]:
        """The numbers that each frame gives: those of the counter, then the last step's one-hot form."""
        raw, table = self.counter
        numbers = np.zeros((len(frames.counter), self.width), dtype=np.float32)
        if raw:
            numbers[:, 0] = frames.counter
        numbers[:, int(raw) : self.counter.width] = table[np.minimum(frames.counter, len(table) - 1)]
        if self.last:
            moved = np.flatnonzero(frames.last >= 0)
            numbers[moved, self.counter.width + frames.last[moved]] = 1
        return torch.from_numpy(numbers).to(device)


class _GroupedLinear(torch.autograd.Function):
    """y[s] = x[s] @ weight[h] + bias[h] for the sorted steps s of each procedure h."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, offsets: list[int]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.offsets = offsets
        y = x.new_empty(len(x), weight.shape[2])
        for h, (first, end) in enumerate(pairwise(offsets)):
            if end > first:
                torch.addmm(bias[h], x[first:end], weight[h], out=y[first:end])
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = gradients
        x, weight = ctx.saved_tensors
        grad = grad.contiguous()
        grad_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        grad_weight = torch.zeros_like(weight)
        grad_bias = weight.new_zeros(weight.shape[0], weight.shape[2])
        for h, (first, end) in enumerate(pairwise(ctx.offsets)):
            if end > first:
                part = grad[first:end]
                if grad_x is not None:
                    torch.mm(part, weight[h].T, out=grad_x[first:end])
                torch.mm(x[first:end].T, part, out=grad_weight[h])
                torch.sum(part, 0, out=grad_bias[h])
        return grad_x, grad_weight, grad_bias, None


class MlpBank(nn.Module):
    """One-hidden-layer networks of all procedures, stacked."""

    def __init__(
        self,
        procedures: int,
        features: int,
        hidden: int,
        frame: FrameInputs,
        blind: Collection[int] = (),
        outputs: int | None = None,
    ) -> None:
        """Build it.

        Args:
            procedures: how many networks.
            features: width of what they see beside their frame.
            hidden: units of each.
            frame: which inputs a frame gives.
            blind: procedures that see their frame only; their weights from features are 0 and stay 0.
            outputs: how many numbers each gives; by default one score for each choice.
        """
        outputs = frame.choices if outputs is None else outputs
        super().__init__()
        self.frame = frame
        self.features = features
        inputs = features + frame.width
        self.weight1 = nn.Parameter(_uniform(inputs, procedures, inputs, hidden))
        self.bias1 = nn.Parameter(_uniform(inputs, procedures, hidden))
        self.weight2 = nn.Parameter(_uniform(hidden, procedures, hidden, outputs))
        self.bias2 = nn.Parameter(_uniform(hidden, procedures, outputs))
        if blind:
            unseen = torch.zeros_like(self.weight1, dtype=torch.bool)
            unseen[list(blind), :features] = True
            self.register_buffer("unseen", unseen, persistent=False)
            self.weight1.data.masked_fill_(unseen, 0)
            self.weight1.register_hook(lambda gradient: gradient.masked_fill(self.unseen, 0))  # type: ignore[no-untyped-call]

    def forward(self, features: Float[Tensor, "S D"], frames: Frames, groups: Groups) -> Float[Tensor, "S U"]:
        """Scores of all choices; features and frames are in the order of `groups`."""
        offsets = groups.offsets.tolist()
        x = torch.cat([features, self.frame.encode(frames, features.device)], dim=1)
        hidden = _GroupedLinear.apply(x, self.weight1, self.bias1, offsets)  # type: ignore[no-untyped-call]
        scores: Tensor = _GroupedLinear.apply(  # type: ignore[no-untyped-call]
            torch.relu(hidden), self.weight2, self.bias2, offsets
        )
        return scores

    def arrays(self) -> NetworkArrays:
        """The weights for compiled code: views where they are on the CPU."""
        return NetworkArrays(
            weight1=_numpy(self.weight1),
            bias1=_numpy(self.bias1),
            weight2=_numpy(self.weight2),
            bias2=_numpy(self.bias2),
            sees_counter=self.frame.counter.raw,
            counter_table=self.frame.counter.table,
            sees_last=self.frame.last,
        )


class LinearBank(nn.Module):
    """A linear law of each procedure, without hidden units, stacked."""

    def __init__(self, procedures: int, features: int, outputs: int, frame: FrameInputs) -> None:
        super().__init__()
        self.frame = frame
        inputs = features + frame.width
        self.weight = nn.Parameter(_uniform(inputs, procedures, inputs, outputs))
        self.bias = nn.Parameter(_uniform(inputs, procedures, outputs))

    def forward(self, features: Float[Tensor, "S D"], frames: Frames, groups: Groups) -> Float[Tensor, "S outputs"]:
        """The numbers of each step; features and frames are in the order of `groups`."""
        x = torch.cat([features, self.frame.encode(frames, features.device)], dim=1)
        result: Tensor = _GroupedLinear.apply(x, self.weight, self.bias, groups.offsets.tolist())  # type: ignore[no-untyped-call]
        return result


class ModuleBank(nn.Module):
    """Any network for each procedure: modules from (features, frame inputs) to scores."""

    def __init__(self, networks: Iterable[nn.Module], frame: FrameInputs, blind: Collection[int] = ()) -> None:
        """Build it.

        Args:
            networks: one for each procedure.
            frame: which inputs a frame gives.
            blind: procedures that see their frame only; their features are given as 0.
        """
        super().__init__()
        self.frame = frame
        self.networks = nn.ModuleList(networks)
        self.blind = frozenset(blind)

    def forward(self, features: Float[Tensor, "S D"], frames: Frames, groups: Groups) -> Float[Tensor, "S U"]:
        """Scores of all choices; features and frames are in the order of `groups`."""
        extra = self.frame.encode(frames, features.device)
        offsets = groups.offsets.tolist()
        parts = []
        for h, (first, end) in enumerate(pairwise(offsets)):
            if end > first:
                own = features[first:end]
                parts.append(self.networks[h](torch.zeros_like(own) if h in self.blind else own, extra[first:end]))
        return torch.cat(parts) if parts else features.new_empty(0, self.frame.choices)


def step_scores(
    bank: MlpBank | ModuleBank, features: Float[Tensor, "R D"], steps: Steps, groups: Groups
) -> Float[Tensor, "K U"]:
    """Scores of all choices at the steps that `groups` names, in its order; features are those of the batch's rows."""
    order = groups.order
    rows = torch.from_numpy(steps.row[order]).to(features.device)
    scores: Tensor = bank(features.index_select(0, rows), Frames(steps.counter[order], steps.last[order]), groups)
    return scores


def masked_log_softmax(scores: Float[Tensor, "S U"], possible: Bool[np.ndarray, "S U"]) -> Float[Tensor, "S U"]:
    """Log-probabilities over the possible choices; an impossible one gets about `IMPOSSIBLE`."""
    mask = torch.from_numpy(possible).to(scores.device)
    return torch.where(mask, scores, IMPOSSIBLE).log_softmax(dim=1)


def with_factor(log_p: Float[Tensor, "S U"], choice: int, factor: Float[Tensor, "S"]) -> Float[Tensor, "S U"]:
    """Log-probabilities with a factor of one choice, which is added after the soft-max. They no longer sum to one."""
    index = torch.tensor([choice], device=log_p.device)
    return log_p.index_add(1, index, factor[:, None])


def _uniform(fan_in: int, *shape: int) -> Tensor:
    """The initial values of `torch.nn.Linear`."""
    bound = max(fan_in, 1) ** -0.5
    return torch.empty(*shape).uniform_(-bound, bound)


def _numpy(parameter: Tensor) -> np.ndarray:
    return np.ascontiguousarray(parameter.detach().cpu().numpy(), dtype=np.float32)
