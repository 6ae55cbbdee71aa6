"""Encoders of observations: a user's own works wherever ours do."""

from pathlib import Path

import numpy as np
import pytest
import torch
from oracle import GRAPHS, WIDTH, make_learner, make_traces
from torch import Tensor, nn

import hvil
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.hvil import HvilLearner
from hvil.learners.naive import naive_loss
from hvil.learners.networks.encoders import ENCODERS


class Wave(nn.Module):
    """A user's encoder: one layer with a sine."""

    width = 4

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.layer = nn.Linear(int(np.prod(shape)), self.width)

    def forward(self, features: Tensor) -> Tensor:
        return torch.sin(self.layer(features))


@pytest.fixture(autouse=True)
def wave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ENCODERS, "_registered", {})
    ENCODERS.register("wave", Wave)


@pytest.fixture
def traces() -> Traces:
    return make_traces(GRAPHS["tree"], [[0, 1, 0], [1, 1]])


def gradients(learner: HvilLearner, value: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(value, list(learner.parameters()), allow_unused=True, materialize_grads=True)


@pytest.mark.parametrize(("encoder", "count"), [("shared", 1), ("separate", 4)])
def test_policy_and_posterior_see_through_it(traces: Traces, encoder: str, count: int) -> None:
    learner = make_learner(GRAPHS["tree"], network="wave", encoder=encoder)
    assert sum(isinstance(module, Wave) for module in learner.modules()) == count, "one for all, or one for each"
    loss = learner.loss(traces, np.random.default_rng(0), 0)
    naive = naive_loss(learner, traces, np.random.default_rng(0), 0)
    assert loss.total.item() == pytest.approx(naive.total.item(), rel=1e-4)
    for ours, theirs in zip(gradients(learner, loss.total), gradients(learner, naive.total), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("model", ["hvil", "exact", "lstm", "feedforward", "stackrnn"])
def test_every_learner_trains_with_it(traces: Traces, model: str, tmp_path: Path) -> None:
    small = {"units": 4} if model in ("lstm", "feedforward", "stackrnn") else {"hidden": 4}
    run = hvil.fit(traces, "tree:2x2", out=tmp_path / "run", model=model, network="wave", updates=3, **small)
    policy = hvil.load(run.path).policy
    assert any(isinstance(module, Wave) for module in run.learner.modules())
    assert policy.wrong(traces).shape == (2,)
    assert policy.act(np.zeros(WIDTH, dtype=np.float32)) in (0, 1, 2)


def test_an_unknown_or_unfit_encoder_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="'waves': no such encoder; expected mlp, convnet, convnet-early, wave"):
        make_learner(GRAPHS["tree"], network="waves")
    ENCODERS.register("widthless", lambda shape: nn.Identity())
    with pytest.raises(InputError, match=r"network widthless: the encoder must be .* `width`"):
        make_learner(GRAPHS["tree"], network="widthless")
