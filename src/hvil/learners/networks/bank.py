"""Banks: the networks of all procedures as one object, evaluated for many PHP steps at once.

Steps come sorted by procedure, so that each layer is one product a range of rows. What the rows mean is `php`'s
business.

Letters: R rows, D features, F frame inputs, K hidden units, U choices, H procedures.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from hvil.learners.settings import ProcedureSettings
from hvil.machine.arrays import NetworkArrays


class Groups(NamedTuple):
    """Rows sorted by procedure."""

    order: Int[np.ndarray, "R"]
    """Which of the original rows comes where."""
    offsets: Int[np.ndarray, "H_plus_1"]
    """Rows of procedure h are `offsets[h]:offsets[h+1]`."""


class Frames(NamedTuple):
    """What a procedure knows of its own frame, one entry a row."""

    counter: Int[np.ndarray, "R"]
    last: Int[np.ndarray, "R"]


def grouped(procedures: Int[np.ndarray, "R"], count: int) -> Groups:
    """Sort rows by procedure, keeping their order within one."""
    order = np.argsort(procedures, kind="stable")
    return Groups(order, np.concatenate([[0], np.cumsum(np.bincount(procedures, minlength=count))]))


class FrameInputs(NamedTuple):
    """Which inputs a frame gives: the raw counter, the counter one-hot up to a limit, the last step one-hot."""

    counter: bool
    limit: int
    last: bool
    choices: int

    @staticmethod
    def of(settings: ProcedureSettings, choices: int) -> "FrameInputs":
        """As the settings say."""
        counter = settings.frame_inputs in ("both", "counter")
        return FrameInputs(
            counter, settings.counter_limit if counter else 0, settings.frame_inputs in ("both", "last"), choices
        )

    @property
    def width(self) -> int:
        """How many numbers."""
        return self.counter + (self.limit + 1 if self.limit else 0) + (self.choices if self.last else 0)

    def encode(self, frames: Frames, device: torch.device) -> Float[Tensor, "R F"]:
        """The numbers, one row a frame."""
        numbers = np.zeros((len(frames.counter), self.width), dtype=np.float32)
        rows = np.arange(len(numbers))
        column = 0
        if self.counter:
            numbers[:, 0] = frames.counter
            column = 1
        if self.limit:
            within = frames.counter <= self.limit
            numbers[rows[within], column + frames.counter[within]] = 1
            column += self.limit + 1
        if self.last:
            some = frames.last >= 0
            numbers[rows[some], column + frames.last[some]] = 1
        return torch.from_numpy(numbers).to(device)


class _GroupedLinear(torch.autograd.Function):
    """y[rows of h] = x[rows of h] @ weight[h] + bias[h], for all h."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, offsets: list[int]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.offsets = offsets
        y = x.new_empty(len(x), weight.shape[2])
        for h, (first, last) in enumerate(pairwise(offsets)):
            if last > first:
                torch.addmm(bias[h], x[first:last], weight[h], out=y[first:last])
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = gradients
        x, weight = ctx.saved_tensors
        grad = grad.contiguous()
        grad_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        grad_weight = torch.zeros_like(weight)
        grad_bias = weight.new_zeros(weight.shape[0], weight.shape[2])
        for h, (first, last) in enumerate(pairwise(ctx.offsets)):
            if last > first:
                part = grad[first:last]
                if grad_x is not None:
                    torch.mm(part, weight[h].T, out=grad_x[first:last])
                torch.mm(x[first:last].T, part, out=grad_weight[h])
                torch.sum(part, 0, out=grad_bias[h])
        return grad_x, grad_weight, grad_bias, None


class MlpBank(nn.Module):
    """One-hidden-layer networks of all procedures, stacked."""

    def __init__(
        self, procedures: int, features: int, hidden: int, frame: FrameInputs, blind: Sequence[int] = ()
    ) -> None:
        """Build it.

        Args:
            procedures: how many networks.
            features: width of what they see.
            hidden: units of each.
            frame: which inputs a frame gives.
            blind: the procedures that see their frame only; their weights from features are 0 and stay it.
        """
        super().__init__()
        self.frame = frame
        self.features = features
        inputs = features + frame.width
        self.weight1 = nn.Parameter(_uniform(inputs, procedures, inputs, hidden))
        self.bias1 = nn.Parameter(_uniform(inputs, procedures, hidden))
        self.weight2 = nn.Parameter(_uniform(hidden, procedures, hidden, frame.choices))
        self.bias2 = nn.Parameter(_uniform(hidden, procedures, frame.choices))
        if blind:
            unseen = torch.zeros_like(self.weight1, dtype=torch.bool)
            unseen[list(blind), :features] = True
            self.register_buffer("unseen", unseen, persistent=False)
            self.weight1.data.masked_fill_(unseen, 0)
            self.weight1.register_hook(lambda gradient: gradient.masked_fill(self.unseen, 0))  # type: ignore[no-untyped-call]

    def forward(self, features: Float[Tensor, "R D"], frames: Frames, groups: Groups) -> Float[Tensor, "R U"]:
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
            _numpy(self.weight1),
            _numpy(self.bias1),
            _numpy(self.weight2),
            _numpy(self.bias2),
            self.frame.counter,
            self.frame.limit,
            self.frame.last,
        )

    def input_norms(self) -> Float[Tensor, "H inputs"]:
        """Norm of the weights that leave each input: zero for one that a procedure ignores."""
        norms: Tensor = torch.linalg.vector_norm(self.weight1, dim=2)
        return norms


class ModuleBank(nn.Module):
    """Any network a procedure: modules from (features, frame inputs) to scores."""

    def __init__(self, networks: Iterable[nn.Module], frame: FrameInputs) -> None:
        super().__init__()
        self.frame = frame
        self.networks = nn.ModuleList(networks)

    def forward(self, features: Float[Tensor, "R D"], frames: Frames, groups: Groups) -> Float[Tensor, "R U"]:
        """Scores of all choices; features and frames are in the order of `groups`."""
        extra = self.frame.encode(frames, features.device)
        offsets = groups.offsets.tolist()
        parts = [
            network(features[first:last], extra[first:last])
            for network, first, last in zip(self.networks, offsets, offsets[1:], strict=False)
            if last > first
        ]
        return torch.cat(parts) if parts else features.new_empty(0, self.frame.choices)


def _uniform(fan_in: int, *shape: int) -> Tensor:
    """The initial values of `torch.nn.Linear`."""
    bound = max(fan_in, 1) ** -0.5
    return torch.empty(*shape).uniform_(-bound, bound)


def _numpy(parameter: Tensor) -> np.ndarray:
    return np.ascontiguousarray(parameter.detach().cpu().numpy(), dtype=np.float32)
