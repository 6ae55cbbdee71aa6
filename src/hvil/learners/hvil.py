"""HVIL: policy and posterior trained together on sampled call structures (paper, Algorithm 2).

An update has two phases: sample the steps without gradients, then evaluate them with gradients, all at once. The
second has two ways, compiled (`objective.compiled`) and readable (`objective.elbo`, then `objective.estimators`).

Letters: R rows, B context.
"""

from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.config import Config
from hvil.learners.learner import InferredSteps, Loss
from hvil.learners.networks.bank import MlpBank
from hvil.learners.networks.batch import Batch, prepare
from hvil.learners.networks.dispatch import can_compile
from hvil.learners.networks.fields import Fields, fields_of, shrink_fields
from hvil.learners.networks.policy import PolicyNetwork
from hvil.learners.networks.posterior import PosteriorNetwork, Uniforms
from hvil.learners.networks.runner import ProcedurePolicy
from hvil.learners.objective.compiled import can_compile_objective, compiled_objective
from hvil.learners.objective.elbo import Objective, Terms, elbo_terms
from hvil.learners.objective.estimators import ESTIMATORS, estimated
from hvil.machine.steps import Steps, Walk

Path = Literal["auto", "compiled", "readable"]
"""How the objective is computed: compiled where that is possible, always compiled, or always the readable way."""


