"""Effects of procedures: every path against the naive twin, the exact sum and all estimators against enumeration."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import GRAPHS, assert_unbiased, enumerated, gradient, make_learner, make_traces, random_sequences
from strategies import graphs_and_actions

import hvil
from hvil.analysis.effects import postconditions
from hvil.analysis.gap import elbo_gap
from hvil.cli.main import main
from hvil.data.effect_fields import EffectField, effect_fields, feature_columns
from hvil.data.inputs import suitable_inputs
from hvil.data.tasks import find_task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.config import Config
from hvil.learners.exact import inference
from hvil.learners.exact.objective import evaluated, exact_objective
from hvil.learners.hvil import HvilLearner
from hvil.learners.objective.estimators import ESTIMATORS
from hvil.learners.settings import HvilSettings, TrainingSettings
from hvil.machine.callgraph import CallGraph
from hvil.training.checkpoints import Checkpoints
from hvil.training.loop import Hooks, train
from test_exact_start import all_structures, enumerated_minimum, of_walks
from test_hvil_oracle import assert_equals_naive_twin

WEIGHT = 0.7
NAMES = ("kind=a", "kind=b", "kind=c", "open", "shut", "x", "y")
FIELDS = (
    EffectField(name="kind", kind="category", columns=(0, 1, 2), labels=("a", "b", "c")),
    EffectField(name="open", kind="truth", columns=(3,)),
    EffectField(name="shut", kind="truth", columns=(4,)),
    EffectField(name="x", kind="number", columns=(5,)),
    EffectField(name="y", kind="number", columns=(6,)),
)


def mixed_traces(graph: CallGraph, sequences: list[list[int]], seed: int = 0, annotated: float = 0) -> Traces:
    """Traces whose observations have a field of each kind; the category is missing now and then."""
    traces = make_traces(graph, sequences, seed, shape=(len(NAMES),), annotated=annotated)
    rng, rows = np.random.default_rng(seed), len(traces.observations)
    observations = traces.observations.copy()
    observations[:, :3] = np.eye(4)[rng.integers(4, size=rows), :3]
    observations[:, 3:5] = rng.integers(2, size=(rows, 2))
    return replace(traces, observations=observations, observation_names=NAMES)


def learner_with_effects(
    graph: CallGraph, seed: int = 0, fields: tuple[EffectField, ...] = FIELDS, **options: Any
) -> HvilLearner:
    learner = make_learner(graph, (len(NAMES),), seed, effect_fields=fields, effects=WEIGHT, **options)
    effects = learner.policy_network.effects
    assert effects is not None
    with torch.no_grad():
        effects.location.normal_(std=0.1)
        effects.log_variance.normal_()
    return learner


@pytest.mark.parametrize("estimator", ESTIMATORS.names())
@pytest.mark.parametrize("name", GRAPHS)
def test_every_path_equals_the_naive_twin(name: str, estimator: str) -> None:
    graph = GRAPHS[name]
    learner = learner_with_effects(graph, estimator=estimator, samples=2, baseline="leave-one-out")
    assert_equals_naive_twin(learner, mixed_traces(graph, random_sequences(graph, [4, 1, 3])))


@pytest.mark.parametrize("estimator", ESTIMATORS.names())
def test_annotated_steps_equal_the_naive_twin(estimator: str) -> None:
    graph = GRAPHS["restricted"]
    traces = mixed_traces(graph, random_sequences(graph, [5, 3]), annotated=0.5)
    assert_equals_naive_twin(learner_with_effects(graph, annotations="use", estimator=estimator), traces)


@settings(max_examples=20)
@given(graphs_and_actions(max_length=4), st.integers(0, 10**6), st.sampled_from(ESTIMATORS.names()))
def test_random_graphs_equal_the_naive_twin(case: tuple[CallGraph, list[int]], seed: int, estimator: str) -> None:
    graph, actions = case
    traces = mixed_traces(graph, [actions, actions[:1]], seed)
    assert_equals_naive_twin(learner_with_effects(graph, seed, estimator=estimator), traces)


@settings(max_examples=20)
@given(
    graphs_and_actions(max_length=3, max_procedures=3, max_depth=3),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.5, -0.1]),
)
def test_the_exact_objective_is_the_minimum_over_all_structures(
    case: tuple[CallGraph, list[int]], seed: int, weight: float
) -> None:
    graph, actions = case
    traces = mixed_traces(graph, [actions, *random_sequences(graph, [2], seed)], seed)
    learner = learner_with_effects(graph, seed, length_price=0.2)
    ours = exact_objective(learner.policy_network, traces, learner.config, weight)
    wanted = enumerated_minimum(learner, traces, weight)
    assert ours.loss.item() == pytest.approx(wanted.item(), rel=1e-4, abs=1e-4)
    expected = gradient(learner, wanted)
    np.testing.assert_allclose(
        gradient(learner, ours.loss), expected, rtol=1e-3, atol=1e-4 * max(1, np.abs(expected).max())
    )


@pytest.mark.parametrize("name", GRAPHS)
def test_the_elbo_is_below_log_p_by_the_divergence_of_the_posterior(name: str) -> None:
    graph = GRAPHS[name]
    learner, trace = learner_with_effects(graph), mixed_traces(graph, random_sequences(graph, [3]))
    terms = all_structures(learner, trace)
    log_joint, log_q = of_walks(terms, terms.log_p), of_walks(terms, terms.log_q)
    log_p = torch.logsumexp(log_joint, 0).item()
    divergence = (log_q.exp() * (log_q - (log_joint - log_p))).sum().item()
    elbo = -enumerated(learner, trace, 0.0).objective.item()
    assert divergence > 0
    assert elbo == pytest.approx(log_p - divergence, abs=1e-4)
    with torch.no_grad():
        exact = inference.log_likelihood(*evaluated(learner.policy_network, trace, learner.config)).item()
    assert exact == pytest.approx(log_p, abs=1e-4)
    gap = elbo_gap(learner, trace, 4000, np.random.default_rng(0))
    assert gap.elbo[0] == pytest.approx(elbo, abs=5 * gap.elbo_error[0])
    assert gap.posterior_kl[0] == pytest.approx(divergence, abs=5 * gap.posterior_kl_error[0])


@pytest.mark.parametrize(
    ("name", "annotated", "estimator"),
    [("recursive", 0.0, "rao-blackwell"), *(("restricted", 0.5, estimator) for estimator in ESTIMATORS.names())],
)
def test_mean_gradient_is_the_gradient_of_the_expected_cost(name: str, annotated: float, estimator: str) -> None:
    graph = GRAPHS[name]
    learner = learner_with_effects(graph, 1, annotations="use", entropy_weight=0.4, estimator=estimator)
    trace = mixed_traces(graph, random_sequences(graph, [3], seed=1), 2, annotated)
    exact = gradient(learner, enumerated(learner, trace, 0.4).objective)
    assert_unbiased(learner, trace, exact, copies=100)


def test_effects_are_probabilities() -> None:
    effects = learner_with_effects(GRAPHS["tree"]).policy_network.effects
    assert effects is not None
    outcomes = torch.zeros(12, len(NAMES))
    outcomes[torch.arange(12), torch.arange(12) % 3] = 1
    outcomes[:, 3] = torch.arange(12) // 3 % 2
    outcomes[:, 4] = torch.arange(12) // 6
    grid = torch.linspace(-30, 30, 4001)
    without_numbers = effects.log_prob(outcomes) - effects.log_prob(torch.zeros(1, len(NAMES)))
    alone = [torch.zeros(len(grid), len(NAMES)) for _ in range(2)]
    alone[0][:, 5], alone[1][:, 6] = grid, grid
    base = effects.log_prob(torch.zeros(1, len(NAMES))).double()
    total = (without_numbers.double() + base).exp().sum(dim=0)  # times the densities of both numbers at 0
    for values in alone:
        total = total * torch.trapezoid((effects.log_prob(values).double() - base).exp(), grid.double(), dim=0)
    torch.testing.assert_close(total, torch.ones_like(total), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("fields", [FIELDS, FIELDS[:3], FIELDS[3:]], ids=["all", "no number", "no category"])
def test_a_run_that_pauses_ends_with_the_same_bits(fields: tuple[EffectField, ...], tmp_path: Path) -> None:
    graph = GRAPHS["tree"]
    traces = mixed_traces(graph, random_sequences(graph, [1, 2, 3, 2]))
    training = TrainingSettings(updates=8, batch_size=2)
    whole, halved = (learner_with_effects(graph, fields=fields, exact_start=3) for _ in range(2))
    train(whole, traces, training)
    for until in (2, 5, None):
        hooks = Hooks(checkpoints=Checkpoints(tmp_path / "checkpoint", {}))
        train(halved, traces, training, hooks, resume=True, until=until)
    for (name, one), other in zip(whole.named_parameters(), halved.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, msg=name)


def test_what_an_effect_is_about_follows_from_names_and_traces() -> None:
    graph = GRAPHS["tree"]
    traces = mixed_traces(graph, random_sequences(graph, [4, 6, 5]))
    assert effect_fields(traces, None, "mlp") == FIELDS
    named = effect_fields(traces, None, "convnet")
    assert [field.name for field in named] == ["kind", "open", "shut"]
    constant = traces.observations.copy()
    constant[:, 5] = np.repeat([1.0, 2.0, 3.0], traces.lengths + 1)
    fields = effect_fields(replace(traces, observations=constant), None, "mlp")
    assert [field.name for field in fields] == ["kind", "open", "shut", "y"]
    two = traces.observations.copy()
    two[:, :3] = 1 - two[:, :3]
    assert [field.kind for field in effect_fields(replace(traces, observations=two), None, "mlp")][:3] == ["truth"] * 3


def test_effects_on_own_data_are_about_what_the_networks_see() -> None:
    observations = np.array([[3.0, 0.1], [5.0, 10.2], [3.0, 9.7], [7.0, 4.4]])
    traces = Traces(observations, np.array([0, 1]), np.array([0, 1, 2]), ("a", "b"), ("gear", "speed"))
    inputs = suitable_inputs(traces)
    category, number = effect_fields(traces, inputs, "mlp")
    assert (category.kind, category.labels, category.columns) == ("category", ("3", "5", "7"), (0, 1, 2))
    assert (number.kind, number.name, number.columns) == ("number", "speed", (3,))
    assert [column.field for column in feature_columns(traces.observation_names, 2, inputs)] == ["gear"] * 3 + ["speed"]


def test_the_effect_of_a_digit_is_about_the_digit_and_not_about_pixels() -> None:
    task = find_task("mnist-parity:0.7")
    (digit,) = effect_fields(task.demonstrations(30, 0), None, "convnet")
    assert (digit.name, digit.kind, len(digit.labels)) == ("digit", "category", 10)
    assert effect_fields(task.demonstrations(30, 0), None, "mlp") == (digit,)


def test_pictures_alone_have_no_effects() -> None:
    graph = GRAPHS["tree"]
    traces = make_traces(graph, [[0, 1]], shape=(16, 16))
    with pytest.raises(InputError, match="effects need observations that change within a trace and are not pixels"):
        Config.of(traces, graph, HvilSettings(network="convnet", effects=1.0))


def test_the_configuration_keeps_the_fields() -> None:
    graph = GRAPHS["tree"]
    traces = mixed_traces(graph, random_sequences(graph, [4, 6]))
    config = Config.of(traces, graph, HvilSettings(effects=0.5))
    mapping = json.loads(json.dumps(config.to_mapping()))
    assert Config.from_mapping(mapping, "config.json") == config
    assert config.effect_fields == FIELDS
    for wrong in ([{"name": "x", "kind": "number", "columns": [7]}], [{"name": "x", "kind": "odd", "columns": [1]}], 3):
        with pytest.raises(InputError, match="effect_fields"):
            Config.from_mapping({**mapping, "effect_fields": wrong}, "config.json")


@pytest.mark.parametrize("model", ["hvil", "exact"])
def test_effects_are_learned_and_a_run_keeps_them(model: str, tmp_path: Path) -> None:
    """Two routines of one action each; what is seen afterwards depends on the routine alone."""
    rng = np.random.default_rng(0)
    cue = rng.integers(2, size=60)
    observations = np.zeros((120, 4), np.float32)
    observations[0::2, 0] = cue
    observations[1::2, 2:] = np.eye(2)[cue]
    names = ("cue", "never", "end=left", "end=right")
    traces = Traces(observations, cue, np.arange(61), ("l", "r"), names)
    graph = {"root": {"calls": ["one", "two"], "actions": []}, "one": {}, "two": {}}
    options: dict[str, Any] = {"samples": 4, "baseline": "leave-one-out"} if model == "hvil" else {}
    run = hvil.fit(
        traces, {"root": "root", "procedures": graph}, model=model, effects=1.0, updates=150, learning_rate=0.01,
        hidden=8, entropy_weight=0.0, open_loop_leaves=True, validation=0.0, out=tmp_path / "run", **options,
    )  # fmt: skip
    effects = hvil.load(tmp_path / "run").learner.policy_network.effects
    ends = effects.log_prob(torch.from_numpy(np.eye(4, dtype=np.float32)[2:])).exp()[:, 1:]
    assert sorted(ends.argmax(dim=0).tolist()) == [0, 1]
    assert ends.max(dim=0).values.min() > 0.8
    assert run.evaluate(traces).error.value == 0
    said = postconditions(run.learner)
    ends = {text.split(" and ")[-1].split(" (")[0] for name, text in said.items() if name != "root"}
    assert ends == {"end left", "end right"}


def test_commands_say_what_procedures_return_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces = find_task("karel:A").demonstrations(10, 0)
    run = hvil.fit(
        traces, "tree:2x2", effects=0.5, updates=1, hidden=4, context=3, exact_start=0, restarts=1, prune=False,
        out=tmp_path / "run",
    )  # fmt: skip
    effects = run.learner.policy_network.effects
    first = effects.fields[0].name
    with torch.no_grad():
        effects.location.zero_()
        effects.location[1, 0] = 1.0
    run.save(tmp_path / "sure")
    name, file = run.config.graph.procedures[1], str(tmp_path / "segments.parquet")
    wanted = f"{name} returns with {first}"
    assert main(["infer", str(tmp_path / "sure"), "karel:A", "--traces", "5", "--out", file]) == 0
    assert wanted in capsys.readouterr().out
    table = pq.read_table(file).to_pydict()
    assert set(zip(table["procedure"], table["effect"], strict=True)) <= {
        (name, first), *((other, "") for other in run.config.graph.procedures), (None, None),
    }  # fmt: skip
    assert main(["explain", str(tmp_path / "sure"), "--rollouts", "20", "--fresh", "10"]) == 0
    assert f"# effect: {wanted}" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "sure"), "--episodes", "1"]) == 0
    assert f'"effects":[["{name}","{first}"]]' in (tmp_path / "sure" / "report.html").read_text(encoding="utf-8")


def test_postconditions_say_what_is_sure() -> None:
    learner = learner_with_effects(GRAPHS["tree"])
    effects = learner.policy_network.effects
    assert effects is not None
    assert postconditions(object()) == postconditions(make_learner(GRAPHS["tree"])) == {}
    with torch.no_grad():
        effects.location.zero_()
        effects.log_variance.zero_()
        effects.location[1] = torch.tensor([0.5, 0.0, -0.5, 0.4, -0.4, 0.3, 0.0])
        effects.log_variance[1, 0] = -9.0
        effects.location[2, :3] = torch.tensor([0.5, 0.5, 0.0])
    names = learner.config.graph.procedures
    # Two of three values are more than half of them, so nothing is said of the third procedure.
    assert postconditions(learner) == {names[1]: "kind a (99%) and open and not shut and x 3 ± 0.2"}


def test_numbers_are_said_in_the_units_of_the_data() -> None:
    observations = np.array([[0.0, 10.0], [5.5, 30.0], [3.0, 20.0], [7.2, 40.0]])
    traces = Traces(observations, np.array([0, 1]), np.array([0, 1, 2]), ("a", "b"), ("gear", "speed"))
    inputs = replace(suitable_inputs(traces), values=((), ()), means=(4.0, 25.0), scales=(2.0, 10.0))  # type: ignore[type-var]
    learner = HvilLearner(Config.of(traces, "tree:2x2", HvilSettings(effects=1.0, hidden=4, context=3), inputs=inputs))
    effects = learner.policy_network.effects
    assert effects is not None
    with torch.no_grad():
        effects.location[0] = torch.tensor([0.0, 0.05])
        effects.log_variance[0] = torch.tensor([0.0, -9.0])
    assert postconditions(learner) == {learner.config.graph.procedures[0]: "speed 30 ± 2"}
