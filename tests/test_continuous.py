"""Continuous actions from a file to a report: data, learners, policies, evaluation, explanation, runs."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from continuous import GRAPHS, NUMBERS, vector_config, vector_traces

import hvil
from hvil.analysis.evaluation import evaluate
from hvil.analysis.explain.explanation import Explanation
from hvil.cli.main import main
from hvil.data.formats.recognition import Columns
from hvil.data.formats.tables import traces_from_table
from hvil.data.segments import segment_annotations
from hvil.data.settings import DataSettings
from hvil.data.sources import Data, traces_from
from hvil.data.traces import ACT, Traces, concatenate
from hvil.gate.errors import InputError
from hvil.learners import LEARNERS
from hvil.learners.config import Config
from hvil.learners.exact_learner import ExactLearner
from hvil.learners.registry import build
from hvil.learners.settings import ExactSettings
from hvil.training.inspection import inspect
from hvil.training.plan import make_plan


def example(name: str) -> ModuleType:
    path = Path(__file__).parents[1] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestData:
    def test_vectors_are_one_kind_of_action(self) -> None:
        traces = vector_traces([3, 2])
        assert traces.action_names == (ACT,)
        assert traces.vector_names == NUMBERS
        assert traces.actions.tolist() == [0] * 5
        assert traces.vectors is not None
        assert traces.vectors.dtype == np.float32
        assert "actions of 2 number(s)" in repr(traces)
        rows = traces.vector_rows()
        assert rows.shape == (7, 2)
        assert (rows[[3, 6]] == 0).all()
        np.testing.assert_array_equal(rows[4:6], traces.vectors[3:])

    def test_parts_keep_their_vectors(self) -> None:
        traces = vector_traces([3, 2, 4])
        assert concatenate([traces[:1], traces[1:]]) == traces
        assert traces[[2, 0]] != traces[[0, 2]]
        assert len(set(vector_traces([2, 2], equal=True).contents())) == 2

    @pytest.mark.usefixtures("no_type_checks")
    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"vectors": np.zeros((4, 2))}, "4 vectors for 5 actions"),
            ({"vectors": np.zeros((5, 2), int)}, "continuous actions must be rows of fractions"),
            ({"vectors": np.full((5, 2), np.inf)}, "trace 0, step 0: the action has a value that is not finite"),
            ({"vector_names": ("a",)}, "1 names for actions of 2 number"),
            ({"action_names": ("a", "b")}, "continuous actions have one kind"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, changed: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            replace(vector_traces([3, 2]), **changed)

    @pytest.mark.parametrize("ending", [".npz", ".parquet"])
    def test_a_file_gives_the_same_traces(self, tmp_path: Path, ending: str) -> None:
        traces = vector_traces([3, 2])
        hvil.save_traces(traces, tmp_path / f"t{ending}")
        assert hvil.load_traces(tmp_path / f"t{ending}") == traces

    def test_a_minari_data_set_gives_the_same_traces(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
        traces = vector_traces([3, 2])
        hvil.save_traces(traces, "minari:hvil/vectors-v0")
        assert hvil.load_traces("minari:hvil/vectors-v0") == traces

    def test_pairs_of_arrays_give_traces(self) -> None:
        traces = traces_from([(np.zeros((3, 2)), np.array([[0.5], [1.0]]))], DataSettings())
        assert traces.vectors is not None
        assert traces.vectors.tolist() == [[0.5], [1.0]]

    @pytest.mark.parametrize(
        ("columns", "action", "names"),
        [
            ({"action.x": [0.5, 1.0, None], "action.y": [1, 2, None]}, "action", ("x", "y")),
            ({"u": [0.5, 1.0, None], "v": [1, 2, None]}, "u,v", ("u", "v")),
            ({"u": [0.5, 1.0, None]}, "u,", ("u",)),
            ({"action": [[0.5, 1.0], [1.0, 2.0], None]}, "action", ("0", "1")),
        ],
    )
    def test_columns_of_a_table(self, columns: dict[str, Any], action: str, names: tuple[str, ...]) -> None:
        table = pa.table({"trace": [1, 1, 1], "observation.o": [0.0, 1.0, 2.0], **columns})
        traces = traces_from_table(table, Columns(action=action))
        assert traces.vector_names == names
        assert traces.vectors is not None
        assert traces.vectors[:, 0].tolist() == [0.5, 1.0]

    def test_gaps_in_a_continuous_action_are_refused(self) -> None:
        table = pa.table({"trace": [1, 1, 1], "observation.o": [0.0, 1.0, 2.0], "action.x": [0.5, None, None]})
        with pytest.raises(InputError, match=r"trace 0, step 1: no value in the column 'action.x'"):
            traces_from_table(table)

    def test_inspect_says_what_the_actions_are(self) -> None:
        inspection = inspect(vector_traces([3, 2]))
        assert [column.name for column in inspection.continuous] == list(NUMBERS)
        assert "only one action" not in " ".join(inspection.oddities)


def scripted(count: int = 30, seed: int = 0) -> Traces:
    """Two phases: while x < 0 go right at twice the distance to 1, then down for ever; T is told by the clock."""
    rng = np.random.default_rng(seed)
    observations, vectors = [], []
    for _ in range(count):
        seen, did = [np.array([rng.uniform(-3, -1), rng.uniform(-1, 1), 0.0])], []
        for time in range(6):
            x, y, _ = seen[-1]
            did.append(np.array([2 * (1 - x), 0.0]) if x < 0 else np.array([0.0, -3.0]))
            seen.append(np.array([x + 0.25 * did[-1][0], y + 0.25 * did[-1][1], (time + 1) / 6]))
        observations.append(np.array(seen, dtype=np.float32))
        vectors.append(np.array(did) + 0.02 * rng.normal(size=(6, 2)))
    return Traces.from_episodes(observations, vectors, NUMBERS, ("x", "y", "clock"))


@pytest.fixture(scope="module")
def run() -> hvil.Run:
    return hvil.fit(
        scripted(),
        {"root": "main", "procedures": {"main": {"calls": ["a", "b"], "actions": []}, "a": {}, "b": {}}},
        model="exact",
        updates=250,
        learning_rate=0.02,
        batch_size=10,
        hidden=8,
        frame_inputs="last",
        seed=1,
        validation=0.0,
        patience=0,
    )


class TestExample:
    @pytest.mark.parametrize("name", ["waypoints", "pendulum"])
    def test_scripts_succeed_and_what_they_see_does_not_give_their_phase_away(self, name: str) -> None:
        module = example("continuous")
        task = module.TASKS[name]

        class Demonstrator:
            def reset(self, count: int) -> None:
                self.scripts = [task.script() for _ in range(count)]

            def act(self, observations: np.ndarray) -> np.ndarray:
                chosen = [script.act(seen) for script, seen in zip(self.scripts, observations, strict=True)]
                still = np.full(task.environment().action_space.shape, np.nan)
                return np.array([still if one is None else one[1] for one in chosen])

        assert module.success(Demonstrator(), task, 30, seed=0) == 1.0
        traces = module.collect(task, 20, seed=0)
        reactive = 0
        for trace in traces:
            phases = trace.annotations.stacks[:, 1] - 1
            fresh = [task.script().act(seen) for seen in trace.observations[:-1]]
            reactive += all(one is not None and one[0] == phase for one, phase in zip(fresh, phases, strict=True))
        assert reactive < len(traces), "a script without memory would do the same"


class TestPlan:
    def test_procedures_that_act_begin_with_an_exact_start_and_no_entropy(self) -> None:
        plan = make_plan(Data(training=scripted(), test=None, task=None), {})
        model = plan.config.model
        assert (model.exact_start, model.frame_inputs, model.action_start) == (250, "last", "fitted")
        assert [model.entropy_weight_at(update) for update in (0, 1, 99)] == [0.0, -0.5, -0.5]
        assert plan.config.training.learning_rate == 0.01
        assert "laws" in plan.reasons["learning_rate"]

    def test_long_traces_annotations_and_other_learners_do_not(self) -> None:
        data = Data(training=scripted(), test=None, task=None)
        assert make_plan(data, {"exact_length": 5}).config.model.exact_start == 0
        assert make_plan(data, {"model": "lstm"}).config.training.learning_rate == 0.001
        steps = len(data.training.actions)
        annotations = segment_annotations(("a",), np.zeros(steps, dtype=np.int64), data.training.offsets)
        annotated = data._replace(training=replace(data.training, annotations=annotations))
        assert make_plan(annotated, {}).config.model.exact_start == 0
        assert make_plan(annotated, {"annotations": "ignore"}).config.model.exact_start == 250


class TestPolicies:
    @pytest.mark.parametrize("name", ["hvil", "exact", "lstm", "feedforward", "stackrnn"])
    def test_every_learner_learns_and_acts(self, name: str) -> None:
        traces = scripted(6)
        torch.manual_seed(0)
        config = Config.of(traces, "tree:2x2", LEARNERS[name]())
        learner = build(config)
        optimiser = torch.optim.Adam(learner.parameters(), lr=0.01)
        losses = []
        for update in range(8):
            loss = learner.loss(traces, np.random.default_rng(0), update).total
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        assert all(parameter.grad is not None for parameter in learner.parameters())
        policy = learner.policy()
        policy.reset(6, seed=1)
        first = traces.observations[traces.row_offsets[:-1]]
        batch = policy.act(first)
        assert batch.shape == (6, 2)
        policy.reset()
        single = policy.act(first[2])
        np.testing.assert_allclose(single, batch[2], rtol=1e-4, atol=1e-4)
        policy.reset(6, seed=1)
        assert not np.allclose(policy.act(first, greedy=False), batch)
        along = policy.vectors_along(traces)
        assert along.shape == traces.vectors.shape
        np.testing.assert_allclose(along[traces.offsets[:-1]], batch, rtol=1e-4, atol=1e-4)

    def test_the_end_is_not_a_number(self, run: hvil.Run) -> None:
        policy = run.policy
        policy.reset()
        over = []
        for observation in scripted(1, seed=9).observations:
            action = policy.act(observation)
            over.append(bool(np.isnan(action).all()))
            assert policy.ended == over[-1]
        assert over == [False] * 6 + [True]

    def test_the_units_of_the_data_do_not_matter(self) -> None:
        """The same data in other units: the same gradients, and a density that is less by the units' logarithm."""
        traces = scripted(5)
        large = replace(traces, vectors=traces.vectors * np.float32(1000))
        results = []
        for each in (traces, large):
            torch.manual_seed(0)
            learner = ExactLearner(vector_config(GRAPHS["tree"], each, ExactSettings(hidden=5)))
            results.append((learner.loss(each, np.random.default_rng(0), 0).total.item(), learner.log_density(each)))
        assert results[0][0] == pytest.approx(results[1][0], rel=1e-5)
        assert results[0][1] - results[1][1] == pytest.approx(2 * len(traces.actions) * np.log(1000), rel=1e-5)

    def test_other_actions_are_refused(self, run: hvil.Run) -> None:
        other = replace(scripted(2), vector_names=("fx", "gy"))
        with pytest.raises(InputError, match="continuous actions fx, gy; the model has continuous actions fx, fy"):
            run.config.check(other)


