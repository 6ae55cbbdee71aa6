"""Fields: columns that belong together, and a price that makes the unneeded ones exactly zero."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from toy_learner import toy_traces

import hvil
from hvil.data.inputs import suitable_inputs
from hvil.data.tasks import find_task
from hvil.gate.errors import InputError
from hvil.learners.config import Config
from hvil.learners.hvil import HvilLearner
from hvil.learners.networks.bank import MlpBank
from hvil.learners.networks.fields import fields_ignored, fields_of, fields_read, shrink_fields
from hvil.learners.settings import HvilSettings


def learner_of(task: str, **settings: object) -> HvilLearner:
    source = find_task(task)
    traces = source.demonstrations(3, seed=0)
    torch.manual_seed(0)
    return HvilLearner(Config.of(traces, source.default_call_graph, HvilSettings(hidden=6, context=3, **settings)))  # type: ignore[arg-type]


def bank_of(learner: HvilLearner) -> MlpBank:
    assert isinstance(learner.policy_network.bank, MlpBank)
    return learner.policy_network.bank


def test_the_columns_of_one_value_are_one_field() -> None:
    learner = learner_of("bubblesort", counter="20/10+hot1")
    fields = fields_of(learner.config, bank_of(learner))
    assert fields.names == (
        *("value1", "pointer1_at_end", "value2", "pointer2_at_end", "length"),
        *("counter[0]", "counter[1]", "counter[2]", "last"),
    )
    assert fields.member.sum(dim=0).tolist() == [10, 1, 10, 1, 1, 1, 1, 1, learner.config.graph.step_count]
    assert (fields.member.sum(dim=1) == 1).all(), "every input is in one field"


def test_a_column_of_ones_own_data_is_one_field_however_it_is_encoded() -> None:
    traces = toy_traces()
    config = Config.of(traces, "chain:1", HvilSettings(hidden=4, context=3), inputs=suitable_inputs(traces))
    learner = HvilLearner(config)
    assert fields_of(config, bank_of(learner)).names[:3] == traces.observation_names


def test_what_a_procedure_ignores_has_weight_zero_in_every_column() -> None:
    learner = learner_of("bubblesort")
    bank, graph = bank_of(learner), learner.config.graph
    assert set(fields_ignored(learner.config, bank).values()) == {()}
    with torch.no_grad():
        bank.weight1[graph.procedures.index("bstep"), :10] = 0  # all of value1
        bank.weight1[graph.procedures.index("reset"), :9] = 0  # nearly all of it
    ignored = fields_ignored(learner.config, bank)
    assert ignored.pop("bstep") == ("value1",)
    assert set(ignored.values()) == {()}


def test_the_proximal_step_is_the_minimiser_of_its_problem() -> None:
    """argmin_w ½ s/η ‖w − w0‖² + λ ‖w‖, with s the field's root mean square gradient, is shrinkage towards 0."""
    learner = learner_of("karel:F", counter_price=3.0)
    bank = bank_of(learner)
    fields = fields_of(learner.config, bank)
    optimiser = torch.optim.Adam(learner.parameters(), lr=0.01)
    learner.loss(find_task("karel:F").demonstrations(3, 0), np.random.default_rng(0), 0).total.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    before, squares = bank.weight1.detach().clone(), optimiser.state[bank.weight1]["exp_avg_sq"] / (1 - 0.999)
    shrink_fields(bank, fields, optimiser, price=0.5)
    for h in range(len(before)):
        for g, name in enumerate(fields.names):
            columns = fields.member[:, g].bool()
            w0, scale = before[h, columns], squares[h, columns].mean().sqrt() + 1e-8
            if name == "last":
                torch.testing.assert_close(bank.weight1[h, columns], w0)
                continue
            price = 1.5 if name.startswith("counter") else 0.5
            expected = w0 * max(0.0, 1 - float(0.01 * price / scale / w0.norm()))
            torch.testing.assert_close(bank.weight1.detach()[h, columns], expected, rtol=1e-4, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["hvil", "exact"])
def test_what_is_not_needed_gets_weight_zero_exactly(model: str) -> None:
    # The task's own search has restarts and prunes, and its counter has more inputs.
    plain = {"exact_start": 0, "prune": False, "counter": "raw", "input_sparsity": 0.0} if model == "hvil" else {}
    settings: dict[str, Any] = {"demos": 10, "test_traces": 50, "hidden": 16, "model": model, "restarts": 1, **plain}
    run = hvil.fit("karel:F", updates=400, field_sparsity=0.3, **settings)
    bank = bank_of(run.learner)  # type: ignore[arg-type]
    read = fields_read(bank, fields_of(run.config, bank))
    assert any(len(names) < 6 for names in read), "some field has weight 0 exactly"
    dense = hvil.fit("karel:F", updates=20, **settings)
    every = fields_read(bank_of(dense.learner), fields_of(dense.config, bank_of(dense.learner)))  # type: ignore[arg-type]
    assert all(len(names) == 6 for names in every)


def test_the_price_grows_along_its_ramp_and_needs_columns() -> None:
    learner = learner_of("karel:F", field_sparsity=1.0, field_sparsity_ramp=10)
    assert learner.config.model.field_sparsity_ramp == 10
    source = find_task("mnist-parity:0.7")
    traces = source.demonstrations(2, seed=0)
    config = Config.of(traces, source.default_call_graph, HvilSettings(network="convnet", hidden=4, context=3))
    with pytest.raises(InputError, match="needs the network mlp"):
        HvilLearner(replace(config, model=replace(config.model, field_sparsity=0.1)))
