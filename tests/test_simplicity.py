"""Simplicity: the price of long procedures, pruning of inputs, and the description length that judges restarts."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import hvil
from hvil.data.tasks import find_task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.config import Config
from hvil.learners.exact import inference
from hvil.learners.exact.objective import evaluated
from hvil.learners.exact_learner import ExactLearner
from hvil.learners.hvil import HvilLearner
from hvil.learners.learner import Finishes, JudgesItself
from hvil.learners.networks.bank import MlpBank
from hvil.learners.networks.fields import field_norms, fields_of
from hvil.learners.networks.simplicity import description_length, prune, step_prices
from hvil.learners.settings import ExactSettings, HvilSettings, LstmSettings, TrainingSettings
from hvil.training.loop import train

SMALL: dict[str, Any] = {"hidden": 12, "context": 4}


@pytest.fixture(scope="module")
def taught() -> tuple[HvilLearner, Traces]:
    """A policy that does its ten training traces right, taught with their call structure."""
    task = find_task("karel:D")
    traces = task.demonstrations(10, seed=0)
    settings = HvilSettings(annotations="use", **SMALL)
    torch.manual_seed(0)
    learner = HvilLearner(Config.of(traces, task.teacher_call_graph, settings))  # type: ignore[attr-defined]
    train(learner, traces, TrainingSettings(updates=300, learning_rate=0.01))
    assert not learner.policy().wrong(traces).any(), "the tests need a policy that is right"
    return learner, traces


def bank_of(learner: HvilLearner) -> MlpBank:
    assert isinstance(learner.policy_network.bank, MlpBank)
    return learner.policy_network.bank


def test_the_first_steps_of_a_procedure_are_cheap_and_later_ones_cost_the_same() -> None:
    prices = step_prices(HvilSettings(length_price=9.0), np.arange(7))
    np.testing.assert_allclose(prices, [0, 1, 4, 9, 9, 9, 9], rtol=1e-6)


def test_two_rounds_of_a_loop_in_one_call_cost_more_than_a_call_each() -> None:
    """A loop of nine rounds with two actions each; ∅ is a step too."""
    prices = step_prices(HvilSettings(length_price=1.0), np.arange(20))
    frame = np.cumsum(prices)  # of a procedure that takes so many steps and then ∅
    apart = frame[9] + 9 * frame[2]
    together = frame[5] + 4 * frame[4] + frame[2]
    flat = frame[18]
    assert apart < together
    assert apart < flat


def test_pruning_leaves_what_was_right_right_and_reads_less(taught: tuple[HvilLearner, Traces]) -> None:
    learner, traces = taught
    bank = bank_of(learner)
    fields = fields_of(learner.config, bank)
    weights = bank.weight1.detach().clone()
    before = int((field_norms(bank, fields) > 0).sum())
    try:
        read = prune(learner.policy_network, learner.config, traces)
        assert not learner.policy().wrong(traces).any()
        assert read == int((field_norms(bank, fields) > 0).sum()) < before
        left = bank.weight1.detach().clone()
        for procedure, field in torch.nonzero(field_norms(bank, fields)).tolist():
            with torch.no_grad():
                bank.weight1[procedure, fields.member[:, field] > 0] = 0
            needed = bool(learner.policy().wrong(traces).any())
            with torch.no_grad():
                bank.weight1.copy_(left)
            if procedure == learner.config.graph.root:
                assert needed, f"the root can do without {fields.names[field]}"
    finally:
        with torch.no_grad():
            bank.weight1.copy_(weights)


def test_the_description_length_counts_what_is_read_and_changes_nothing(taught: tuple[HvilLearner, Traces]) -> None:
    learner, traces = taught
    weights = bank_of(learner).weight1.detach().clone()
    length = description_length(learner.policy_network, learner.config, traces)
    assert torch.equal(bank_of(learner).weight1, weights)
    fields = fields_of(learner.config, bank_of(learner))
    each = math.log(len(weights) * len(fields.names))
    assert length / each == pytest.approx(round(length / each))
    assert learner.merit(traces, 300) == pytest.approx(
        (learner.elbo(traces, np.random.default_rng(0)) - length) / len(traces), rel=1e-5
    )


def test_in_the_exact_start_the_merit_is_that_of_the_short_traces() -> None:
    task = find_task("karel:F")
    traces = task.demonstrations(10, seed=0)
    longest = int(np.sort(traces.lengths)[4])
    settings = HvilSettings(exact_start=5, exact_length=longest, **SMALL)
    torch.manual_seed(0)
    learner = HvilLearner(Config.of(traces, "tree:2x2", settings))
    short = traces[np.flatnonzero(traces.lengths <= longest)]
    likelihood = inference.log_likelihood(*evaluated(learner.policy_network, short, learner.config))
    assert learner.merit(traces, 5) == pytest.approx(likelihood.mean().item(), rel=1e-4)
    exact = ExactLearner(Config.of(traces, "tree:2x2", ExactSettings(hidden=12)))
    assert isinstance(exact, JudgesItself)
    assert isinstance(exact, Finishes)


def test_a_run_is_pruned_at_its_end_and_not_before(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**SMALL, "updates": 12, "checkpoint_every": 4, "demos": 5, "test_traces": 5}
    settings |= {"restarts": 1, "exact_start": 0}
    plain = hvil.fit("karel:F", out=tmp_path / "plain", prune=False, **settings)
    pruned = hvil.fit("karel:F", out=tmp_path / "pruned", prune=True, **settings)
    assert isinstance(plain.learner, HvilLearner)
    again = prune(plain.learner.policy_network, plain.config, plain.data.training)
    assert isinstance(pruned.learner, HvilLearner)
    for one, other in zip(plain.learner.parameters(), pruned.learner.parameters(), strict=True):
        assert torch.equal(one, other)
    bank = bank_of(pruned.learner)
    assert int((field_norms(bank, fields_of(pruned.config, bank)) > 0).sum()) == again
    longer = hvil.fit("karel:F", out=tmp_path / "pruned", resume=True, **{**settings, "prune": True, "updates": 16})
    whole = hvil.fit("karel:F", out=tmp_path / "whole", prune=True, **{**settings, "updates": 16})
    assert longer.updates == whole.updates == 16
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("pruned", "whole"))
    assert all(torch.equal(one[name], other[name]) for name in other), "pruning is no part of the training"


def test_pruning_needs_input_columns() -> None:
    with pytest.raises(InputError, match="pruning needs the network mlp"):
        hvil.fit("mnist-parity:0.7", demos=5, prune=True, updates=1)
    with pytest.raises(InputError, match="prune is a setting of hvil and exact, not of lstm"):
        hvil.fit("karel:F", model="lstm", prune=True)
    assert not hasattr(LstmSettings(), "prune")
