"""The objective on the CPU, fast: the walk's own hidden units are reused, and the gradient is compiled.

The same loss and gradient as `estimators` over `elbo_terms` (tests show it); those remain for devices, for other
networks than perceptrons, and for reading.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from hvil.learners.networks.bank import MlpBank
from hvil.learners.networks.php import Batch, PolicyNetwork, PosteriorNetwork, Walk
from hvil.learners.objective import fused_kernels
from hvil.machine.arrays import NetworkArrays, Steps

_CODES = {
    "score": fused_kernels.SCORE,
    "analytic": fused_kernels.ANALYTIC,
    "rao-blackwell": fused_kernels.RAO_BLACKWELL,
}


class Objective(NamedTuple):
    """One sample of the objective."""

    loss: Tensor
    """The estimator's value, with its gradient."""
    kl: float
    """Σ_i D[q ‖ p] over the batch."""
    entropy: float


def can_fuse(policy: PolicyNetwork, context: Tensor) -> bool:
    """Whether the compiled objective can run: perceptrons of observations, single precision, on the CPU."""
    perceptrons = isinstance(policy.bank, MlpBank) and policy.encoder is None
    return perceptrons and context.device.type == "cpu" and context.dtype == torch.float32


def fused_objective(
    policy: PolicyNetwork,
    posterior: PosteriorNetwork,
    batch: Batch,
    context: Float[Tensor, "R B"],
    walk: Walk,
    estimator: str,
    weight: float,
) -> Objective:
    """The estimator's loss over the steps of a compiled walk; only its gradient is used, as with `estimators`."""
    assert isinstance(policy.bank, MlpBank)
    net_p, net_q = policy.bank.arrays(), posterior.bank.arrays()
    steps = walk.steps
    hidden_p = np.empty((len(steps.row), net_p.bias1.shape[1]), dtype=np.float32)
    scores_p = np.empty((len(steps.row), net_p.bias2.shape[1]), dtype=np.float32)
    observations = batch.observations.numpy()
    fused_kernels.policy_scores(net_p, observations, steps, hidden_p, scores_p)
    sums = np.zeros(2)
    value = fused_kernels.objective(steps, walk.log_q, scores_p, weight, _CODES[estimator], sums)
    grad_context = np.zeros(tuple(context.shape), dtype=np.float32)
    grads_q = _gradients(net_q, context.detach().numpy(), steps, True, walk.hidden, walk.log_q, grad_context)
    nothing = np.zeros((0, observations.shape[1]), dtype=np.float32)
    grads_p = _gradients(net_p, observations, steps, False, hidden_p, scores_p, nothing)
    inputs = [context, *_parameters(posterior.bank), *_parameters(policy.bank)]
    loss: Tensor = _Known.apply(  # type: ignore[no-untyped-call]
        value, [torch.from_numpy(g) for g in (grad_context, *grads_q, *grads_p)], *inputs
    )
    return Objective(loss, float(sums[0]), float(sums[1]))


class _Known(torch.autograd.Function):
    """A scalar whose gradients are known already."""

    @staticmethod
    def forward(ctx: Any, value: float, gradients: list[Tensor], *inputs: Tensor) -> Tensor:
        ctx.gradients = gradients
        return inputs[0].new_tensor(value)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        scale = float(outer[0])
        return None, None, *(g if scale == 1.0 else g * scale for g in ctx.gradients)


def _gradients(
    net: NetworkArrays,
    features: np.ndarray,
    steps: Steps,
    only_choices: bool,
    hidden: np.ndarray,
    grad_scores: np.ndarray,
    grad_features: np.ndarray,
) -> tuple[np.ndarray, ...]:
    width = features.shape[1]
    transposed1 = np.ascontiguousarray(net.weight1[:, :width].transpose(0, 2, 1)) if len(grad_features) else net.weight1
    transposed2 = np.ascontiguousarray(net.weight2.transpose(0, 2, 1))
    grads = tuple(np.zeros_like(array) for array in (net.weight1, net.bias1, transposed2, net.bias2))
    fused_kernels.gradients(
        net, transposed1, transposed2, features, steps, only_choices, hidden, grad_scores, grads, grad_features
    )
    return grads[0], grads[1], np.ascontiguousarray(grads[2].transpose(0, 2, 1)), grads[3]


def _parameters(bank: MlpBank) -> tuple[Tensor, ...]:
    return bank.weight1, bank.bias1, bank.weight2, bank.bias2
