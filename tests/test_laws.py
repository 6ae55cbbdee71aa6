"""First laws of continuous actions: EM equals enumeration, finds the laws of a script, and begins a training well."""

import itertools

import numpy as np
import pytest
import torch
from continuous import GRAPHS, vector_config, vector_learner, vector_traces

from hvil.data.traces import Traces
from hvil.learners.exact_learner import ExactLearner
from hvil.learners.networks.batch import prepare
from hvil.learners.networks.laws import STAY, first_turns, fitted_laws, turns_of, weighted_laws
from hvil.learners.settings import ExactSettings, TrainingSettings
from hvil.training.loop import train

WEIGHTS = np.array([[[3.0], [0.0]], [[0.0], [-2.0]], [[0.0], [0.0]]])
BIASES = np.array([[0.0], [0.5], [4.0]])


def switching(traces: int = 20, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features, actions, lengths and true laws of a script with three laws that take turns."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(12, 20, size=traces)
    features = rng.normal(size=(lengths.sum(), 2))
    turned = rng.random(len(features)) < 0.2
    law = (np.cumsum(turned) + rng.integers(3)) % 3
    clean = np.einsum("sd,sda->sa", features, WEIGHTS[law]) + BIASES[law]
    return features, clean + 0.05 * rng.normal(size=clean.shape), lengths, law


@pytest.mark.parametrize("laws", [1, 2, 3])
def test_turns_equal_the_sum_over_all_sequences_of_laws(laws: int) -> None:
    lengths = np.array([3, 1, 4])
    log_densities = np.random.default_rng(laws).normal(size=(8, laws)) * 3
    turns = turns_of(log_densities, lengths)
    shares, total = [], 0.0
    for own in np.split(log_densities, np.cumsum(lengths)[:-1]):
        sums = np.zeros(own.shape)
        for sequence in itertools.product(range(laws), repeat=len(own)):
            switches = sum(a != b for a, b in itertools.pairwise(sequence))
            p = STAY ** (len(own) - 1 - switches) if laws > 1 else 1.0
            p *= ((1 - STAY) / max(laws - 1, 1)) ** switches / laws
            p *= np.exp(own[np.arange(len(own)), sequence].sum())
            sums[np.arange(len(own)), sequence] += p
        total += np.log(sums[0].sum())
        shares.append(sums / sums.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(turns.shares, np.concatenate(shares), atol=1e-9)
    assert turns.log_likelihood == pytest.approx(total)


def test_a_law_is_the_weighted_least_squares_solution() -> None:
    rng = np.random.default_rng(0)
    inputs, outputs = np.insert(rng.normal(size=(40, 2)), 2, 1.0, axis=1), rng.normal(size=(40, 2))
    shares = rng.dirichlet([1, 1], size=40)
    laws = weighted_laws(inputs, outputs, shares, floor=1e-6)
    for law, share in enumerate(shares.T):
        root = np.sqrt(share)[:, None]
        wanted = np.linalg.lstsq(root * inputs, root * outputs, rcond=None)[0]
        np.testing.assert_allclose(np.vstack([laws.weight[law], laws.bias[law]]), wanted, atol=1e-3)
        variance = np.average((outputs - inputs @ wanted) ** 2, axis=0, weights=share)
        np.testing.assert_allclose(laws.deviation[law], np.sqrt(variance), rtol=1e-3)
    assert weighted_laws(inputs, outputs, shares, floor=9.0).deviation.tolist() == [[9.0, 9.0], [9.0, 9.0]]


@pytest.mark.parametrize("seed", range(3))
def test_the_laws_of_a_script_are_found(seed: int) -> None:
    features, vectors, lengths, _ = switching(seed=seed)
    laws = fitted_laws(features, vectors, lengths, 3, 0.01, np.random.default_rng(seed))
    order = [int(np.abs(laws.bias[:, 0] - bias).argmin()) for bias in BIASES[:, 0]]
    np.testing.assert_allclose(laws.weight[order], WEIGHTS, atol=0.1)
    np.testing.assert_allclose(laws.bias[order], BIASES, atol=0.1)
    np.testing.assert_allclose(laws.deviation, 0.05, atol=0.02)


def test_the_first_segmentation_gives_each_step_one_law_and_short_traces_are_no_problem() -> None:
    features, vectors, _, _ = switching()
    inputs = np.insert(features, 2, 1.0, axis=1)
    lengths = np.ones(len(features), dtype=np.int64)
    shares = first_turns(inputs, vectors, lengths, 3, np.random.default_rng(0))
    assert shares.shape == (len(features), 3)
    assert (np.sort(shares, axis=1) == [0, 0, 1]).all()


def test_procedures_that_act_get_the_laws_and_stay() -> None:
    traces = vector_traces([6, 5, 7])
    learner = vector_learner(GRAPHS["options"], traces)
    head = learner.policy_network.head
    assert head is not None
    before = [parameter.detach().clone() for parameter in (head.means.weight, head.means.bias, head.log_excess)]
    learner.first_weights(traces, np.random.default_rng(0))
    batch = prepare(traces, learner.config, learner.device)
    acting, width = [1, 2], batch.features.shape[1]
    rng = np.random.default_rng(0)
    steps = batch.emitted == 0
    laws = fitted_laws(batch.features.numpy()[steps], batch.vectors.numpy()[steps], traces.lengths, 2, head.noise, rng)
    given = rng.permutation(acting)
    np.testing.assert_allclose(head.means.weight[given, :width].detach(), laws.weight, rtol=1e-5, atol=1e-6)
    assert (head.means.weight[acting, width:] == 0).all()
    np.testing.assert_allclose(head.means.bias[given].detach(), laws.bias, rtol=1e-5, atol=1e-6)
    wanted = np.maximum(laws.deviation, 1.2 * head.noise)
    np.testing.assert_allclose(head.deviations[given].detach(), wanted, rtol=1e-5)
    for old, new in zip(before, (head.means.weight, head.means.bias, head.log_excess), strict=True):
        assert torch.equal(old[[0, 3]], new[[0, 3]])  # they do not act
    scores = learner.policy_network.bank.bias2[acting]
    np.testing.assert_allclose((scores[:, 0] - scores[:, 1]).exp().detach(), STAY / (1 - STAY), rtol=1e-5)


@pytest.mark.parametrize("options", [{"action_start": "random"}, {"action_mean": "network"}], ids=str)
def test_random_laws_and_hidden_layers_stay_as_they_are(options: dict[str, str]) -> None:
    traces = vector_traces([6, 5])
    learner = vector_learner(GRAPHS["options"], traces, **options)
    before = [parameter.detach().clone() for parameter in learner.parameters()]
    learner.first_weights(traces, np.random.default_rng(0))
    assert all(map(torch.equal, before, learner.parameters()))


def test_training_begins_with_fitted_laws() -> None:
    features, vectors, lengths, _ = switching()
    starts = np.cumsum(lengths)[:-1]
    observations = [np.append(part, part[-1:], axis=0) for part in np.split(features.astype(np.float32), starts)]
    traces = Traces.from_episodes(observations, np.split(vectors, starts), ("force",))
    likelihoods = {}
    for start in ("fitted", "random"):
        torch.manual_seed(0)
        config = vector_config(GRAPHS["options"], traces, ExactSettings(hidden=4, action_start=start))
        learner = ExactLearner(config)
        train(learner, traces[:5], TrainingSettings(updates=1, learning_rate=0.0))
        likelihoods[start] = learner.log_density(traces[:5])
    assert likelihoods["fitted"] > likelihoods["random"] + 10
