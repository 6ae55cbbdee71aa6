"""HVIL's objective at its best posterior, by the sum over all call structures: its value, gradient and posterior.

With the entropy's weight w and the price λ of long procedures, and with τ of every step,

    min_q E_q[Σ c_i] = −(1 + w) log Σ_z (p(z, x) e^{−λΣf(τ)})^{1/(1 + w)}.

The minimiser is q(z) ∝ (p(z, x) e^{−λΣf(τ)})^{1/(1 + w)}; for w = 0 and λ = 0 it is p(z | x) and the minimum −log p(x).
The gradient of the minimum is E_q[−∇log p(z, x)], because q's own change does not matter at its best. With effects,
p(z, x) has their factor at each return, and sums to something else than one.

Letters: R rows of the step table, U choices.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from hvil.data.traces import Traces
from hvil.learners.config import Config
from hvil.learners.exact import inference
from hvil.learners.exact.cost import Limits
from hvil.learners.exact.step_table import StepTable, step_table
from hvil.learners.networks.action_head import ACTING
from hvil.learners.networks.bank import Frames, with_factor
from hvil.learners.networks.batch import prepare
from hvil.learners.networks.policy import PolicyNetwork
from hvil.learners.networks.simplicity import step_prices


class BestPosterior(NamedTuple):
    """The posterior that minimises the objective of some traces."""

    table: StepTable
    log_weights: Float[Tensor, "R U"]
    """The exponent of the sum, a term for each choice at each row: (log p(u|·) − λf(τ)) / (1 + w), effects in p."""
    spans: inference.SpanPosterior
    """The sums over all call structures."""

    def sample(self, count: int, rng: np.random.Generator) -> inference.Structures:
        """Independent samples of call structures, so many of each trace."""
        return inference.sample(self.table, self.log_weights, count, rng, self.spans.tables or None)


class ExactObjective(NamedTuple):
    """The objective of some traces, summed over them."""

    loss: Tensor
    """min_q E_q[Σ c_i], with its gradient."""
    log_joint: float
    """E_q[log p(z, x)] under the best posterior."""
    entropy: float
    """H[q] of the best posterior."""
    steps: float
    """The expected number of PHP steps."""
    posterior: BestPosterior

    @property
    def elbo(self) -> float:
        """E_q[log p(z, x)] + H[q] of the best posterior: log p(x) if w = 0 and λ = 0."""
        return self.log_joint + self.entropy


def limits_of(config: Config) -> Limits:
    """What the settings leave out of exact sums."""
    model = config.model
    return Limits(longest_span=model.longest_span or None, largest_counter=model.largest_counter or None)


def evaluated(
    policy: PolicyNetwork, traces: Traces, config: Config, limits: Limits | None = None
) -> tuple[StepTable, Float[Tensor, "R U"]]:
    """The step table of some traces and a policy's log-probabilities on it, with their gradient.

    The factors of choices are included, so that sums over call structures contain them: the density of a continuous
    action, the effect of a return.
    """
    table = step_table(config.graph, traces, limits)
    weights = next(policy.parameters())
    batch = prepare(traces, config, weights.device)
    features = batch.features.to(weights.dtype)
    encoded = policy.encode(features)
    log_probs = table.log_probs(policy, encoded)
    if policy.head is not None and batch.vectors is not None:
        rows, frames = torch.from_numpy(table.observation).to(encoded.device), Frames(table.counter, table.last)
        vectors = batch.vectors.to(encoded)[rows]
        densities = policy.head.log_densities(encoded[rows], table.procedure, frames, vectors)
        log_probs = with_factor(log_probs, ACTING, densities)
    if policy.effects is not None:
        effect = policy.effects.at(features)[table.observation, table.procedure]
        log_probs = with_factor(log_probs, config.graph.terminate, effect)
    return table, log_probs


def exact_objective(
    policy: PolicyNetwork, traces: Traces, config: Config, weight: float, keep_tables: bool = False
) -> ExactObjective:
    """The objective of some traces at its best posterior, with its exact gradient; nothing is sampled.

    With `keep_tables`, its posterior can be sampled without the sums being made again.
    """
    table, log_probs = evaluated(policy, traces, config, limits_of(config))
    prices = step_prices(config.model, table.counter)
    log_weights = (log_probs.detach() - torch.from_numpy(prices).to(log_probs)[:, None]) / (1 + weight)
    result = inference.posterior(table, log_weights, keep_tables)
    posterior = BestPosterior(table=table, log_weights=log_weights, spans=result)
    surrogate = inference.expected_log_prob(result, log_probs)
    log_joint = surrogate.item()
    steps_at = result.step_counts.sum(axis=1)
    price = float(steps_at @ prices)
    minimum = -(1 + weight) * float(result.log_likelihood.sum())  # = −E_q[log p(z, x)] + λ E_q[Σf(τ)] − (1 + w) H[q]
    return ExactObjective(
        loss=-surrogate + (log_joint + minimum),  # the value of the minimum, the gradient of the surrogate
        log_joint=log_joint,
        entropy=(price - log_joint - minimum) / (1 + weight),
        steps=float(steps_at.sum()),
        posterior=posterior,
    )


def exact_metrics(objective: ExactObjective, traces: Traces, weight: float) -> dict[str, float]:
    """What an update on exact sums reports, the mean over traces."""
    return {
        "elbo": objective.elbo / len(traces),
        "entropy": objective.entropy / len(traces),
        "entropy_weight": weight,
        "php_steps_per_action": objective.steps / len(traces.actions),
    }
