"""Baselines of the score: their equations, the same in all paths; the gradient stays unbiased and gets quieter."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import GRAPHS, enumerated, gradient, make_learner, make_traces, random_sequences
from strategies import graphs_and_actions

from hvil.learners.hvil import HvilLearner
from hvil.learners.naive import naive_loss
from hvil.learners.objective.control_variates import BASELINES, leave_one_out, others
from hvil.learners.objective.elbo import Terms
from hvil.machine.callgraph import CallGraph

PATHS = ("compiled", "readable", "naive")


def loss_and_gradient(learner: HvilLearner, traces: Any, path: str) -> tuple[float, np.ndarray]:
    rng = np.random.default_rng(7)
    loss = naive_loss(learner, traces, rng, 3) if path == "naive" else learner.loss(traces, rng, 3, path=path)  # type: ignore[arg-type]
    return loss.total.item(), gradient(learner, loss.total)


def assert_paths_agree(learner: HvilLearner, traces: Any) -> None:
    value, expected = loss_and_gradient(learner, traces, "naive")
    for path in ("compiled", "readable"):
        ours, gradients = loss_and_gradient(learner, traces, path)
        assert ours == pytest.approx(value, rel=1e-4, abs=1e-4), path
        np.testing.assert_allclose(gradients, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max(), err_msg=path)


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("estimator", ["rao-blackwell", "analytic", "score"])
@pytest.mark.parametrize("samples", [1, 2, 3])
def test_every_path_computes_the_same_gradient(baseline: str, estimator: str, samples: int) -> None:
    graph = GRAPHS["recursive"]
    learner = make_learner(
        graph, baseline=baseline, estimator=estimator, samples=samples, entropy_weight=0.4, annotations="use"
    )
    traces = make_traces(graph, random_sequences(graph, [4, 1, 6]), annotated=0.3)
    assert_paths_agree(learner, traces)


@settings(max_examples=25)
@given(graphs_and_actions(max_length=6), st.integers(0, 10**6), st.integers(1, 3), st.sampled_from(list(BASELINES)))
def test_paths_agree_on_random_call_graphs(
    case: tuple[CallGraph, list[int]], seed: int, samples: int, baseline: str
) -> None:
    graph, actions = case
    traces = make_traces(graph, [actions, actions[:1], *random_sequences(graph, [3], seed)], seed)
    assert_paths_agree(make_learner(graph, seed=seed, samples=samples, baseline=baseline), traces)


def terms_of(costs_at: list[list[tuple[int, float]]], durations: list[int]) -> tuple[torch.Tensor, Terms]:
    """Terms of some walks, each a list of (time, cost)."""
    flat = [pair for walk in costs_at for pair in walk]
    nothing = torch.zeros(len(flat))
    terms = Terms(
        kl=nothing,
        entropy=nothing,
        log_q=nothing,
        log_p=nothing,
        price=nothing,
        annotated=torch.zeros(len(flat), dtype=torch.bool),
        walk=torch.repeat_interleave(torch.tensor([len(walk) for walk in costs_at])),
        time=torch.tensor([time for time, _ in flat]),
        offsets=np.cumsum([0, *(len(walk) for walk in costs_at)]),
        durations=np.array(durations),
    )
    return torch.tensor([cost for _, cost in flat]), terms


def test_leave_one_out_is_the_mean_cost_of_the_other_walks_from_the_same_time_on() -> None:
    walks = [[(0, 1.0), (1, 2.0)], [(0, 10.0), (0, 20.0), (1, 30.0)], [(0, 5.0), (1, 7.0), (1, 9.0)]]
    costs, terms = terms_of(walks, [2])
    expected = [(60 + 21) / 2, (30 + 16) / 2, *[(3 + 21) / 2] * 2, (2 + 16) / 2, (3 + 60) / 2, *[(2 + 30) / 2] * 2]
    torch.testing.assert_close(leave_one_out(costs, terms, terms.time), torch.tensor(expected))
    whole = leave_one_out(costs, terms, torch.zeros_like(terms.time))
    torch.testing.assert_close(whole[1], torch.tensor((60 + 21) / 2))


def test_others_is_the_other_traces_cost_per_time_step_for_the_time_left() -> None:
    costs, terms = terms_of([[(0, 1.0), (1, 2.0)], [(0, 4.0), (1, 5.0), (2, 6.0)]], [2, 3])
    rates = [15 / 3, 3 / 2]
    expected = [rates[0] * 2, rates[0] * 1, rates[1] * 3, rates[1] * 2, rates[1] * 1]
    torch.testing.assert_close(others(costs, terms, terms.time), torch.tensor(expected))
    alone, single = terms_of([[(0, 1.0)]], [1])
    assert others(alone, single, single.time).tolist() == [0.0]


def test_with_one_walk_leave_one_out_is_others() -> None:
    costs, terms = terms_of([[(0, 1.0), (1, 2.0)], [(0, 4.0)]], [2, 1])
    torch.testing.assert_close(leave_one_out(costs, terms, terms.time), others(costs, terms, terms.time))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tree", "recursive", "restricted"])
@pytest.mark.parametrize(
    ("estimator", "baseline", "samples"),
    [
        ("rao-blackwell", "others", 2),
        ("rao-blackwell", "leave-one-out", 2),
        ("rao-blackwell", "leave-one-out", 3),
        ("analytic", "leave-one-out", 2),
        ("score", "others", 2),
    ],
)
def test_the_mean_gradient_is_the_enumerated_one(name: str, estimator: str, baseline: str, samples: int) -> None:
    graph = GRAPHS[name]
    learner = make_learner(graph, estimator=estimator, samples=samples, baseline=baseline, entropy_weight=0.3)
    traces = make_traces(graph, random_sequences(graph, [3, 2], seed=1), seed=1)
    exact = sum(gradient(learner, enumerated(learner, trace, 0.3).objective) for trace in traces) / len(traces)
    rng = np.random.default_rng(0)
    draws = np.stack([gradient(learner, learner.loss(traces, rng, 0).total) for _ in range(1500)])
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    distance = np.abs(draws.mean(axis=0) - exact) / np.maximum(error, 1e-6 * np.abs(exact).max())
    assert (distance < 5.5).all(), f"{distance.max():.1f} standard errors"
    assert np.mean(distance**2) < 2


def test_a_baseline_makes_the_gradient_much_quieter() -> None:
    graph = GRAPHS["tree"]
    traces = make_traces(graph, random_sequences(graph, [30, 25, 20]))
    spreads = {}
    for baseline, samples in (("none", 2), ("others", 2), ("leave-one-out", 2)):
        learner = make_learner(graph, baseline=baseline, samples=samples)
        rng = np.random.default_rng(0)
        draws = np.stack([gradient(learner, learner.loss(traces, rng, 0).total) for _ in range(60)])
        spreads[baseline] = draws.var(axis=0, ddof=1).sum()
    assert spreads["leave-one-out"] < spreads["none"] / 5
    assert spreads["others"] < spreads["none"] / 2
