"""HVIL against its naive twin on the same sampled steps, and against enumeration of every call structure."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import GRAPHS, assert_unbiased, enumerated, gradient, make_learner, make_traces, random_sequences
from strategies import graphs_and_actions
from torch import Tensor

from hvil.data.tasks import find_task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.config import Config
from hvil.learners.hvil import HvilLearner
from hvil.learners.naive import feature_rows, naive_loss, posterior_contexts
from hvil.learners.networks.bank import MlpBank
from hvil.learners.networks.batch import prepare
from hvil.learners.objective.estimators import ESTIMATORS, analytic_costs, sampled_costs
from hvil.learners.settings import HvilSettings
from hvil.machine import reference
from hvil.machine.callgraph import CallGraph, call_graph


def assert_equals_naive_twin(learner: HvilLearner, traces: Traces, update: int = 3) -> None:
    """Both ways to compute the loss: the one that is chosen (compiled, where it can be) and the readable one."""
    naive = naive_loss(learner, traces, np.random.default_rng(5), update)
    fast = learner.loss(traces, np.random.default_rng(5), update)
    assert fast.metrics == pytest.approx(naive.metrics, rel=1e-4)
    named = dict(learner.named_parameters())
    wanted = gradients(learner, naive.total)
    readable = learner.loss(traces, np.random.default_rng(5), update, path="readable")
    for path, total in (("auto", fast.total), ("readable", readable.total)):
        assert total.item() == pytest.approx(naive.total.item(), rel=1e-4), path
        for name, ours, theirs in zip(named, gradients(learner, total), wanted, strict=True):
            error = (ours - theirs).norm() / theirs.norm().clamp(min=1e-3)
            assert error < 1e-4, f"{path}: gradient of {name}, relative difference {error:.1e}"


def gradients(learner: HvilLearner, value: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(value, list(learner.parameters()), allow_unused=True, materialize_grads=True)


@pytest.mark.parametrize("estimator", ESTIMATORS.names())
@pytest.mark.parametrize("name", GRAPHS)
def test_loss_and_gradient_equal_the_naive_twin(name: str, estimator: str) -> None:
    graph = GRAPHS[name]
    learner = make_learner(graph, estimator=estimator, entropy_decay_interval=2)
    assert_equals_naive_twin(learner, make_traces(graph, random_sequences(graph, [5, 1, 3])))


@pytest.mark.parametrize(
    "options",
    [
        {"frame_inputs": "both", "counter": "raw+hot2"},
        {"counter": "4/2+step3+hot1"},
        {"counter": "20/10"},
        {"frame_inputs": "counter"},
        {"frame_inputs": "counter", "counter": "hot1"},
        {"frame_inputs": "last"},
        {"frame_inputs": "none"},
        {"posterior_sees": "no-future"},
        {"posterior_sees": "no-final"},
        {"input_sparsity": 0.3},
        {"entropy_weight": 0.0},
    ],
    ids=lambda options: ",".join(map(str, options.values())),
)
def test_every_option_equals_the_naive_twin(options: dict[str, Any]) -> None:
    graph = GRAPHS["recursive"]
    assert_equals_naive_twin(make_learner(graph, **options), make_traces(graph, random_sequences(graph, [4, 2])))


def test_the_price_of_curvature_equals_the_naive_twin() -> None:
    graph = GRAPHS["recursive"]
    names = ("cell=2", "cell=1", "wall", "cell=3", "cell=4")
    learner = make_learner(graph, (len(names),), names=names, curvature_price=0.7)
    assert_equals_naive_twin(learner, make_traces(graph, random_sequences(graph, [4, 2]), shape=(len(names),)))


@pytest.mark.parametrize("estimator", ESTIMATORS.names())
@pytest.mark.parametrize("annotated", [0.5, 1.0])
def test_annotated_traces_equal_the_naive_twin(annotated: float, estimator: str) -> None:
    graph = GRAPHS["restricted"]
    traces = make_traces(graph, random_sequences(graph, [5, 3, 4]), annotated=annotated)
    assert_equals_naive_twin(make_learner(graph, annotations="use", estimator=estimator), traces)


@pytest.mark.parametrize(
    ("network", "encoder"), [("convnet", "separate"), ("convnet", "shared"), ("convnet-early", "separate")]
)
def test_images_equal_the_naive_twin(network: str, encoder: str) -> None:
    graph, shape = GRAPHS["tree"], (16, 16)
    learner = make_learner(graph, shape, network=network, encoder=encoder)
    pixels = make_traces(graph, [[0, 1], [1]], shape=shape)
    traces = Traces(
        (np.abs(pixels.observations) * 80).clip(0, 255).astype(np.uint8),
        pixels.actions,
        pixels.offsets,
        pixels.action_names,
    )
    assert_equals_naive_twin(learner, traces)


@pytest.mark.parametrize("network", ["mlp", "convnet"])
def test_leaves_in_open_loop_equal_the_naive_twin(network: str) -> None:
    graph, shape = GRAPHS["tree"], (16, 16)
    learner = make_learner(graph, shape, network=network, open_loop_leaves=True)
    assert_equals_naive_twin(learner, make_traces(graph, [[0, 1, 1], [1]], shape=shape))


def test_a_leaf_in_open_loop_stays_blind_while_it_learns() -> None:
    graph = GRAPHS["tree"]
    leaves = [h for h, calls in enumerate(graph.calls) if not calls]
    learner = make_learner(graph, open_loop_leaves=True, input_sparsity=0.1)
    optimiser = torch.optim.Adam(learner.parameters(), lr=0.1, weight_decay=0.1)
    for update in range(3):
        learner.loss(make_traces(graph, [[0, 1, 1], [1]]), np.random.default_rng(0), update).total.backward()
        optimiser.step()
    bank = learner.policy_network.bank
    assert isinstance(bank, MlpBank)
    from_features = bank.weight1[:, : bank.features].abs().sum(dim=(1, 2))
    assert [h for h, size in enumerate(from_features) if size == 0] == leaves


def test_leaves_in_open_loop_need_somebody_who_sees() -> None:
    with pytest.raises(InputError, match="open-loop leaves need a root that calls"):
        make_learner(call_graph("tree:5x1", ("left", "right")), open_loop_leaves=True)


def test_a_task_of_real_size_equals_the_naive_twin() -> None:
    source = find_task("bubblesort:3-4")
    traces = source.demonstrations(2, seed=0)
    config = Config.of(traces, source.default_call_graph, HvilSettings(input_sparsity=0.03))
    torch.manual_seed(0)
    assert_equals_naive_twin(HvilLearner(config), traces)


def test_huge_observations_saturate_as_in_torch() -> None:
    graph = GRAPHS["tree"]
    learner = make_learner(graph)
    small = make_traces(graph, random_sequences(graph, [5, 2]))
    for scale in (1e2, 1e4):
        traces = replace(small, observations=small.observations * np.float32(scale))
        context = learner.posterior.context(prepare(traces, learner.config, learner.device))
        parts = [posterior_contexts(learner, trace, feature_rows(learner, trace)) for trace in traces]
        torch.testing.assert_close(context, torch.cat(parts), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["policy_network.bank.weight2", "posterior.bank.bias1", "posterior.past.weight_hh_l0"])
def test_a_weight_that_is_not_a_number_shows_in_the_loss(name: str) -> None:
    graph = GRAPHS["tree"]
    learner = make_learner(graph)
    with torch.no_grad():
        learner.get_parameter(name).fill_(torch.nan)
    loss = learner.loss(make_traces(graph, random_sequences(graph, [5, 5])), np.random.default_rng(0), 0)
    assert not torch.isfinite(loss.total)


def test_input_sparsity_is_refused_where_there_are_no_columns() -> None:
    with pytest.raises(InputError, match="input sparsity needs the network mlp"):
        make_learner(GRAPHS["tree"], (16, 16), network="convnet", input_sparsity=0.1)


def test_a_shared_encoder_is_one_network() -> None:
    separate, shared = (
        make_learner(GRAPHS["tree"], (16, 16), network="convnet", encoder=encoder) for encoder in ("separate", "shared")
    )
    names = [name for name, _ in shared.named_parameters()]
    assert sum(name.endswith("first.weight") for name in names) == 1
    assert sum(p.ndim == 4 for p in separate.parameters()) == 2 * (1 + len(GRAPHS["tree"].procedures))
    assert sorted(names) == sorted(shared.state_dict())
    with pytest.raises(InputError, match="shared encoder needs a network that encodes"):
        make_learner(GRAPHS["tree"], (16, 16), encoder="shared")


def small(graph: CallGraph, actions: list[int], most: int = 300) -> bool:
    """Whether there are few enough structures to enumerate them quickly."""
    return sum(1 for _, _ in zip(range(most + 1), reference.structures(graph, actions), strict=False)) <= most


@settings(max_examples=50, deadline=None, derandomize=True)
@given(graphs_and_actions(), st.integers(0, 10**6), st.sampled_from([0, 0.5]))
def test_the_posterior_sums_to_one_over_all_structures(
    graph_and_actions: tuple[CallGraph, list[int]], seed: int, annotated: float
) -> None:
    graph, actions = graph_and_actions
    assume(small(graph, actions))
    learner = make_learner(graph, seed=seed, annotations="use")
    structures = enumerated(learner, make_traces(graph, [actions], seed, annotated=annotated), weight=0)
    assert structures.log_q.detach().exp().sum().item() == pytest.approx(1, abs=1e-5)


CASES = [("tree", 4, 0.0), ("chain", 3, 0.0), ("recursive", 3, 0.0), ("restricted", 3, 0.0), ("recursive", 4, 0.5)]
"""Graph, number of actions, share of annotated steps."""
WEIGHT = 0.7


def case(name: str, length: int, annotated: float, **options: Any) -> tuple[HvilLearner, Traces]:
    graph = GRAPHS[name]
    learner = make_learner(graph, annotations="use", entropy_weight=WEIGHT, seed=1, **options)
    return learner, make_traces(graph, random_sequences(graph, [length], seed=1), seed=2, annotated=annotated)


@pytest.mark.parametrize(("name", "length", "annotated"), CASES)
def test_mean_sampled_cost_is_the_expected_cost(name: str, length: int, annotated: float) -> None:
    learner, trace = case(name, length, annotated)
    exact = enumerated(learner, trace, WEIGHT).objective.item()
    copies = 4000
    _, terms = learner.terms(trace[[0] * copies], np.random.default_rng(0))
    for costs in (analytic_costs(terms, WEIGHT), sampled_costs(terms, WEIGHT)):
        totals = np.add.reduceat(costs.double().numpy(), terms.offsets[:-1])
        deviation = totals.std(ddof=1) / np.sqrt(copies)
        assert abs(totals.mean() - exact) < 4.5 * deviation + 1e-5, f"{totals.mean()} ± {deviation}, expected {exact}"


@pytest.mark.parametrize("estimator", ESTIMATORS.names())
@pytest.mark.parametrize(("name", "length", "annotated"), CASES)
def test_mean_gradient_is_the_gradient_of_the_expected_cost(
    name: str, length: int, annotated: float, estimator: str
) -> None:
    learner, trace = case(name, length, annotated, estimator=estimator)
    exact = gradient(learner, enumerated(learner, trace, WEIGHT).objective)
    deviation = assert_unbiased(learner, trace, exact, copies=300, batches=50)
    assert deviation < 0.1 * np.linalg.norm(exact), "too noisy to tell"