class HvilLearner(nn.Module):
    """Learns procedures and their calls from traces by maximising the ELBO."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.policy_network = PolicyNetwork(config)
        self.posterior = PosteriorNetwork(config, self.policy_network)
        refuse_sparsity_without_columns(self.policy_network, config)
        self.fields = priced_fields(self.policy_network, config)
        ESTIMATORS[config.model.estimator]  # an unknown name is refused here

    @property
    def device(self) -> torch.device:
        """Where the networks are."""
        return next(self.parameters()).device

    def loss(self, traces: Traces, rng: np.random.Generator, update: int, path: Path = "auto") -> Loss:
        """One sample of the objective's gradient estimator: summed over a walk's steps, the mean over walks.

        The mean matters: Adam's weight decay is part of the gradient, and would be nothing beside a sum over the batch.
        The sparsity penalty is divided by the number of traces too: it is set against the summed cost of a batch.
        """
        samples = self.config.model.samples
        batch = prepare(traces, self.config, self.device)
        context = self.posterior.context(batch)
        uniforms = self.posterior.uniforms(batch, rng, samples)
        weight = entropy_weight(self.config, update)
        steps, objective = self._objective(batch, context, uniforms, weight, path)
        total = objective.loss / samples
        if self.config.model.input_sparsity:
            total = total + self.config.model.input_sparsity * input_sparsity(self.policy_network)
        walks = len(traces) * samples
        metrics = {
            "elbo": -objective.kl / walks,
            "entropy": objective.entropy / walks,
            "entropy_weight": weight,
            "php_steps_per_action": len(steps.row) / samples / len(traces.actions),
        }
        return Loss(total=total / len(traces), metrics=metrics)

    def _objective(
        self,
        batch: Batch,
        context: Float[Tensor, "R B"],
        uniforms: Uniforms,
        weight: float,
        path: Path,
    ) -> tuple[Steps, Objective]:
        """Sample call structures of each trace; their steps, and one sample of the objective from these."""
        policy, posterior = self.policy_network, self.posterior
        estimator, baseline = self.config.model.estimator, self.config.model.baseline
        can_compile_it = can_compile_objective(policy, context, estimator)
        if path == "compiled" and not can_compile_it:
            raise InputError(f"the objective cannot be compiled for this device, network or estimator ({estimator})")
        if can_compile_it and path != "readable":
            walk, evaluated = posterior.walk_compiled(batch, context, uniforms)
            objective = compiled_objective(
                policy, posterior, batch, context, walk, evaluated, estimator, weight, baseline
            )
        else:
            walk = self._walk(batch, context, uniforms)
            terms = elbo_terms(policy, posterior, batch, context, walk)
            objective = estimated(terms, estimator, weight, baseline)
        return walk.steps, objective

    def shrink(self, optimiser: torch.optim.Adam, update: int) -> None:
        """The proximal step of the price of fields, after each step of the optimiser."""
        shrink_policy(self.policy_network, self.fields, self.config, optimiser, update)

    def policy(self) -> ProcedurePolicy:
        """The policy as it is now."""
        return ProcedurePolicy(self.policy_network)

    def terms(self, traces: Traces, rng: np.random.Generator) -> tuple[Steps, Terms]:
        """Sample a call structure of each trace; the steps and their terms, without gradients."""
        return self._sample(traces, rng)

    def elbo(self, traces: Traces, rng: np.random.Generator) -> float:
        """An estimate of the ELBO, summed over the traces: one sampled call structure each, the divergence analytic.

        It is one only if no step comes from an annotation.
        """
        return -float(self.terms(traces, rng)[1].kl.sum())

    def infer(self, traces: Traces, rng: np.random.Generator | None = None) -> InferredSteps:
        """The call structure of each trace: sampled from the posterior, or its most likely step at each turn."""
        steps, terms = self._sample(traces, rng)
        return InferredSteps(steps=steps, log_q=terms.log_q.numpy(force=True))

    @torch.no_grad()
    def _sample(self, traces: Traces, rng: np.random.Generator | None) -> tuple[Steps, Terms]:
        """The steps of a sampled walk, or with no generator of the greedy one, and their terms."""
        batch = prepare(traces, self.config, self.device)
        context = self.posterior.context(batch)
        uniforms = self.posterior.uniforms(batch, rng or np.random.default_rng(0))
        walk = self._walk(batch, context, uniforms, greedy=rng is None)
        return walk.steps, elbo_terms(self.policy_network, self.posterior, batch, context, walk)

    def _walk(self, batch: Batch, context: Float[Tensor, "R B"], uniforms: Uniforms, greedy: bool = False) -> Walk:
        """A walk of the posterior, compiled where that is possible."""
        if can_compile(context):
            return self.posterior.walk_compiled(batch, context, uniforms, greedy)[0]
        return self.posterior.walk_batched(batch, context, uniforms, greedy)


def entropy_weight(config: Config, update: int) -> float:
    """The schedule w = w_∞ + (w_0 − w_∞) · decay^⌊update / interval⌋; the paper's has w_∞ = 0."""
    model = config.model
    fallen = model.entropy_decay ** (update // model.entropy_decay_interval)
    return float(model.entropy_final + (model.entropy_weight - model.entropy_final) * fallen)


def shrink_policy(
    policy: PolicyNetwork, fields: Fields | None, config: Config, optimiser: torch.optim.Adam, update: int
) -> None:
    """Make the policy pay for the fields that its procedures read."""
    model = config.model
    if fields is not None and isinstance(policy.bank, MlpBank):
        ramp = min(1.0, (update + 1) / model.field_sparsity_ramp) if model.field_sparsity_ramp else 1.0
        shrink_fields(policy.bank, fields, optimiser, ramp * model.field_sparsity)


def priced_fields(policy: PolicyNetwork, config: Config) -> Fields | None:
    """The fields that the policy pays for; None if they have no price."""
    paid = config.model.field_sparsity and isinstance(policy.bank, MlpBank)
    return fields_of(config, policy.bank) if paid else None  # type: ignore[arg-type]


def refuse_sparsity_without_columns(policy: PolicyNetwork, config: Config) -> None:
    """Refuse input sparsity for networks whose first layer has no input columns."""
    if (config.model.input_sparsity or config.model.field_sparsity) and not isinstance(policy.bank, MlpBank):
        raise InputError("input sparsity needs the network mlp: other networks have no input columns")


def input_sparsity(policy: PolicyNetwork) -> Tensor:
    """Group lasso: the sum over procedures and inputs of the norm of the weights that leave the input."""
    assert isinstance(policy.bank, MlpBank)
    # A norm has no gradient at 0; with the small number added, a column that has become zero may stay there.
    norms: Float[Tensor, "H inputs"] = (policy.bank.weight1.square().sum(dim=2) + 1e-12).sqrt()
    return norms.sum()
