"""The objective in compiled code: the same loss and gradient as `estimated(elbo_terms(…))` (tests show it).

It reuses the hidden units of the walk. The factors of choices (densities of continuous actions, effects of returns)
come from torch, which also carries their gradients on. Other devices than the CPU, other networks than
perceptrons and a user's own estimators take the readable way.

Letters: R rows, B context.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor

from hvil.learners.networks.bank import MlpBank
from hvil.learners.networks.batch import Batch
from hvil.learners.networks.dispatch import can_compile
from hvil.learners.networks.policy import PolicyNetwork
from hvil.learners.networks.posterior import Evaluated, PosteriorNetwork
from hvil.learners.objective import kernels
from hvil.learners.objective.elbo import Objective, choice_factors
from hvil.machine.arrays import NetworkArrays
from hvil.machine.steps import Walk

_BASELINES = {"none": kernels.NO_BASELINE, "others": kernels.OTHERS, "leave-one-out": kernels.LEAVE_ONE_OUT}
_ESTIMATORS = {"score": kernels.SCORE, "analytic": kernels.ANALYTIC, "rao-blackwell": kernels.RAO_BLACKWELL}


class _Gradients(NamedTuple):
    """The gradients of a bank's weights."""

    weight1: np.ndarray
    bias1: np.ndarray
    weight2: np.ndarray
    bias2: np.ndarray


def can_compile_objective(policy: PolicyNetwork, context: Float[Tensor, "R B"], estimator: str) -> bool:
    """Whether compiled code knows the estimator and can run the networks: perceptrons that see features themselves."""
    perceptrons = isinstance(policy.bank, MlpBank) and policy.encoder is None
    return estimator in _ESTIMATORS and perceptrons and can_compile(context)


def compiled_objective(
    policy: PolicyNetwork,
    posterior: PosteriorNetwork,
    batch: Batch,
    context: Float[Tensor, "R B"],
    walk: Walk,
    evaluated: Evaluated,
    estimator: str,
    entropy_weight: float,
    baseline: str,
    prices: Float32[np.ndarray, "S"],
) -> Objective:
    """One sample of the objective over the steps of a compiled walk, with its gradient to weights and context."""
    assert isinstance(policy.bank, MlpBank)
    net_p = policy.bank.arrays()
    features = batch.features.numpy()
    hidden_p = np.empty((len(walk.annotated), net_p.bias1.shape[1]), dtype=np.float32)
    log_p = np.empty((len(walk.annotated), net_p.bias2.shape[1]), dtype=np.float32)
    kernels.policy_log_probabilities(net_p, features, walk, hidden_p, log_p)
    factors = choice_factors(policy, batch, batch.features, walk)
    weighed = log_p.copy() if factors else log_p
    for choice, values in factors:
        weighed[:, choice] += values.detach().numpy()
    value, kl, entropy, grad_scores_q, grad_scores_p = kernels.objective(
        walk,
        batch.row_offsets,
        evaluated.log_q,
        log_p,
        weighed,
        entropy_weight,
        _ESTIMATORS[estimator],
        _BASELINES[baseline],
        prices,
    )
    grad_context = np.zeros(tuple(context.shape), dtype=np.float32)
    grads_q = _bank_gradients(
        evaluated.net, context.detach().numpy(), walk, True, evaluated.hidden, grad_scores_q, grad_context
    )
    no_grad_features = np.zeros((0, features.shape[1]), dtype=np.float32)
    grads_p = _bank_gradients(net_p, features, walk, False, hidden_p, grad_scores_p, no_grad_features)
    gradients = [grad_context, *grads_q, *grads_p]
    inputs = [context, *_parameters(posterior.bank), *_parameters(policy.bank)]
    for choice, values in factors:
        # A cost falls by a factor's logarithm as often as its choice counts.
        counts = np.empty(len(walk.annotated), dtype=np.float32)
        kernels.choice_counts(walk, evaluated.log_q, _ESTIMATORS[estimator], choice, counts)
        gradients.append(-counts)
        inputs.append(values)
    loss: Tensor = _WithGradients.apply(  # type: ignore[no-untyped-call]
        value, [torch.from_numpy(gradient) for gradient in gradients], *inputs
    )
    return Objective(loss=loss, kl=kl, entropy=entropy)


class _WithGradients(torch.autograd.Function):
    """A scalar whose gradients with respect to its inputs are given."""

    @staticmethod
    def forward(ctx: Any, value: float, gradients: list[Tensor], *inputs: Tensor) -> Tensor:
        ctx.gradients = gradients
        return inputs[0].new_tensor(value)

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        scale = float(outer[0])
        return None, None, *(g if scale == 1.0 else g * scale for g in ctx.gradients)


def _bank_gradients(
    net: NetworkArrays,
    features: np.ndarray,
    walk: Walk,
    only_choices: bool,
    hidden: np.ndarray,
    grad_scores: np.ndarray,
    grad_features: np.ndarray,
) -> _Gradients:
    """From gradients of scores to those of a bank's weights; those of the features are added to `grad_features`."""
    # Transposed, the kernel's innermost loops run over neighbours in memory.
    width = features.shape[1]
    transposed1 = np.ascontiguousarray(net.weight1[:, :width].transpose(0, 2, 1)) if len(grad_features) else net.weight1
    transposed2 = np.ascontiguousarray(net.weight2.transpose(0, 2, 1))
    grads = _Gradients(*(np.zeros_like(array) for array in (net.weight1, net.bias1, transposed2, net.bias2)))
    kernels.bank_gradients(
        net, transposed1, transposed2, features, walk, only_choices, hidden, grad_scores, grads, grad_features
    )
    return grads._replace(weight2=np.ascontiguousarray(grads.weight2.transpose(0, 2, 1)))


def _parameters(bank: MlpBank) -> tuple[Tensor, ...]:
    return bank.weight1, bank.bias1, bank.weight2, bank.bias2
