"""Gradient estimators of the expected cost E_q[Σ_i c_i]: one function each, over the same terms.

c_i = D[q(u_i|·) ‖ p(u_i|·)] − w·H[q(u_i|·)] at a sampled step, −log p(u_i) − log q(u_i) at an annotated one. Each
function returns a scalar whose *gradient* is an unbiased estimate of the gradient of the expected cost, summed over the
batch; its value is not the cost. The entropy bonus is in the cost that weighs the score too: without it the posterior
collapses onto a solution without hierarchy.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from hvil.learners.objective.elbo import Terms


def analytic_costs(terms: Terms, weight: float) -> Float[Tensor, "S"]:
    """c_i with the KL and the entropy summed over all choices."""
    return torch.where(terms.known, -terms.log_p - terms.log_q, terms.kl - weight * terms.entropy)


def sampled_costs(terms: Terms, weight: float) -> Float[Tensor, "S"]:
    """c_i from the step taken alone: log q − log p + w·log q, whose mean under q is the analytic cost."""
    return torch.where(terms.known, -terms.log_p - terms.log_q, (1 + weight) * terms.log_q - terms.log_p)


def score(terms: Terms, weight: float) -> Tensor:
    """Paper, eq. (4): ∇f + f ∇log q(z|x), f the whole trace's sampled cost."""
    costs = sampled_costs(terms, weight)
    return (costs + _whole(costs.detach(), terms) * _sampled_log_q(terms)).sum()


def analytic(terms: Terms, weight: float) -> Tensor:
    """Analytic KL; each log q(u_j) weighed by the cost of the whole trace."""
    costs = analytic_costs(terms, weight)
    return (costs + _whole(costs.detach(), terms) * _sampled_log_q(terms)).sum()


def rao_blackwell(terms: Terms, weight: float) -> Tensor:
    """Σ_i (∇c_i + c_i ∇log q(u_{<i})): each log q(u_j) weighed only by the cost that comes after it."""
    costs = analytic_costs(terms, weight)
    return (costs + _after(costs.detach(), terms) * _sampled_log_q(terms)).sum()


ESTIMATORS: dict[str, Callable[[Terms, float], Tensor]] = {
    "score": score,
    "analytic": analytic,
    "rao-blackwell": rao_blackwell,
}


def _sampled_log_q(terms: Terms) -> Float[Tensor, "S"]:
    """The log q of the sampled steps; an annotated step was not sampled and has no score."""
    return torch.where(terms.known, 0.0, terms.log_q)


def _until(costs: Float[Tensor, "S"], terms: Terms) -> tuple[Float[Tensor, "S"], Float[Tensor, "S"]]:
    """For each step the cost of all steps of the batch up to it, and up to the end of its trace."""
    until = costs.double().cumsum(0)
    lengths = torch.from_numpy(terms.offsets[1:] - terms.offsets[:-1]).to(costs.device)
    ends = torch.from_numpy(terms.offsets[1:] - 1).to(costs.device)
    return until, until[ends].repeat_interleave(lengths)


def _after(costs: Float[Tensor, "S"], terms: Terms) -> Float[Tensor, "S"]:
    """The cost of a trace that comes after each step."""
    until, end = _until(costs, terms)
    return (end - until).to(costs)


def _whole(costs: Float[Tensor, "S"], terms: Terms) -> Float[Tensor, "S"]:
    """The cost of the whole trace at each of its steps."""
    _, end = _until(costs, terms)
    lengths = torch.from_numpy(terms.offsets[1:] - terms.offsets[:-1]).to(costs.device)
    first = torch.cat([end.new_zeros(1), end[torch.from_numpy(terms.offsets[1:-1] - 1).to(costs.device)]])
    return (end - first.repeat_interleave(lengths)).to(costs)
