"""The terms of the ELBO at sampled PHP steps: one function a term, on flat arrays.

The steps were sampled without gradients; here p and q are evaluated at them with gradients, all at once.

Letters: S steps, U choices.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hvil.learners.networks.bank import Groups, grouped
from hvil.learners.networks.php import Batch, PolicyNetwork, PosteriorNetwork, evaluate_steps, masked_log_softmax
from hvil.machine.arrays import Steps


class Terms(NamedTuple):
    """What the estimators need, one entry a PHP step, trace after trace, in the order the steps were taken."""

    kl: Float[Tensor, "S"]
    """D[q(u_i|·) ‖ p(u_i|·)], summed over all choices."""
    entropy: Float[Tensor, "S"]
    """H[q(u_i|·)]."""
    log_q: Float[Tensor, "S"]
    """log q(u_i|·) of the step that was taken."""
    log_p: Float[Tensor, "S"]
    """log p(u_i|·) of the step that was taken."""
    known: Bool[Tensor, "S"]
    """Steps that came from an annotation: not sampled."""
    offsets: Int[np.ndarray, "N_plus_1"]
    """Where each trace's steps begin."""


def elbo_terms(
    policy: PolicyNetwork, posterior: PosteriorNetwork, batch: Batch, context: Float[Tensor, "R B"], steps: Steps
) -> Terms:
    """Evaluate p and q at the steps, sorted by procedure; q only where it has a choice."""
    count = len(policy.graph.procedures)
    groups = grouped(steps.procedure, count)
    order = groups.order
    log_p = masked_log_softmax(
        evaluate_steps(policy.bank, policy.encode(batch.observations), steps, groups), steps.policy_possible[order]
    )
    free = steps.posterior_possible[order].sum(axis=1) > 1
    choosing = Groups(order[free], np.concatenate([[0], np.cumsum(free)])[groups.offsets])
    scores = log_p.new_zeros(log_p.shape).index_copy(
        0,
        torch.from_numpy(np.flatnonzero(free)).to(log_p.device),
        evaluate_steps(posterior.bank, context, steps, choosing),
    )
    log_q = masked_log_softmax(scores, steps.posterior_possible[order])
    taken = torch.from_numpy(steps.choice[order]).to(log_p.device)[:, None]
    columns = torch.stack(
        [kl_divergence(log_q, log_p), entropy(log_q), log_q.gather(1, taken)[:, 0], log_p.gather(1, taken)[:, 0]]
    )
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    kl, bonus, log_q_taken, log_p_taken = columns.index_select(1, torch.from_numpy(back).to(log_p.device))
    known = torch.from_numpy(steps.known).to(log_p.device)
    return Terms(kl, bonus, log_q_taken, log_p_taken, known, steps.offsets)


def kl_divergence(log_q: Float[Tensor, "S U"], log_p: Float[Tensor, "S U"]) -> Float[Tensor, "S"]:
    """D[q ‖ p] = Σ_u q(u) (log q(u) − log p(u)) of each row."""
    return (log_q.exp() * (log_q - log_p)).sum(dim=1)


def entropy(log_q: Float[Tensor, "S U"]) -> Float[Tensor, "S"]:
    """H[q] = −Σ_u q(u) log q(u) of each row."""
    return -(log_q.exp() * log_q).sum(dim=1)
