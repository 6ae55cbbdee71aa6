"""How far a learned posterior is from the exact one: log p(x), the ELBO and KL[q ‖ posterior] of each trace.

The likelihood comes from `hvil.learners.exact`, samples and their terms from the learner.

Letters: N traces, M samples.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float

from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.config import Config
from hvil.learners.exact import inference as exact
from hvil.learners.exact.cost import Limits
from hvil.learners.exact.objective import evaluated
from hvil.learners.exact.step_table import refuse_costly
from hvil.learners.exact_learner import ExactLearner
from hvil.learners.learner import InfersStructure, Learner
from hvil.learners.networks.policy import PolicyNetwork
from hvil.learners.objective.elbo import Terms
from hvil.machine.steps import Steps

ACTIONS_AT_ONCE = 20_000
"""So many actions of copies of a trace are sampled together; their context and steps take tens of megabytes."""


class Gap(NamedTuple):
    """The two sides of log p(x) − ELBO = KL[q ‖ posterior] for each trace; they are equal in expectation."""

    log_likelihood: Float[np.ndarray, "N"]
    """log p(x), exact."""
    elbo: Float[np.ndarray, "N"]
    """−E_q[Σ_i D[q(u_i|·) ‖ p(u_i|·)]], the mean over samples from q."""
    elbo_error: Float[np.ndarray, "N"]
    """Its standard error."""
    posterior_kl: Float[np.ndarray, "N"]
    """E_q[log q(z|x) − log p(z|x)], the mean over other samples from q."""
    posterior_kl_error: Float[np.ndarray, "N"]
    """Its standard error."""
    most_likely: Bool[np.ndarray, "N"]
    """Whether q's greedy call structure is the most likely one."""


@runtime_checkable
class SamplesTerms(InfersStructure, Protocol):
    """A learner with a policy network and a posterior from which it samples, such as HVIL."""

    config: Config
    if TYPE_CHECKING:  # since Python 3.12 `isinstance` does not see the modules of a torch module
        policy_network: PolicyNetwork

    def terms(self, traces: Traces, rng: np.random.Generator) -> tuple[Steps, Terms]:
        """A sampled call structure of each trace, and the terms of its steps."""


def exact_report(learner: Learner, traces: Traces, samples: int, rng: np.random.Generator) -> dict[str, Any]:
    """The gap of a learner with procedures as `hvil evaluate --exact` reports it: means, and numbers of each trace."""
    if isinstance(learner, ExactLearner):
        gap = _no_gap(learner, traces)
    elif isinstance(learner, SamplesTerms):
        gap = elbo_gap(learner, traces, samples, rng)
    else:
        raise InputError("exact inference needs a run with procedures: one of hvil or exact")
    means = {name: float(getattr(gap, name).mean()) for name in ("log_likelihood", "elbo", "posterior_kl")}
    return {
        **means,
        "posterior_most_likely": float(gap.most_likely.mean()),
        "exact": {"samples": samples, **{name: column.tolist() for name, column in gap._asdict().items()}},
    }


def _no_gap(learner: ExactLearner, traces: Traces) -> Gap:
    """The gap of the exact learner: none, because its posterior is the exact one (within its limits)."""
    refuse_costly(learner.config.graph, traces, learner.limits)
    with torch.no_grad():
        values = np.array([exact.log_likelihood(*learner.evaluated(trace)).item() for trace in traces])
    zeros = np.zeros(len(traces))
    return Gap(
        log_likelihood=values,
        elbo=values,
        elbo_error=zeros,
        posterior_kl=zeros,
        posterior_kl_error=zeros,
        most_likely=np.ones(len(traces), dtype=bool),
    )


def elbo_gap(
    learner: SamplesTerms, traces: Traces, samples: int, rng: np.random.Generator, limits: Limits | None = None
) -> Gap:
    """Measure the gap: half of the samples of each trace estimate the ELBO, the others the divergence."""
    if samples < 4:
        raise InputError(f"the gap needs at least 4 samples of each trace, not {samples}")
    limits = limits or Limits()
    if limits.leave_out:
        raise InputError("the gap needs the likelihood over all call structures; give no longest span or counter")
    refuse_costly(learner.config.graph, traces, limits)
    return _joined([_gap_of_trace(learner, trace, samples, rng, limits) for trace in traces])


def _joined(gaps: Sequence[Gap]) -> Gap:
    return Gap._make(np.concatenate(column) for column in zip(*gaps, strict=True))


def _gap_of_trace(learner: SamplesTerms, trace: Traces, samples: int, rng: np.random.Generator, limits: Limits) -> Gap:
    with torch.no_grad():
        table, log_probs = evaluated(learner.policy_network, trace, learner.config, limits)
    log_likelihood = exact.log_likelihood(table, log_probs).numpy(force=True)
    costs, log_ratios = _sampled(learner, trace, samples, rng)
    elbo, divergence = -costs[: samples // 2], log_ratios[samples // 2 :] + log_likelihood
    best = exact.viterbi(table, log_probs).steps.choice
    return Gap(
        log_likelihood=log_likelihood,
        elbo=np.array([elbo.mean()]),
        elbo_error=np.array([_standard_error(elbo)]),
        posterior_kl=np.array([divergence.mean()]),
        posterior_kl_error=np.array([_standard_error(divergence)]),
        most_likely=np.array([np.array_equal(learner.infer(trace).steps.choice, best)]),
    )


def _sampled(
    learner: SamplesTerms, trace: Traces, samples: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "M"], Float[np.ndarray, "M"]]:
    """The sum of the analytic divergences of each sampled structure, and its log q(z|x) − log p(z, x)."""
    costs: list[Float[np.ndarray, "_"]] = []
    ratios: list[Float[np.ndarray, "_"]] = []
    at_once = max(1, ACTIONS_AT_ONCE // len(trace.actions))
    for start in range(0, samples, at_once):
        _, terms = learner.terms(trace[np.zeros(min(at_once, samples - start), dtype=np.int64)], rng)
        for values, into in ((terms.kl, costs), (terms.log_q - terms.log_p, ratios)):
            into.append(np.add.reduceat(values.double().numpy(force=True), terms.offsets[:-1]))
    return np.concatenate(costs), np.concatenate(ratios)


def _standard_error(values: Float[np.ndarray, "K"]) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))
