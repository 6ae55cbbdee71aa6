"""The compiled objective has the loss and the gradient of the one written for reading."""

import numpy as np
import pytest
import torch

from hvil.data.tasks import find_task
from hvil.learners.config import Config
from hvil.learners.hvil import HvilLearner
from hvil.learners.networks.batch import prepare
from hvil.learners.objective.compiled import compiled_objective
from hvil.learners.settings import HvilSettings


def loss_and_gradients(learner, traces, path):
    learner.zero_grad()
    loss = learner.loss(traces, np.random.default_rng(0), update=3, path=path)
    loss.total.backward()
    return loss, {name: parameter.grad.clone() for name, parameter in learner.named_parameters()}


@pytest.mark.parametrize("estimator", ["rao-blackwell", "analytic", "score"])
@pytest.mark.parametrize("annotations", ["ignore", "use"])
@pytest.mark.parametrize(("frame_inputs", "counter"), [("both", "raw+hot3"), ("both", "20/10+step2"), ("none", "raw")])
def test_compiled_objective_equals_the_readable_one(estimator, annotations, frame_inputs, counter):
    source = find_task("bubblesort:2-4")
    traces = source.demonstrations(4, seed=0)
    settings = HvilSettings(
        estimator=estimator,
        annotations=annotations,
        frame_inputs=frame_inputs,
        counter=counter,
        hidden=11,
        context=5,
        entropy_weight=0.5,
        input_sparsity=0.1,
    )
    torch.manual_seed(0)
    learner = HvilLearner(Config.of(traces, source.default_call_graph, settings))
    fast, fast_gradients = loss_and_gradients(learner, traces, "compiled")
    slow, slow_gradients = loss_and_gradients(learner, traces, "readable")
    assert fast.metrics == pytest.approx(slow.metrics, rel=1e-4)
    torch.testing.assert_close(fast.total, slow.total, rtol=1e-4, atol=1e-4)
    for name, gradient in slow_gradients.items():
        torch.testing.assert_close(fast_gradients[name], gradient, rtol=1e-3, atol=1e-4 * float(gradient.abs().max()))


def test_the_objective_leaves_what_the_walk_computed_as_it_is():
    source = find_task("bubblesort:2-3")
    traces = source.demonstrations(3, seed=0)
    torch.manual_seed(0)
    learner = HvilLearner(Config.of(traces, source.default_call_graph, HvilSettings(hidden=7, context=4)))
    batch = prepare(traces, learner.config, learner.device)
    context = learner.posterior.context(batch)
    walk, evaluated = learner.posterior.walk_compiled(
        batch, context, learner.posterior.uniforms(batch, np.random.default_rng(0))
    )
    before = evaluated.hidden.copy(), evaluated.log_q.copy()
    policy, posterior = learner.policy_network, learner.posterior
    prices = np.zeros(len(walk.steps.counter), dtype=np.float32)
    first = compiled_objective(policy, posterior, batch, context, walk, evaluated, "rao-blackwell", 1.0, "none", prices)
    again = compiled_objective(policy, posterior, batch, context, walk, evaluated, "rao-blackwell", 1.0, "none", prices)
    assert first.loss.item() == again.loss.item()
    for after, copy in zip((evaluated.hidden, evaluated.log_q), before, strict=True):
        np.testing.assert_array_equal(after, copy)