class TestAnalysis:
    def test_evaluation_measures_vectors(self, run: hvil.Run) -> None:
        evaluation = evaluate(run.learner, scripted(10, seed=5))
        assert evaluation.error.value == 0
        assert evaluation.squared_error is not None
        assert evaluation.squared_error < 0.05
        assert evaluation.explained > 0.98
        mapping = evaluation.to_mapping()
        assert {"squared_error", "explained", "elbo"} <= mapping.keys()
        assert "squared error of actions" in repr(evaluation)

    def test_laws_are_the_scripts(self, run: hvil.Run) -> None:
        explanation = run.explain()
        laws = {law.name: law for of_procedure in explanation.laws.values() for law in of_procedure if law.terms}
        rule = laws["fx"]
        assert rule.faithful
        assert rule.terms[0] == (0, pytest.approx(-2, abs=0.2))
        assert rule.constant == pytest.approx(2, abs=0.3)
        assert "# acts: fx = " in explanation.commented
        again = Explanation.from_mapping(
            json.loads(json.dumps(explanation.to_mapping())), run.config.graph, None, run.config.observation_names
        )
        assert again.laws == explanation.laws
        assert again.commented == explanation.commented

    def test_a_law_that_is_not_linear_is_not_printed(self, run: hvil.Run) -> None:
        from hvil.analysis.explain.laws import _law

        seen = np.linspace(-1, 1, 200)[:, None]
        law = _law("fx", seen, np.sign(seen[:, 0]) * 3, 9.0)
        assert not law.faithful
        assert "no short linear rule" in law.text(run.explain().words)


