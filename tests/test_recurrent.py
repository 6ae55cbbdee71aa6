"""The baselines: their likelihood, and that acting and measuring are one computation."""

import numpy as np
import pytest
import torch

from hvil.data.tasks import find_task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners import settings_for
from hvil.learners.baselines import BaselineLearner, FeedForwardLearner, LstmLearner, StackRnnLearner
from hvil.learners.config import Config
from hvil.learners.networks.convnet import ConvNet, image_layout, split_image

LEARNERS = [LstmLearner, FeedForwardLearner, StackRnnLearner]


def random_traces(rng: np.random.Generator, count: int = 7) -> Traces:
    lengths = rng.integers(1, 9, size=count)
    return Traces.from_episodes(
        [rng.normal(size=(n + 1, 3)).astype(np.float32) for n in lengths],
        [rng.integers(0, 2, size=n) for n in lengths],
        ("left", "right"),
    )


NAMES = {LstmLearner: "lstm", FeedForwardLearner: "feedforward", StackRnnLearner: "stackrnn"}


def learner(kind: type[BaselineLearner], traces: Traces, **settings: object) -> BaselineLearner:
    torch.manual_seed(0)
    model = settings_for(NAMES[kind], {"units": 8, **settings})
    return kind(Config.of(traces, "chain:1", model))


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("last_action", [False, True])
def test_likelihood_does_not_depend_on_the_other_traces_of_the_batch(kind, last_action):
    traces = random_traces(np.random.default_rng(0))
    policy = learner(kind, traces, last_action=last_action).policy()
    alone = np.concatenate([policy.log_likelihood(trace) for trace in traces])
    np.testing.assert_allclose(policy.log_likelihood(traces), alone, rtol=1e-5)


@pytest.mark.parametrize("kind", LEARNERS)
def test_reading_whole_traces_is_reading_them_step_by_step(kind):
    traces = random_traces(np.random.default_rng(8))
    model = learner(kind, traces)
    total = 0.0
    with torch.no_grad():
        for trace in traces:
            state, before = model.memory.initial(1, model.device), 2
            for observation, action in zip(trace.observations, [*trace.actions.tolist(), 2], strict=True):
                logits, state = model.step(torch.tensor(observation)[None], torch.tensor([before]), state)
                total += float(logits.log_softmax(1)[0, action])
                before = action
    assert total == pytest.approx(model.policy().log_likelihood(traces).sum(), rel=1e-5)


@pytest.mark.parametrize("kind", LEARNERS)
def test_loss_is_the_mean_cost_of_a_trace(kind):
    rng = np.random.default_rng(1)
    traces = random_traces(rng)
    model = learner(kind, traces)
    loss = model.loss(traces, rng, 0)
    assert loss.total.item() == pytest.approx(-model.policy().log_likelihood(traces).mean(), rel=1e-5)
    loss.total.backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())


@pytest.mark.parametrize("kind", LEARNERS)
def test_an_action_does_not_depend_on_how_many_environments_are_run(kind):
    rng = np.random.default_rng(2)
    traces = random_traces(rng)
    policy = learner(kind, traces).policy()
    observations = rng.normal(size=(6, 100, 3)).astype(np.float32)
    policy.reset(100)
    together = np.stack([policy.act(rows) for rows in observations])
    for environment in (0, 63, 64, 99):
        policy.reset()
        alone = [policy.act(row) for row in observations[:, environment]]
        assert together[:, environment].tolist() == alone


@pytest.mark.parametrize("kind", LEARNERS)
def test_wrong_says_where_acting_along_the_trace_differs(kind):
    rng = np.random.default_rng(3)
    traces = random_traces(rng, 80)
    model = learner(kind, traces, units=32)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for update in range(100):
        optimizer.zero_grad()
        model.loss(traces[:10], rng, update).total.backward()
        optimizer.step()
    policy = model.policy()
    expected = []
    for trace in traces:
        policy.reset()
        wanted = [*trace.actions, 2]
        # A policy that sees its own last action is only comparable up to its first error.
        expected.append(any(policy.act(o) != a for o, a in zip(trace.observations, wanted, strict=True)))
    assert policy.wrong(traces).tolist() == expected
    assert np.mean(expected) < 1 or kind is FeedForwardLearner


