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
from hvil.learners.exact.objective import evaluated, exact_metrics, exact_objective, limits_of
from hvil.learners.exact.step_table import StepTable
from hvil.learners.learner import InferredSteps, Loss
from hvil.learners.networks.batch import prepare
from hvil.learners.networks.curvature import bends
from hvil.learners.networks.policy import PolicyNetwork
from hvil.learners.networks.runner import ProcedurePolicy
from hvil.learners.networks.simplicity import (
    description_length,
    input_price,
    priced_fields,
    prune,
    refuse_sparsity_without_columns,
    shrink_policy,
)
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
        self.bends = bends(config)
        self.limits = limits_of(config)

    def first_weights(self, traces: Traces, rng: np.random.Generator) -> None:
        """Linear laws of continuous actions that fit the traces, unless annotations say which procedure acts."""
        if self.config.actions is not None and self.config.model.fits_first_laws:
            self.policy_network.first_laws(prepare(traces, self.config, next(self.parameters()).device), rng)

    def loss(self, traces: Traces, rng: np.random.Generator, update: int) -> Loss:
        """The objective and its exact gradient, the mean over traces; nothing is sampled."""
        weight = self.config.model.entropy_weight_at(update)
        objective = exact_objective(self.policy_network, traces, self.config, weight)
        total = objective.loss
        total = total + input_price(self.policy_network, self.config.model, self.bends)
        return Loss(total=total / len(traces), metrics=exact_metrics(objective, traces, weight))

    def merit(self, traces: Traces, update: int) -> float:
        """Minus the description length of a trace: its ELBO less its share of what it takes to say what is read.

        The posterior is the best one for the objective; without a price of long procedures the ELBO is log p(x).
        """
        with torch.no_grad():
            objective = exact_objective(self.policy_network, traces, self.config, 0.0)
        length = description_length(self.policy_network, self.config, traces)
        return (objective.elbo - length) / len(traces)

    def finish(self, traces: Traces) -> None:
        """Prune what is not needed, if the settings say so."""
        if self.config.model.prune:
            prune(self.policy_network, self.config, traces)

    def shrink(self, optimiser: torch.optim.Adam, update: int) -> None:
        """The proximal step of the price of fields, after each step of the optimiser."""
        shrink_policy(self.policy_network, self.fields, self.config, optimiser, update)

    def policy(self) -> ProcedurePolicy:
        """The current policy; it shares the weights."""
        return ProcedurePolicy(self.policy_network)

    def evaluated(self, traces: Traces) -> tuple[StepTable, Float[Tensor, "R U"]]:
        """The steps that call structures of the traces visit, and the policy's log-probabilities on them."""
        return evaluated(self.policy_network, traces, self.config, self.limits)

    def log_density(self, traces: Traces) -> float:
        """The log-likelihood of traces with continuous actions, in the data's units, summed over them."""
        scale = self.config.actions
        volume = 0.0 if scale is None else scale.log_volume * len(traces.actions)
        total = 0.0
        for trace in traces:  # one at a time, as in `infer_exactly`
            with torch.no_grad():
                table, log_probs = evaluated(self.policy_network, trace, self.config, self.limits)
            total += float(exact.log_likelihood(table, log_probs).sum())
        return total - volume

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
