"""The price of treating neighbouring values of a number differently: what it costs, and what it is good for."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import hvil
from hvil.data.inputs import Inputs
from hvil.data.tasks import find_task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners import build
from hvil.learners.config import Config
from hvil.learners.networks.curvature import bends, curvature
from hvil.learners.settings import ExactSettings, FeedForwardSettings, HvilSettings, LstmSettings


def config_of(task: str, model: HvilSettings | ExactSettings | LstmSettings | None = None) -> Config:
    source = find_task(task)
    return Config.of(source.demonstrations(2, seed=0), source.default_call_graph, model)


def test_a_straight_line_costs_nothing_and_a_bend_its_square() -> None:
    config = config_of("bubblesort")
    rows = bends(config)
    assert rows.shape == (16, 23), "eight triples of neighbours in each of the two values"
    weights = torch.zeros(23, 2)
    weights[:10, 0] = 3 - 0.5 * torch.arange(10.0)  # value1
    weights[11:21, 1] = 2 * torch.arange(10.0)  # value2
    weights[[10, 21, 22]] = torch.tensor([5.0, -7.0])  # end flags and length are no values of a number
    assert float(curvature(weights, rows)) == pytest.approx(0, abs=1e-9)
    weights[4, 0] += 1  # second differences 1, -2, 1
    assert float(curvature(weights, rows)) == pytest.approx(6)


def test_values_of_own_data_may_lie_apart() -> None:
    traces = Traces.from_episodes([np.array([[1], [2], [5], [7]])], [np.array([0, 1, 0])], ("a", "b"))
    inputs = Inputs(values=((1, 2, 5, 7),), means=(0.0,), scales=(1.0,))
    rows = bends(Config.of(traces, "chain:1", inputs=inputs))
    line = torch.tensor([1.0, 2.0, 5.0, 7.0])
    torch.testing.assert_close(rows @ line, torch.zeros(2))
    torch.testing.assert_close(rows @ line.square(), torch.tensor([7.0 - 3.0, 12.0 - 7.0]))  # differences of slopes


def test_names_without_numbers_are_left_alone() -> None:
    assert bends(config_of("karel:F")).shape == (0, 4)


@pytest.mark.parametrize("settings", [ExactSettings, LstmSettings, FeedForwardSettings], ids=lambda kind: kind.learner)
def test_every_learner_pays_for_it(settings: type[LstmSettings]) -> None:
    traces = find_task("bubblesort:2-3").demonstrations(3, seed=0)
    losses = []
    for price in (0.0, 0.3):
        torch.manual_seed(0)
        learner = build(config_of("bubblesort:2-3", settings(curvature_price=price)))
        losses.append(learner.loss(traces, np.random.default_rng(0), 0).total)
    weights = learner.policy_network.bank.weight1 if settings is ExactSettings else learner.encoder.input_weights
    expected = losses[0] + 0.3 * curvature(weights, bends(learner.config)) / len(traces)
    torch.testing.assert_close(losses[1], expected)


def test_images_have_no_numbers_to_bend() -> None:
    source = find_task("mnist-parity:0.7")
    config = Config.of(source.demonstrations(2, seed=0), source.default_call_graph)
    for model in (HvilSettings(network="convnet"), LstmSettings(network="convnet")):
        with pytest.raises(InputError, match="curvature needs the network mlp"):
            build(replace(config, model=replace(model, curvature_price=1.0)))


@pytest.mark.slow
def test_pairs_that_no_list_compares_follow_from_their_neighbours() -> None:
    """The teacher's structure is given, so all that is left to learn is which numbers to swap."""
    settings = {"demos": 10, "seed": 1001, "annotations": "use", "updates": 300, "hidden": 32, "test_traces": 200}
    accident, straight = (
        hvil.fit("bubblesort", curvature_price=price, **settings).evaluate().error for price in (0.0, 10.0)
    )
    assert straight.value < accident.value - 0.2
