"""The terms of the ELBO at sampled PHP steps: one function a term, on flat arrays.

The steps were sampled without gradients; here p and q are evaluated at them with gradients, all at once.

Letters: S steps, N traces, W walks, U choices, R rows, B context, E encoded features.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor

from hvil.learners.networks.action_head import ACTING, step_densities
from hvil.learners.networks.bank import Groups, grouped, masked_log_softmax, step_scores, with_factor
from hvil.learners.networks.batch import Batch
from hvil.learners.networks.policy import PolicyNetwork
from hvil.learners.networks.posterior import PosteriorNetwork
from hvil.machine.steps import Walk


class Terms(NamedTuple):
    """What the estimators need, one entry a PHP step, walk after walk, in the order in which they were taken."""

    kl: Float[Tensor, "S"]
    """D[q(u_i|·) ‖ p(u_i|·)], summed over all choices; with effects, p(∅|·) has their factor here and in `log_p`."""
    entropy: Float[Tensor, "S"]
    """H[q(u_i|·)]."""
    log_q: Float[Tensor, "S"]
    """log q(u_i|·) of the step that was taken."""
    log_p: Float[Tensor, "S"]
    """log p(u_i|·) of the step that was taken, with the density of a continuous action."""
    price: Float[Tensor, "S"]
    """λf(τ), what the step costs because its frame has taken τ steps before it."""
    annotated: Bool[Tensor, "S"]
    """Steps that came from an annotation and were not sampled."""
    walk: Int[Tensor, "S"]
    """The walk of each step. The walks of a trace stand together; every trace has equally many."""
    time: Int[Tensor, "S"]
    """The time within its trace at which the step was taken."""
    offsets: Int[np.ndarray, "W_plus_1"]
    """Where each walk's steps begin."""
    durations: Int[np.ndarray, "N"]
    """How many time steps each trace has: T + 1, one for each action and one for ∅."""

    @property
    def samples(self) -> int:
        """How many walks each trace has."""
        return (len(self.offsets) - 1) // len(self.durations)


class Objective(NamedTuple):
    """One sample of the objective, summed over a batch."""

    loss: Tensor
    """The estimator's value. Its gradient is what counts."""
    kl: float
    """Σ_i D[q(u_i|·) ‖ p(u_i|·)] over all steps, annotated ones included. Without these, −kl estimates the ELBO."""
    entropy: float
    """Σ_i H[q(u_i|·)] over all steps."""


class ChoiceFactor(NamedTuple):
    """Something that is added to log p of one choice and has no part in the soft-max, with its gradient."""

    choice: int
    values: Float[Tensor, "S"]
    """At each step; what it is where the choice is impossible does not matter."""


def elbo_terms(
    policy: PolicyNetwork,
    posterior: PosteriorNetwork,
    batch: Batch,
    context: Float[Tensor, "R B"],
    walk: Walk,
    prices: Float32[np.ndarray, "S"],
) -> Terms:
    """Evaluate p and q at sampled steps: p at all of them, q where it has a choice (elsewhere its step is certain)."""
    steps = walk.steps
    groups = grouped(steps.procedure, len(policy.graph.procedures))
    order = groups.order
    encoded = policy.encode(batch.features)
    scores_p = step_scores(policy.bank, encoded, steps, groups)
    log_p = masked_log_softmax(scores_p, walk.policy_possible[order])
    device = log_p.device
    for factor in choice_factors(policy, batch, encoded, walk):
        log_p = with_factor(log_p, factor.choice, factor.values[torch.from_numpy(order).to(device)])
    free = walk.posterior_possible[order].sum(axis=1) > 1
    free_groups = Groups(order[free], np.concatenate([[0], np.cumsum(free)])[groups.offsets])
    scores_q = torch.zeros_like(log_p).index_copy(
        0, torch.from_numpy(np.flatnonzero(free)).to(device), step_scores(posterior.bank, context, steps, free_groups)
    )
    log_q = masked_log_softmax(scores_q, walk.posterior_possible[order])
    choice = torch.from_numpy(steps.choice[order]).to(device)[:, None]
    columns = torch.stack(
        [kl_divergence(log_q, log_p), entropy(log_q), log_q.gather(1, choice)[:, 0], log_p.gather(1, choice)[:, 0]]
    )
    back = np.empty_like(order)  # from the order by procedure to the order in which the steps were taken
    back[order] = np.arange(len(order))
    kl, step_entropy, log_q_taken, log_p_taken = columns.index_select(1, torch.from_numpy(back).to(device))
    walk_number = steps.trace  # the steps are those of walk after walk
    samples = (len(steps.offsets) - 1) // (len(batch.row_offsets) - 1)
    first_rows = np.repeat(batch.row_offsets[:-1], samples)
    return Terms(
        kl=kl,
        entropy=step_entropy,
        log_q=log_q_taken,
        log_p=log_p_taken,
        price=torch.from_numpy(prices).to(kl),
        annotated=torch.from_numpy(walk.annotated).to(device),
        walk=torch.from_numpy(walk_number).to(device),
        time=torch.from_numpy(steps.row - first_rows[walk_number]).to(device),
        offsets=steps.offsets,
        durations=np.diff(batch.row_offsets),
    )


def choice_factors(
    policy: PolicyNetwork, batch: Batch, encoded: Float[Tensor, "R E"], walk: Walk
) -> list[ChoiceFactor]:
    """The factors of the policy's choices: the density of a continuous action, the effect of a return."""
    factors, steps = [], walk.steps
    if policy.head is not None and batch.vectors is not None:
        vectors = batch.vectors.to(encoded)
        densities = step_densities(policy.head, encoded, vectors, steps, walk.posterior_possible)
        factors.append(ChoiceFactor(choice=ACTING, values=densities))
    if policy.effects is not None:
        effects = policy.effects.at(batch.features)[steps.row, steps.procedure]
        factors.append(ChoiceFactor(choice=policy.graph.terminate, values=effects))
    return factors


def kl_divergence(log_q: Float[Tensor, "S U"], log_p: Float[Tensor, "S U"]) -> Float[Tensor, "S"]:
    """D[q ‖ p] = Σ_u q(u) (log q(u) − log p(u)) of each row."""
    return (log_q.exp() * (log_q - log_p)).sum(dim=1)


def entropy(log_q: Float[Tensor, "S U"]) -> Float[Tensor, "S"]:
    """H[q] = −Σ_u q(u) log q(u) of each row."""
    return -(log_q.exp() * log_q).sum(dim=1)