class TestRuns:
    def test_a_killed_run_goes_on_to_the_same_bits(self, tmp_path: Path) -> None:
        settings: dict[str, Any] = {"hidden": 4, "context": 3, "batch_size": 4, "validation": 0.0, "patience": 0}
        traces = scripted(8)
        whole = hvil.fit(traces, updates=6, checkpoint_every=2, out=tmp_path / "whole", **settings)
        hvil.fit(traces, updates=4, checkpoint_every=2, out=tmp_path / "part", **settings)
        part = hvil.fit(traces, updates=6, checkpoint_every=2, out=tmp_path / "part", resume=True, **settings)
        for name, value in whole.learner.state_dict().items():
            assert torch.equal(value, part.learner.state_dict()[name]), name
        loaded = hvil.load(tmp_path / "whole")
        assert loaded.config.actions == whole.config.actions
        observation = traces.observations[0]
        np.testing.assert_array_equal(loaded.policy.act(observation), whole.policy.act(observation))

    def test_a_log_of_a_robot_is_read_and_explained(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        arguments, out = example("logs/reach_and_grasp").write(tmp_path, traces=12), tmp_path / "run"
        assert main(["inspect", *arguments]) == 0
        assert "continuous action" in capsys.readouterr().out
        assert main(["fit", *arguments, "--updates", "6", "--hidden", "6", "--out", str(out)]) == 0
        assert "squared error of actions" in capsys.readouterr().out
        assert main(["explain", str(out)]) == 0
        assert "vx_mm_s" in capsys.readouterr().out
