"""HVIL: policy and posterior trained together on sampled call structures (paper, Algorithm 2).

An update has two phases: sample the steps without gradients, then evaluate them with gradients, all at once. The
second has two ways, compiled (`objective.compiled`) and readable (`objective.elbo`, then `objective.estimators`).

With an exact start, the first updates are on short traces alone and sum over their call structures (`exact.objective`).
Which procedure does what is decided there: a sampled posterior soon stops trying procedures that it has rarely used,
a sum over all structures never does.

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
from hvil.learners.exact.objective import exact_metrics, exact_objective
from hvil.learners.learner import InferredSteps, Loss, Start
from hvil.learners.networks.batch import Batch, prepare
from hvil.learners.networks.curvature import bends
from hvil.learners.networks.dispatch import can_compile
from hvil.learners.networks.policy import PolicyNetwork
from hvil.learners.networks.posterior import PosteriorNetwork, Uniforms
from hvil.learners.networks.runner import ProcedurePolicy
from hvil.learners.networks.simplicity import (
    description_length,
    input_price,
    priced_fields,
    prune,
    refuse_sparsity_without_columns,
    shrink_policy,
    step_prices,
)
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
        if config.model.exact_start and config.model.uses_annotations:
            raise InputError("an exact start sums over all call structures and cannot use annotations")
        self.fields = priced_fields(self.policy_network, config)
        self.bends = bends(config)
        ESTIMATORS[config.model.estimator]  # an unknown name is refused here

    @property
    def device(self) -> torch.device:
        """Where the networks are."""
        return next(self.parameters()).device

    def first_weights(self, traces: Traces, rng: np.random.Generator) -> None:
        """Linear laws of continuous actions that fit the traces, unless annotations say which procedure acts."""
        if self.config.actions is not None and self.config.model.fits_first_laws:
            self.policy_network.first_laws(prepare(traces, self.config, self.device), rng)

    def loss(self, traces: Traces, rng: np.random.Generator, update: int, path: Path = "auto") -> Loss:
        """One sample of the objective's gradient estimator: summed over a walk's steps, the mean over walks.

        The mean matters: Adam's weight decay is part of the gradient, and would be nothing beside a sum over the batch.
        The sparsity penalty is divided by the number of traces too: it is set against the summed cost of a batch.
        """
        if update < self.config.model.exact_start:
            return self._exact_loss(traces, rng, update)
        samples = self.config.model.samples
        batch = prepare(traces, self.config, self.device)
        context = self.posterior.context(batch)
        uniforms = self.posterior.uniforms(batch, rng, samples)
        weight = self.config.model.entropy_weight_at(update)
        steps, objective = self._objective(batch, context, uniforms, weight, path)
        total = objective.loss / samples
        total = total + input_price(self.policy_network, self.config.model, self.bends)
        walks = len(traces) * samples
        metrics = {
            "elbo": -objective.kl / walks,
            "entropy": objective.entropy / walks,
            "entropy_weight": weight,
            "php_steps_per_action": len(steps.row) / samples / len(traces.actions),
        }
        return Loss(total=total / len(traces), metrics=metrics)

    def merit(self, traces: Traces, update: int) -> float:
        """Minus the description length of a trace: its ELBO less its share of what it takes to say what is read.

        In the exact start, where the weights are far from sparse, it is the ELBO of the short traces under the best
        posterior. The price of long procedures is left out: it leads the search to structures, but which of them is
        right shows in how well it fits the traces, and in how little it reads.
        """
        if self.start is not None and update <= self.start.updates:
            short = traces[np.flatnonzero(traces.lengths <= self.start.longest)]
            with torch.no_grad():
                objective = exact_objective(self.policy_network, short, self.config, 0.0)
            return objective.elbo / len(short)
        length = description_length(self.policy_network, self.config, traces)
        return (self.elbo(traces, np.random.default_rng(0)) - length) / len(traces)

    def finish(self, traces: Traces) -> None:
        """Prune what is not needed, if the settings say so."""
        if self.config.model.prune:
            prune(self.policy_network, self.config, traces)

    @property
    def start(self) -> Start | None:
        """The exact start, if there is one."""
        model = self.config.model
        return Start(updates=model.exact_start, longest=model.exact_length) if model.exact_start else None

    def _exact_loss(self, traces: Traces, rng: np.random.Generator, update: int) -> Loss:
        """The objective at its best posterior, and how much the posterior network differs from that: −E[log q(z|x)].

        Inputs have no price yet: procedures that are not in use are the cheapest ones, and would stay so.
        """
        model = self.config.model
        weight = model.entropy_weight_at(update)
        objective = exact_objective(self.policy_network, traces, self.config, weight, keep_tables=True)
        structures = objective.posterior.sample(model.samples, rng)
        batch = prepare(traces, self.config, self.device)
        log_q = self.posterior.log_prob(batch, self.posterior.context(batch), structures.steps)
        total = objective.loss - log_q.sum() / model.samples
        return Loss(total=total / len(traces), metrics=exact_metrics(objective, traces, weight))

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
            prices = step_prices(self.config.model, walk.steps.counter)
            objective = compiled_objective(
                policy, posterior, batch, context, walk, evaluated, estimator, weight, baseline, prices
            )
        else:
            walk = self._walk(batch, context, uniforms)
            objective = estimated(self._terms(batch, context, walk), estimator, weight, baseline)
        return walk.steps, objective

    def shrink(self, optimiser: torch.optim.Adam, update: int) -> None:
        """The proximal step of the price of fields, after each step of the optimiser; not in an exact start."""
        since_start = update - self.config.model.exact_start
        if since_start >= 0:
            shrink_policy(self.policy_network, self.fields, self.config, optimiser, since_start)

    def policy(self) -> ProcedurePolicy:
        """The policy as it is now."""
        return ProcedurePolicy(self.policy_network)

    def terms(self, traces: Traces, rng: np.random.Generator) -> tuple[Steps, Terms]:
        """Sample a call structure of each trace; the steps and their terms, without gradients."""
        return self._sample(traces, rng)

    def elbo(self, traces: Traces, rng: np.random.Generator) -> float:
        """An estimate of the ELBO, summed over the traces: one sampled call structure each, the divergence analytic.

        It is one only if no step comes from an annotation. Densities of continuous actions are in the data's units.
        """
        scale = self.config.actions
        volume = 0.0 if scale is None else scale.log_volume * len(traces.actions)
        return -float(self.terms(traces, rng)[1].kl.sum()) - volume

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
        return walk.steps, self._terms(batch, context, walk)

    def _terms(self, batch: Batch, context: Float[Tensor, "R B"], walk: Walk) -> Terms:
        prices = step_prices(self.config.model, walk.steps.counter)
        return elbo_terms(self.policy_network, self.posterior, batch, context, walk, prices)

    def _walk(self, batch: Batch, context: Float[Tensor, "R B"], uniforms: Uniforms, greedy: bool = False) -> Walk:
        """A walk of the posterior, compiled where that is possible."""
        if can_compile(context):
            return self.posterior.walk_compiled(batch, context, uniforms, greedy)[0]
        return self.posterior.walk_batched(batch, context, uniforms, greedy)
