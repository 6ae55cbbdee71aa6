"""The compiled objective has the loss and the gradient of the one written for reading."""

import numpy as np
import pytest
import torch

from hvil.data.tasks import find_task
from hvil.learners import hvil as module
from hvil.learners.config import Config
from hvil.learners.hvil import HvilLearner
from hvil.learners.settings import HvilSettings


def losses_and_gradients(learner, traces, fused, monkeypatch):
    monkeypatch.setattr(module, "can_fuse", lambda *_: fused)
    learner.zero_grad()
    loss = learner.loss(traces, np.random.default_rng(0), update=3)
    loss.total.backward()
    return loss, {name: parameter.grad.clone() for name, parameter in learner.named_parameters()}


@pytest.mark.parametrize("estimator", ["rao-blackwell", "analytic", "score"])
@pytest.mark.parametrize("annotations", ["ignore", "use"])
@pytest.mark.parametrize(("frame_inputs", "counter_limit"), [("both", 3), ("none", 0)])
def test_fused_objective_equals_the_readable_one(estimator, annotations, frame_inputs, counter_limit, monkeypatch):
    source = find_task("bubblesort:2-4")
    traces = source.demonstrations(4, seed=0)
    settings = HvilSettings(
        estimator=estimator,
        annotations=annotations,
        frame_inputs=frame_inputs,
        counter_limit=counter_limit,
        hidden=11,
        context=5,
        entropy_weight=0.5,
        input_sparsity=0.1,
    )
    torch.manual_seed(0)
    learner = HvilLearner(Config.of(traces, source.default_call_graph, settings))
    fast, fast_gradients = losses_and_gradients(learner, traces, True, monkeypatch)
    slow, slow_gradients = losses_and_gradients(learner, traces, False, monkeypatch)
    assert fast.metrics == pytest.approx(slow.metrics, rel=1e-4)
    torch.testing.assert_close(fast.total, slow.total, rtol=1e-4, atol=1e-4)
    for name, gradient in slow_gradients.items():
        torch.testing.assert_close(fast_gradients[name], gradient, rtol=1e-3, atol=1e-4 * float(gradient.abs().max()))
