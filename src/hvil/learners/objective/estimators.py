"""Gradient estimators of the expected cost E_q[Σ_i c_i]: one function each, over the same terms.

The cost of a sampled step is c_i = D[q(u_i|·) ‖ p(u_i|·)] − w·H[q(u_i|·)] + λf(τ_i), that of an annotated one
−log p(u_i) − log q(u_i) + λf(τ_i), with the price λ of long procedures. An estimator returns a scalar, the sum over all
walks of the batch, whose *gradient* is an unbiased estimate of the gradient of the summed expected costs; its value is
not the cost. It has two parts: the gradient of the costs, and for each sampled step j its score ∇log q(u_j) times a
weight. The weight is a cost less a baseline b_j, which lowers the variance (`control_variates`). That cost includes the
entropy: without it the posterior collapses onto a solution without hierarchy.

`ESTIMATORS` holds what `--estimator` names. A user's estimator is a function like those below.

Letters: S steps, W walks.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from hvil.gate.registry import Registry
from hvil.learners.objective.control_variates import BASELINES, Baseline
from hvil.learners.objective.elbo import Objective, Terms

Estimator = Callable[[Terms, float, Baseline], Tensor]
"""From the terms, the entropy weight w and a baseline to a scalar with a gradient."""

ESTIMATORS: Registry[Estimator] = Registry(
    "estimator",
    {
        "score": "hvil.learners.objective.estimators:score",
        "analytic": "hvil.learners.objective.estimators:analytic",
        "rao-blackwell": "hvil.learners.objective.estimators:rao_blackwell",
    },
)


def score(terms: Terms, entropy_weight: float, baseline: Baseline) -> Tensor:
    """∇f + (f − b) ∇log q(z|x), with the sampled cost f of the whole walk (paper, eq. 4; for w = 0 its f is −f)."""
    costs = sampled_costs(terms, entropy_weight)
    weights = whole_cost(costs.detach(), terms) - baseline(costs.detach(), terms, torch.zeros_like(terms.time))
    return (costs + weights * sampled_log_q(terms)).sum()


def analytic(terms: Terms, entropy_weight: float, baseline: Baseline) -> Tensor:
    """Σ_i ∇c_i + (Σ_i c_i − b) Σ_j ∇log q(u_j): analytic costs; every score is weighed by the whole walk's cost."""
    costs = analytic_costs(terms, entropy_weight)
    weights = whole_cost(costs.detach(), terms) - baseline(costs.detach(), terms, torch.zeros_like(terms.time))
    return (costs + weights * sampled_log_q(terms)).sum()


def rao_blackwell(terms: Terms, entropy_weight: float, baseline: Baseline) -> Tensor:
    """Σ_i ∇c_i + Σ_j (Σ_{i>j} c_i − b_j) ∇log q(u_j): each score is weighed by the cost that comes after its step.

    With b = 0 this is the paper's Σ_i (∇c_i + c_i ∇log q(u_{<i})), summed by score and not by cost.
    """
    costs = analytic_costs(terms, entropy_weight)
    weights = cost_to_come(costs.detach(), terms) - baseline(costs.detach(), terms, terms.time)
    return (costs + weights * sampled_log_q(terms)).sum()


def analytic_costs(terms: Terms, entropy_weight: float) -> Float[Tensor, "S"]:
    """c_i with the KL and the entropy summed over all choices."""
    sampled = terms.kl - entropy_weight * terms.entropy
    return torch.where(terms.annotated, -terms.log_p - terms.log_q, sampled) + terms.price


def sampled_costs(terms: Terms, entropy_weight: float) -> Float[Tensor, "S"]:
    """c_i from the step taken alone: log q − log p + w·log q + λf(τ), whose mean under q is the analytic cost."""
    sampled = (1 + entropy_weight) * terms.log_q - terms.log_p
    return torch.where(terms.annotated, -terms.log_p - terms.log_q, sampled) + terms.price


def sampled_log_q(terms: Terms) -> Float[Tensor, "S"]:
    """The log q(u_j) of sampled steps; 0 for annotated ones, which were not sampled and have no score."""
    return torch.where(terms.annotated, 0.0, terms.log_q)


def cost_to_come(costs: Float[Tensor, "S"], terms: Terms) -> Float[Tensor, "S"]:
    """Σ_{i>j} c_i within the walk, for each step j."""
    running, at_end = _running_costs(costs, terms)
    return (at_end[terms.walk + 1] - running).to(costs)


def whole_cost(costs: Float[Tensor, "S"], terms: Terms) -> Float[Tensor, "S"]:
    """Σ_i c_i of the whole walk, at each of its steps."""
    _, at_end = _running_costs(costs, terms)
    return (at_end[terms.walk + 1] - at_end[terms.walk]).to(costs)


def _running_costs(costs: Float[Tensor, "S"], terms: Terms) -> tuple[Float[Tensor, "S"], Float[Tensor, "W_plus_1"]]:
    """The batch's cost up to each step, and up to the end of each walk (0 before the first)."""
    running = costs.double().cumsum(0)
    ends = torch.from_numpy(terms.offsets[1:] - 1).to(costs.device)
    return running, torch.cat([running.new_zeros(1), running[ends]])


def estimated(terms: Terms, estimator: str, entropy_weight: float, baseline: str) -> Objective:
    """One sample of the objective by a registered estimator."""
    loss = ESTIMATORS[estimator](terms, entropy_weight, BASELINES[baseline])
    kl, entropy = torch.stack([terms.kl.detach().sum(), terms.entropy.detach().sum()]).tolist()
    return Objective(loss=loss, kl=kl, entropy=entropy)
