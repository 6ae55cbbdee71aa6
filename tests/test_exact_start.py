"""The exact start of HVIL and the price of long procedures, against enumeration of every call structure."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import GRAPHS, as_walk, enumerate_structures, gradient, make_learner, make_traces, random_sequences
from strategies import graphs_and_actions

from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.exact.objective import exact_objective
from hvil.learners.hvil import HvilLearner
from hvil.learners.naive import naive_loss
from hvil.learners.networks.batch import prepare
from hvil.learners.networks.simplicity import step_prices
from hvil.learners.objective.elbo import Terms, elbo_terms
from hvil.learners.settings import TrainingSettings
from hvil.machine.callgraph import CallGraph
from hvil.training.checkpoints import Checkpoints
from hvil.training.loop import Hooks, train

PRICE = 0.2


def all_structures(learner: HvilLearner, trace: Traces) -> Terms:
    """Every call structure of one trace, a walk each, with p and q evaluated at its steps."""
    graph = learner.config.graph
    structures = list(enumerate_structures(learner, trace))
    walk = as_walk(graph, [*trace.actions.tolist(), graph.terminate], structures)
    batch = prepare(trace[[0] * len(structures)], learner.config, learner.device)
    context = learner.posterior.context(prepare(trace, learner.config, learner.device)).repeat(len(structures), 1)
    prices = step_prices(learner.config.model, walk.steps.counter)
    return elbo_terms(learner.policy_network, learner.posterior, batch, context, walk, prices)


def of_walks(terms: Terms, values: torch.Tensor) -> torch.Tensor:
    return torch.zeros(len(terms.offsets) - 1, dtype=torch.float64).index_add(0, terms.walk, values.double())


def enumerated_minimum(learner: HvilLearner, traces: Traces, weight: float) -> torch.Tensor:
    """Σ_x −(1 + w) log Σ_z (p(z, x) e^{−λΣf(τ)})^{1/(1 + w)}, with its gradient."""
    total = torch.zeros((), dtype=torch.float64)
    for trace in traces:
        terms = all_structures(learner, trace)
        exponents = (of_walks(terms, terms.log_p) - of_walks(terms, terms.price)) / (1 + weight)
        total = total - (1 + weight) * torch.logsumexp(exponents, 0)
    return total


@settings(max_examples=25)
@given(
    graphs_and_actions(max_length=3, max_procedures=3, max_depth=3),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.5, -0.1]),
)
def test_the_exact_objective_with_a_price_is_the_minimum_over_all_structures(
    case: tuple[CallGraph, list[int]], seed: int, weight: float
) -> None:
    graph, actions = case
    traces = make_traces(graph, [actions, *random_sequences(graph, [2], seed)], seed)
    learner = make_learner(graph, seed=seed, length_price=PRICE)
    ours = exact_objective(learner.policy_network, traces, learner.config, weight)
    wanted = enumerated_minimum(learner, traces, weight)
    assert ours.loss.item() == pytest.approx(wanted.item(), rel=1e-4, abs=1e-4)
    expected = gradient(learner, wanted)
    np.testing.assert_allclose(
        gradient(learner, ours.loss), expected, rtol=1e-3, atol=1e-4 * max(1, np.abs(expected).max())
    )


def test_the_elbo_of_the_best_posterior_is_log_p_without_price_and_entropy() -> None:
    graph = GRAPHS["recursive"]
    traces = make_traces(graph, random_sequences(graph, [3, 2]))
    learner = make_learner(graph)
    ours = exact_objective(learner.policy_network, traces, learner.config, 0.0)
    likelihood = -enumerated_minimum(learner, traces, 0.0).item()
    assert ours.log_joint + ours.entropy == pytest.approx(likelihood, rel=1e-5)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_posterior_network_knows_the_probability_of_given_steps(name: str) -> None:
    graph = GRAPHS[name]
    trace = make_traces(graph, random_sequences(graph, [3]))
    learner = make_learner(graph)
    terms = all_structures(learner, trace)
    structures = list(enumerate_structures(learner, trace))
    walk = as_walk(graph, [*trace.actions.tolist(), graph.terminate], structures)
    batch = prepare(trace[[0] * len(structures)], learner.config, learner.device)
    context = learner.posterior.context(prepare(trace, learner.config, learner.device)).repeat(len(structures), 1)
    ours = learner.posterior.log_prob(batch, context, walk.steps)
    assert ours.sum().item() == pytest.approx(terms.log_q.sum().item(), rel=1e-5)
    log_q = of_walks(terms, terms.log_q)
    assert log_q.exp().sum().item() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_the_start_trains_the_policy_on_the_sum_and_the_posterior_on_samples_of_it(weight: float) -> None:
    graph = GRAPHS["recursive"]
    traces = make_traces(graph, random_sequences(graph, [3, 2]))
    learner = make_learner(graph, exact_start=5, length_price=PRICE, entropy_weight=weight, samples=2)
    loss = learner.loss(traces, np.random.default_rng(0), 0).total
    policy = list(learner.policy_network.parameters())
    ours = torch.autograd.grad(loss, policy, retain_graph=True)
    wanted = torch.autograd.grad(enumerated_minimum(learner, traces, weight) / len(traces), policy)
    for one, other in zip(ours, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
    # The mean gradient of q over many samples is that of −E_z[log q(z|x)] under the best posterior.
    expected = torch.zeros((), dtype=torch.float64)
    for trace in traces:
        terms = all_structures(learner, trace)
        exponents = (of_walks(terms, terms.log_p) - of_walks(terms, terms.price)).detach() / (1 + weight)
        expected = expected - (torch.softmax(exponents, 0) * of_walks(terms, terms.log_q)).sum() / len(traces)
    aim = gradient_of_q(learner, expected)
    rng = np.random.default_rng(1)
    draws = np.stack([gradient_of_q(learner, learner.loss(traces, rng, 0).total) for _ in range(400)])
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    moving = error > 1e-8
    assert np.mean(((draws.mean(axis=0) - aim)[moving] / error[moving]) ** 2) < 2
    np.testing.assert_allclose(draws.mean(axis=0)[~moving], aim[~moving], atol=1e-6)


def gradient_of_q(learner: HvilLearner, value: torch.Tensor) -> np.ndarray:
    parts = torch.autograd.grad(value, list(learner.posterior.parameters()), allow_unused=True, materialize_grads=True)
    return torch.cat([part.flatten() for part in parts]).double().numpy()


@settings(max_examples=20)
@given(
    graphs_and_actions(max_length=6),
    st.integers(0, 10**6),
    st.integers(1, 3),
    st.sampled_from(["rao-blackwell", "analytic", "score"]),
)
def test_the_price_of_long_procedures_is_the_same_in_all_paths(
    case: tuple[CallGraph, list[int]], seed: int, samples: int, estimator: str
) -> None:
    graph, actions = case
    traces = make_traces(graph, [actions, actions[:1], *random_sequences(graph, [3], seed)], seed)
    learner = make_learner(
        graph, seed=seed, samples=samples, estimator=estimator, baseline="leave-one-out", length_price=PRICE
    )
    value = naive_loss(learner, traces, np.random.default_rng(7), 3).total
    expected = gradient(learner, value)
    for path in ("compiled", "readable"):
        loss = learner.loss(traces, np.random.default_rng(7), 3, path=path).total  # type: ignore[arg-type]
        assert loss.item() == pytest.approx(value.item(), rel=1e-4, abs=1e-4), path
        np.testing.assert_allclose(
            gradient(learner, loss), expected, rtol=1e-3, atol=1e-4 * max(1e-3, np.abs(expected).max()), err_msg=path
        )


TREE = GRAPHS["tree"]
LENGTHS = [1, 2, 3, 9, 2, 8, 1]


class Watched(HvilLearner):
    """Keeps the lengths of the traces of each update."""

    def loss(self, traces: Traces, rng: np.random.Generator, update: int, **rest: Any) -> Any:
        self.seen = [*getattr(self, "seen", []), traces.lengths.tolist()]
        return super().loss(traces, rng, update, **rest)


def watched(**more: Any) -> Watched:
    torch.manual_seed(0)
    return Watched(make_learner(TREE, exact_start=6, exact_length=3, **more).config)


def test_only_short_traces_are_drawn_at_the_start() -> None:
    traces, learner = make_traces(TREE, random_sequences(TREE, LENGTHS)), watched()
    train(learner, traces, TrainingSettings(updates=20, batch_size=6, curriculum=12))
    assert all(max(lengths) <= 3 and len(lengths) == 5 for lengths in learner.seen[:6])
    assert any(max(lengths) == 9 for lengths in learner.seen[12:])


def test_a_run_that_pauses_in_its_exact_start_ends_with_the_same_bits(tmp_path: Path) -> None:
    traces = make_traces(TREE, random_sequences(TREE, LENGTHS))
    training = TrainingSettings(updates=10, batch_size=2, curriculum=8)
    whole, halved = watched(samples=2), watched(samples=2)
    train(whole, traces, training)
    for until in (3, 7, None):
        hooks = Hooks(checkpoints=Checkpoints(tmp_path / "checkpoint", {}))
        train(halved, traces, training, hooks, resume=True, until=until)
    for one, other in zip(whole.parameters(), halved.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_a_start_that_cannot_be_is_refused() -> None:
    traces = make_traces(TREE, random_sequences(TREE, [4, 5]))
    with pytest.raises(InputError, match="no trace has at most 3 actions"):
        train(watched(), traces, TrainingSettings(updates=2, batch_size=2))
    config = make_learner(TREE).config
    with pytest.raises(InputError, match="cannot use annotations"):
        HvilLearner(replace(config, model=replace(config.model, exact_start=3, annotations="use")))
