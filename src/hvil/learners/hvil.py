"""HVIL: policy and posterior trained together on sampled call structures (paper, Algorithm 2).

Two phases an update: sample the steps without gradients, then evaluate them with gradients, all at once.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.config import Config
from hvil.learners.learner import Loss, Structure
from hvil.learners.networks.bank import MlpBank
from hvil.learners.networks.php import Batch, PolicyNetwork, PosteriorNetwork, prepare
from hvil.learners.networks.runner import ProcedurePolicy
from hvil.learners.objective.elbo import Terms, elbo_terms
from hvil.learners.objective.estimators import ESTIMATORS
from hvil.learners.objective.fused import can_fuse, fused_objective
from hvil.machine.arrays import Steps


class HvilLearner(nn.Module):
    """Learns procedures and their calls from traces by maximising the ELBO."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.policy_network = PolicyNetwork(config)
        self.posterior = PosteriorNetwork(config, self.policy_network)
        refuse_sparsity_without_columns(self.policy_network, config)

    @property
    def device(self) -> torch.device:
        """Where the networks are."""
        return next(self.parameters()).device

    def loss(self, traces: Traces, rng: np.random.Generator, update: int) -> Loss:
        """One sample of the objective's gradient estimator: summed over a trace's steps, the mean over traces.

        The mean matters: Adam's weight decay is part of the gradient, and against a sum over the batch it is nothing.
        The sparsity penalty is weighed against the batch's summed cost.
        """
        batch = prepare(traces, self.config, self.device)
        context = self.posterior.context(batch)
        weight = entropy_weight(self.config, update)
        estimator = self.config.model.estimator
        if can_fuse(self.policy_network, context):
            walk = self.posterior.walk_compiled(batch, context, rng)
            steps = walk.steps
            total, kl, entropy = fused_objective(
                self.policy_network, self.posterior, batch, context, walk, estimator, weight
            )
        else:
            steps = self.posterior.walk(batch, context, rng)
            terms = elbo_terms(self.policy_network, self.posterior, batch, context, steps)
            total = ESTIMATORS[estimator](terms, weight)
            kl, entropy = torch.stack([terms.kl.detach().sum(), terms.entropy.detach().sum()]).tolist()
        if self.config.model.input_sparsity:
            total = total + self.config.model.input_sparsity * input_sparsity(self.policy_network)
        metrics = {
            "elbo": -kl / len(traces),
            "entropy": entropy / len(traces),
            "entropy_weight": weight,
            "php_steps_per_action": len(steps.row) / len(traces.actions),
        }
        return Loss(total / len(traces), metrics)

    def policy(self) -> ProcedurePolicy:
        """The policy as it is now."""
        return ProcedurePolicy(self.policy_network)

    def terms(self, traces: Traces, rng: np.random.Generator) -> tuple[Steps, Terms]:
        """Sample a call structure of each trace; the steps and their terms, without gradients."""
        with torch.no_grad():
            batch = prepare(traces, self.config, self.device)
            context = self.posterior.context(batch)
            steps = self.posterior.walk(batch, context, rng)
            return steps, elbo_terms(self.policy_network, self.posterior, batch, context, steps)

    def elbo(self, traces: Traces, rng: np.random.Generator) -> float:
        """An estimate of the ELBO, summed over the traces: one sampled call structure each, the divergence analytic."""
        return -float(self.terms(traces, rng)[1].kl.sum())

    def infer(self, traces: Traces, rng: np.random.Generator | None = None) -> Structure:
        """The call structure of each trace: sampled from the posterior, or its most likely step at each turn."""
        with torch.no_grad():
            batch = prepare(traces, self.config, self.device)
            context = self.posterior.context(batch)
            steps = self.posterior.walk(batch, context, rng or np.random.default_rng(0), greedy=rng is None)
            terms = elbo_terms(self.policy_network, self.posterior, batch, context, steps)
        return structure(batch, steps, terms)


def entropy_weight(config: Config, update: int) -> float:
    """The schedule w = w_∞ + (w_0 − w_∞) · decay^⌊update / interval⌋; the paper's has w_∞ = 0."""
    model = config.model
    fallen = model.entropy_decay ** (update // model.entropy_decay_interval)
    return model.entropy_final + (model.entropy_weight - model.entropy_final) * fallen


def refuse_sparsity_without_columns(policy: PolicyNetwork, config: Config) -> None:
    """Input sparsity is about the columns of a first layer."""
    if config.model.input_sparsity and not isinstance(policy.bank, MlpBank):
        raise InputError("input sparsity needs the network mlp: other networks have no input columns")


def input_sparsity(policy: PolicyNetwork) -> Tensor:
    """Group lasso: the sum over procedures and inputs of the norm of the weights that leave the input."""
    assert isinstance(policy.bank, MlpBank)
    # The gradient of a norm at zero is not defined; a column that has become zero may stay there.
    norms: Float[Tensor, "H inputs"] = (policy.bank.weight1.square().sum(dim=2) + 1e-12).sqrt()
    return norms.sum()


def structure(batch: Batch, steps: Steps, terms: Terms) -> Structure:
    """Sampled steps in the form that others read."""
    trace = np.repeat(np.arange(len(batch.rows) - 1), np.diff(steps.offsets))
    return Structure(
        trace,
        steps.row - batch.rows[trace],
        steps.procedure,
        steps.counter,
        steps.last,
        steps.depth,
        steps.choice,
        terms.log_q.numpy(force=True),
    )
