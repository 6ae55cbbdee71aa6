"""The exact learner: its objective against enumeration, and that it learns."""

import numpy as np
import pytest
import torch
from random_policy import random_traces
from strategies import ACTIONS

from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners import build
from hvil.learners.config import Config
from hvil.learners.exact_learner import ExactLearner
from hvil.learners.learner import Learner
from hvil.learners.settings import ExactSettings
from hvil.machine import reference
from hvil.machine.callgraph import call_graph

RECURSIVE = {
    "max_depth": 3,
    "procedures": {"f": {"calls": ["f", "g"], "actions": ["a", "b"]}, "g": {"calls": ["f"], "actions": ["c", "a"]}},
}


def learner_for(traces: Traces, graph: object = RECURSIVE, **settings: object) -> ExactLearner:
    torch.manual_seed(0)
    config = Config.of(traces, graph, ExactSettings(hidden=8, **settings))
    learner: Learner = build(config)
    assert isinstance(learner, ExactLearner)
    return learner.double()


def joints(learner: ExactLearner, trace: Traces) -> tuple[list[tuple[int, ...]], torch.Tensor]:
    graph = learner.config.graph
    actions = trace.actions.tolist()
    structures = list(reference.structures(graph, actions))
    values = []
    for taken in structures:
        moments = reference.replay(graph, actions, taken)
        frames = np.array([moment.stack[-1] for moment in moments])
        seen = torch.tensor(trace.observations[[moment.time for moment in moments]]).double()
        depth = np.array([len(moment.stack) for moment in moments])
        log_probs = learner.policy_network.log_probs(seen, *frames.T, depth)
        values.append(log_probs[torch.arange(len(taken)), torch.tensor(taken)].sum())
    return structures, torch.stack(values)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_loss_and_gradient_are_those_of_the_best_posterior(weight: float) -> None:
    traces = random_traces(0, [0, 2, 0], [1, 0])
    learner = learner_for(traces, entropy_weight=weight)
    expected = torch.zeros((), dtype=torch.float64)
    elbo = 0.0
    for trace in traces:
        _, values = joints(learner, trace)
        q = torch.softmax(values.detach() / (1 + weight), 0)
        cost = (q * (q.log() - values)).sum() + weight * (q * q.log()).sum()
        elbo -= (q * (q.log() - values)).sum().item() / len(traces)
        expected = expected + cost / len(traces)
    wanted = torch.autograd.grad(expected, list(learner.parameters()))
    loss = learner.loss(traces, np.random.default_rng(0), 0)
    found = torch.autograd.grad(loss.total, list(learner.parameters()))
    assert loss.total.item() == pytest.approx(expected.item(), rel=1e-6)
    assert loss.metrics["elbo"] == pytest.approx(elbo, rel=1e-6)
    for one, other in zip(wanted, found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)


def test_inferred_structure_is_the_most_likely_with_its_posterior_probability() -> None:
    traces = random_traces(1, [0, 2, 0], [1, 0])
    learner = learner_for(traces)
    found, found_log_q = learner.infer(traces)
    drawn, drawn_log_q = learner.infer(traces, np.random.default_rng(0))
    for index, trace in enumerate(traces):
        structures, values = joints(learner, trace)
        log_posterior = (values - torch.logsumexp(values, 0)).detach()
        ours = found.trace == index
        best = int(values.argmax())
        assert tuple(found.choice[ours].tolist()) == structures[best]
        assert found_log_q[ours].sum() == pytest.approx(log_posterior[best].item(), abs=1e-9)
        sampled = structures.index(tuple(drawn.choice[drawn.trace == index].tolist()))
        assert drawn_log_q[drawn.trace == index].sum() == pytest.approx(log_posterior[sampled].item(), abs=1e-9)


def test_sparsity_and_limits_are_used() -> None:
    traces = random_traces(2, [0, 2, 0, 1])
    plain = learner_for(traces).loss(traces, np.random.default_rng(0), 0)
    sparse = learner_for(traces, input_sparsity=0.5).loss(traces, np.random.default_rng(0), 0)
    limited = learner_for(traces, longest_span=1, entropy_weight=0.0).loss(traces, np.random.default_rng(0), 0)
    free = learner_for(traces, entropy_weight=0.0).loss(traces, np.random.default_rng(0), 0)
    assert sparse.total.item() > plain.total.item()
    assert limited.total.item() > free.total.item()


def test_annotations_are_refused() -> None:
    traces = random_traces(3, [0])
    with pytest.raises(InputError, match="cannot use annotations"):
        build(Config.of(traces, "tree:2x2", ExactSettings(annotations="use")))


def test_it_learns_a_program_with_a_repeated_part() -> None:
    rng = np.random.default_rng(0)
    # a, then b as long as the observation says so, then c: the observation names the action, except for a.
    observations, actions = [], []
    for _ in range(12):
        count = int(rng.integers(1, 4))
        actions.append(np.array([0, *[1] * count, 2, 0]))
        seen = np.zeros((count + 4, 2), dtype=np.float32)
        seen[1 : 1 + count, 0] = 1
        observations.append(seen)
    traces = Traces.from_episodes(observations, actions, ACTIONS)
    torch.manual_seed(0)
    learner = ExactLearner(Config.of(traces, call_graph("tree:2x2", ACTIONS), ExactSettings(hidden=32)))
    optimiser = torch.optim.Adam(learner.parameters(), lr=1e-2)
    for _ in range(120):
        optimiser.zero_grad()
        learner.loss(traces, rng, 0).total.backward()
        optimiser.step()
    assert not learner.policy().wrong(traces).any()