def test_sampling_follows_the_softmax_and_its_seed():
    traces = random_traces(np.random.default_rng(4))
    model = learner(FeedForwardLearner, traces, last_action=False)
    policy = model.policy()
    observation = traces.observations[0]
    draws = []
    for seed in (5, 5, 6):
        policy.reset(4000, seed)
        draws.append(policy.act(np.repeat(observation[None], 4000, axis=0), greedy=False))
    assert (draws[0] == draws[1]).all()
    assert (draws[0] != draws[2]).any()
    with torch.no_grad():
        logits, _ = model.step(torch.tensor(observation)[None], torch.zeros(1, dtype=torch.long), ())
    np.testing.assert_allclose(np.bincount(draws[0], minlength=3) / 4000, logits.softmax(-1)[0], atol=0.03)


def test_last_action_is_seen_only_if_asked_for():
    traces = random_traces(np.random.default_rng(5))
    observation = torch.tensor(traces.observations[:1])
    for last_action in (False, True):
        model = learner(FeedForwardLearner, traces, last_action=last_action)
        scores = [model.step(observation, torch.full((1,), before), ())[0] for before in (0, 1)]
        assert torch.equal(*scores) is not last_action


def test_observation_of_a_wrong_shape_is_refused():
    traces = random_traces(np.random.default_rng(6))
    policy = learner(LstmLearner, traces).policy()
    with pytest.raises(InputError, match=r"shape \(4,\), expected \(3,\)"):
        policy.act(np.zeros(4, dtype=np.float32))
    policy.reset(2)
    with pytest.raises(InputError, match=r"expected \(2, 3\)"):
        policy.act(np.zeros(3, dtype=np.float32))


def test_convnet_has_the_layers_of_the_paper_and_reads_mnist_observations():
    traces = find_task("mnist-parity:0.7").demonstrations(5, 0)
    model = learner(LstmLearner, traces, network="convnet", units=64)
    convnet = model.encoder.network
    assert isinstance(convnet, ConvNet)
    assert [tuple(p.shape) for p in convnet.parameters() if p.ndim > 1] == [
        (10, 1, 5, 5),
        (20, 10, 5, 5),
        (50, 320),
        (64, 50 + 10 + 3),
    ]
    images, numbers = split_image(image_layout((794,)), torch.tensor(traces.observations))
    np.testing.assert_array_equal(images[0, 0].numpy().ravel(), traces.observations[0, :784])
    assert int(numbers[1].argmax()) == traces.metadata["digit"][0]
    assert model.loss(traces, np.random.default_rng(0), 0).total.isfinite()


def test_numbers_beside_an_image_join_before_the_50_units_on_request():
    traces = find_task("mnist-parity:0.7").demonstrations(5, 0)
    convnet = learner(LstmLearner, traces, network="convnet-early", units=64).encoder.network
    assert tuple(convnet.features.weight.shape) == (50, 320 + 10 + 3)
    assert tuple(convnet.output.weight.shape) == (64, 50)


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("blank", [[], [0], [1, 3], [0, 1, 2, 3]])
def test_convnet_gives_equal_images_the_outputs_they_have_alone(blank: list[int], early: bool) -> None:
    torch.manual_seed(0)
    network = ConvNet(image_layout((16, 16)), 2, 3, early)
    images, numbers = torch.randn(4, 1, 16, 16), torch.randn(4, 2)
    images[blank] = 0
    images[1] = images[2]
    together = network(images, numbers)
    alone = torch.cat([network(images[row : row + 1], numbers[row : row + 1]) for row in range(4)])
    torch.testing.assert_close(together, alone)
    weights = list(network.parameters())
    gradients = [torch.autograd.grad(output.square().sum(), weights) for output in (together, alone)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_convnet_reads_colour_images_of_bytes():
    rng = np.random.default_rng(7)
    observations = [rng.integers(0, 256, size=(3, 16, 20, 3)).astype(np.uint8) for _ in range(2)]
    traces = Traces.from_episodes(observations, [np.array([0, 1])] * 2, ("left", "right"))
    model = learner(LstmLearner, traces, network="convnet")
    assert model.policy().wrong(traces).shape == (2,)
    images, _ = split_image(image_layout((16, 20, 3)), torch.tensor(observations[0]))
    assert images.shape == (3, 3, 16, 20)
    assert float(images[1, 2, 3, 4]) == pytest.approx(observations[0][1, 3, 4, 2] / 255)


def test_convnet_on_observations_without_an_image_is_refused():
    with pytest.raises(InputError, match="network convnet needs images"):
        image_layout((23,))
