"""The exact learner: the policy alone, trained on the sum over all call structures, without a posterior network.

It minimises the same objective as HVIL, E_q[Σ c_i], with the best possible q in place of a learned one.
`hvil.learners.exact` has the dynamic program.

Letters: R rows of the step table, U choices.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.config import Config
from hvil.learners.exact import inference as exact
from hvil.learners.exact.cost import Limits
from hvil.learners.exact.step_table import StepTable, step_table
from hvil.learners.hvil import (
    entropy_weight,
    input_sparsity,
    priced_fields,
    refuse_sparsity_without_columns,
    shrink_policy,
)
from hvil.learners.learner import InferredSteps, Loss
from hvil.learners.networks.batch import prepare
from hvil.learners.networks.policy import PolicyNetwork
from hvil.learners.networks.runner import ProcedurePolicy
from hvil.machine.steps import joined


class ExactLearner(nn.Module):
    """Learns procedures and their calls from short traces by exact inference of the call structure."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        if config.model.annotations == "use":
            raise InputError("the exact learner sums over all call structures and cannot use annotations; hvil can")
        if config.model.entropy_final <= -1:
            raise InputError(
                f"the exact learner needs an entropy weight above -1, not {config.model.entropy_final:g}: there the "
                "best posterior is one structure alone"
            )
        self.config = config
        self.policy_network = PolicyNetwork(config)
        refuse_sparsity_without_columns(self.policy_network, config)
        self.fields = priced_fields(self.policy_network, config)
        self.limits = Limits(
            longest_span=config.model.longest_span or None, largest_counter=config.model.largest_counter or None
        )

    def loss(self, traces: Traces, rng: np.random.Generator, update: int) -> Loss:
        """The objective and its exact gradient, the mean over traces; nothing is sampled.

        With the entropy's weight w, min_q E_q[Σ c_i] = -(1 + w) log Σ_z p(z, x)^{1/(1 + w)}. The minimiser is the
        posterior at temperature 1 + w, q(z) ∝ p(z, x)^{1/(1 + w)}; for w = 0 the minimum is -log p(x). The gradient of
        the minimum is E_q[-∇log p(z, x)], because q's own change does not matter at its best.
        """
        weight = entropy_weight(self.config, update)
        table, log_probs = self.evaluated(traces)
        result = exact.posterior(table, log_probs.detach() / (1 + weight))
        surrogate = exact.expected_log_prob(result, log_probs)
        expected = surrogate.item()  # E_q[log p(z, x)]
        minimum = -(1 + weight) * float(result.log_likelihood.sum())  # = -E_q[log p(z, x)] - (1 + w) H[q]
        entropy = (-minimum - expected) / (1 + weight)
        total = -surrogate + (expected + minimum)  # the value of the minimum, the gradient of the surrogate
        if self.config.model.input_sparsity:
            total = total + self.config.model.input_sparsity * input_sparsity(self.policy_network)
        metrics = {
            "elbo": (expected + entropy) / len(traces),
            "entropy": entropy / len(traces),
            "entropy_weight": weight,
            "php_steps_per_action": float(result.step_counts.sum()) / len(traces.actions),
        }
        return Loss(total=total / len(traces), metrics=metrics)

    def shrink(self, optimiser: torch.optim.Adam, update: int) -> None:
        """The proximal step of the price of fields, after each step of the optimiser."""
        shrink_policy(self.policy_network, self.fields, self.config, optimiser, update)

    def policy(self) -> ProcedurePolicy:
        """The current policy; it shares the weights."""
        return ProcedurePolicy(self.policy_network)

    def evaluated(self, traces: Traces) -> tuple[StepTable, Float[Tensor, "R U"]]:
        """The steps that call structures of the traces visit, and the policy's log-probabilities on them."""
        return evaluated(self.policy_network, traces, self.config, self.limits)

    def infer(self, traces: Traces, rng: np.random.Generator | None = None) -> InferredSteps:
        """The call structure of each trace: the most likely one, or with a generator one from the posterior."""
        return infer_exactly(self.policy_network, traces, self.config, self.limits, rng)


def infer_exactly(
    policy: PolicyNetwork,
    traces: Traces,
    config: Config,
    limits: Limits | None = None,
    rng: np.random.Generator | None = None,
) -> InferredSteps:
    """The most likely call structure of each trace under any policy of procedures, or one drawn from the posterior."""
    parts, log_q = [], []
    # One trace at a time: the tables of a whole test set would not fit in memory.
    for trace in traces:
        with torch.no_grad():
            table, log_probs = evaluated(policy, trace, config, limits)
        structures = exact.viterbi(table, log_probs) if rng is None else exact.sample(table, log_probs, 1, rng)
        parts.append(structures.steps)
        log_q.append(exact.step_log_posterior(table, log_probs, structures))
    return InferredSteps(steps=joined(parts), log_q=np.concatenate(log_q))


def evaluated(
    policy: PolicyNetwork, traces: Traces, config: Config, limits: Limits | None = None
) -> tuple[StepTable, Float[Tensor, "R U"]]:
    """The step table of some traces and a policy's log-probabilities on it, with their gradient."""
    table = step_table(config.graph, traces, limits)
    weights = next(policy.parameters())
    features = prepare(traces, config, weights.device).features.to(weights.dtype)
    return table, table.log_probs(policy, policy.encode(features))
