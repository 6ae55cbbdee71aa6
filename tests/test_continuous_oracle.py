"""Continuous actions: compiled, readable and naive objective agree, and exact inference equals enumeration."""

from typing import Any

import numpy as np
import pytest
import torch
from continuous import GRAPHS, joint, joints, vector_learner, vector_traces
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import assert_unbiased, enumerated, gradient, random_annotations

from hvil.learners.exact import inference
from hvil.learners.exact.objective import evaluated, exact_objective
from hvil.learners.objective.estimators import ESTIMATORS
from test_hvil_oracle import assert_equals_naive_twin


@pytest.mark.parametrize("estimator", ESTIMATORS.names())
@pytest.mark.parametrize("name", GRAPHS)
def test_loss_and_gradient_equal_the_naive_twin(name: str, estimator: str) -> None:
    traces = vector_traces([4, 1, 3])
    assert_equals_naive_twin(vector_learner(GRAPHS[name], traces, estimator=estimator), traces)


@pytest.mark.parametrize(
    "options",
    [
        {"action_mean": "network"},
        {"samples": 3, "baseline": "leave-one-out"},
        {"baseline": "others", "length_price": 0.7},
        {"frame_inputs": "none"},
        {"counter": "hot2+4/2"},
        {"posterior_sees": "no-future"},
        {"action_noise": 0.8},
    ],
    ids=lambda options: ",".join(map(str, options.values())),
)
def test_every_option_equals_the_naive_twin(options: dict[str, Any]) -> None:
    traces = vector_traces([4, 2])
    assert_equals_naive_twin(vector_learner(GRAPHS["recursive"], traces, **options), traces)


@pytest.mark.parametrize("annotated", [0.5, 1.0])
def test_annotated_traces_equal_the_naive_twin(annotated: float) -> None:
    graph, lengths = GRAPHS["options"], [4, 3]
    annotations = random_annotations(graph, [[0] * n for n in lengths], np.random.default_rng(0), annotated)
    traces = vector_traces(lengths, annotations=annotations)
    assert_equals_naive_twin(vector_learner(graph, traces, annotations="use"), traces)


def test_the_compiled_path_is_the_one_that_is_taken() -> None:
    traces = vector_traces([3])
    learner = vector_learner(GRAPHS["tree"], traces)
    auto, compiled = (
        learner.loss(traces, np.random.default_rng(0), 0, path=path).total.item() for path in ("auto", "compiled")
    )
    assert auto == compiled


@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.sampled_from(sorted(GRAPHS)), st.integers(1, 3), st.booleans(), st.integers(0, 10**6))
def test_exact_likelihood_and_gradient_equal_enumeration(name: str, length: int, equal: bool, seed: int) -> None:
    """With equal observations only the vectors tell the rows of the step table apart."""
    traces = vector_traces([length, 1], seed=seed, equal=equal)
    learner = vector_learner(GRAPHS[name], traces, seed=seed % 1000)
    table, log_probs = evaluated(learner.policy_network, traces, learner.config)
    exact = inference.log_likelihood(table, log_probs)
    wanted = torch.stack([joints(learner, trace).logsumexp(0) for trace in traces])
    torch.testing.assert_close(exact, wanted, rtol=1e-5, atol=1e-4)
    ours, theirs = gradient(learner, exact.sum()), gradient(learner, wanted.sum())
    assert np.linalg.norm(ours - theirs) < 1e-4 * max(np.linalg.norm(theirs), 1)


def test_the_most_likely_structure_is_that_of_enumeration() -> None:
    traces = vector_traces([2])
    learner = vector_learner(GRAPHS["recursive"], traces)
    table, log_probs = evaluated(learner.policy_network, traces, learner.config)
    best = inference.viterbi(table, log_probs)
    every = joints(learner, traces)
    assert best.log_joint.item() == pytest.approx(every.max().item(), rel=1e-5)
    assert joint(learner, traces, best.steps.choice.tolist()).item() == pytest.approx(every.max().item(), rel=1e-5)


@pytest.mark.parametrize(("weight", "price"), [(0.0, 0.0), (0.5, 0.0), (0.3, 0.8)])
def test_the_exact_objective_is_the_minimum_over_posteriors(weight: float, price: float) -> None:
    """−(1 + w) log Σ (p e^{−price})^{1/(1+w)} by enumeration; no posterior network does better."""
    traces = vector_traces([2])
    learner = vector_learner(GRAPHS["recursive"], traces, length_price=price, entropy_weight=weight)
    objective = exact_objective(learner.policy_network, traces, learner.config, weight)
    structures = enumerated(learner, traces, weight)
    prices = torch.zeros_like(structures.costs).index_add(0, structures.terms.walk, structures.terms.price.double())
    minimum = -(1 + weight) * ((joints(learner, traces) - prices) / (1 + weight)).logsumexp(0)
    assert objective.loss.item() == pytest.approx(minimum.item(), rel=1e-4)
    assert structures.objective.item() >= minimum.item() - 1e-4


def test_the_elbo_is_below_the_likelihood_by_the_divergence() -> None:
    traces = vector_traces([3])
    learner = vector_learner(GRAPHS["options"], traces)
    structures = enumerated(learner, traces, 0.0)
    log_p, log_q = joints(learner, traces), structures.log_q
    elbo = -structures.objective.item()
    gap = (log_q.exp() * (log_q - (log_p - log_p.logsumexp(0)))).sum().item()
    assert gap > 0
    assert elbo == pytest.approx(log_p.logsumexp(0).item() - gap, rel=1e-4)


def test_mean_gradient_is_the_gradient_of_the_expected_cost() -> None:
    traces = vector_traces([3])
    learner = vector_learner(GRAPHS["recursive"], traces, seed=1, entropy_weight=0.7, action_noise=0.5)
    exact = gradient(learner, enumerated(learner, traces, 0.7).objective)
    assert_unbiased(learner, traces, exact, copies=300)
