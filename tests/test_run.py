"""Runs from Python and from the command line: what they write, what they refuse, and that nothing is lost."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from toy_learner import toy_traces

import hvil
from hvil.cli.main import main
from hvil.data.settings import DataSettings
from hvil.data.sources import load_data, short_name
from hvil.data.tasks import find_task
from hvil.gate.errors import InputError
from hvil.learners import LEARNERS
from hvil.learners.config import Config
from hvil.learners.settings import HvilSettings, TrainingSettings
from hvil.training.observers import read_metrics

TRACES = toy_traces(20)
QUICK: dict[str, Any] = {
    "model": "feedforward",
    "units": 8,
    "updates": 12,
    "batch_size": 5,
    "checkpoint_every": 5,
    "patience": 0,
    "test_traces": 0,
    "validation": 0.0,
}
FLAGS = ["--model", "feedforward", "--units", "8", "--updates", "12", "--batch-size", "5", "--checkpoint-every", "5"]
KEYS = (
    "run",
    "error",
    "error_interval",
    "error_unseen",
    "rollout_success",
    "updates",
    "seconds",
    "php_steps_per_action",
)


def weights(run: hvil.Run) -> dict[str, torch.Tensor]:
    assert isinstance(run.learner, torch.nn.Module)
    return run.learner.state_dict()


def same_weights(a: hvil.Run, b: hvil.Run) -> bool:
    return all(torch.equal(x, y) for x, y in zip(weights(a).values(), weights(b).values(), strict=True))


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    found, out, err = command(capsys, *arguments)
    assert found == code, err
    assert out == "" or code == 1, "bad input is refused before anything is said"
    assert err.count("\n") == 1, "one clear line"
    assert "Traceback" not in err
    return err


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "finished"
    hvil.fit(TRACES[:15], test=TRACES[15:], out=out, **QUICK)
    return out


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copied"))


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "toy.npz"
    hvil.save_traces(TRACES, path)
    return str(path)


def test_a_run_directory_holds_what_the_design_says_and_loads_to_the_same_policy(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    assert names == {
        "config.json",
        "model.safetensors",
        "checkpoint",
        "metrics.jsonl",
        "run.toml",
        "traces.npz",
        "test.npz",
        ".lock",
    }
    run, again = hvil.load(finished), hvil.fit(TRACES[:15], **QUICK)
    assert again.path is None
    assert same_weights(run, again), "the same traces, settings and seed give the same weights"
    assert run.updates == 12
    assert run.seconds > 0
    assert run.data.training == TRACES[:15]
    assert "feedforward" in repr(run)
    np.testing.assert_array_equal(run.policy.wrong(TRACES), again.policy.wrong(TRACES))


def test_metrics_are_lines_of_json_with_errors_at_evaluations(finished: Path) -> None:
    lines = read_metrics(finished / "metrics.jsonl")
    assert [line["update"] for line in lines] == list(range(1, 13))
    assert all(np.isfinite(line["loss"]) for line in lines)
    assert {"error", "training_error"} <= lines[-1].keys()


def test_evaluation_tells_seen_traces_from_unseen_ones(finished: Path) -> None:
    evaluation = hvil.load(finished).evaluate(TRACES)
    assert evaluation.error.count == 20
    assert evaluation.error_unseen is not None
    assert evaluation.error_unseen.count == 5


def test_a_run_in_memory_can_be_saved(tmp_path: Path) -> None:
    run = hvil.fit(TRACES[:18], **QUICK | {"validation": TRACES[18:]})
    run.save(tmp_path / "saved")
    loaded = hvil.load(tmp_path / "saved")
    assert same_weights(run, loaded)
    assert (loaded.data.training, loaded.data.validation) == (TRACES[:18], TRACES[18:])
    with pytest.raises(InputError, match="exists already"):
        run.save(tmp_path / "saved")


def test_a_saved_run_keeps_its_validation_traces(tmp_path: Path) -> None:
    run = hvil.fit(TRACES[:15], **QUICK | {"validation": TRACES[15:]})
    run.save(tmp_path / "saved")
    assert hvil.load(tmp_path / "saved").data.validation == TRACES[15:]


def test_a_finished_run_can_be_prolonged(copied: Path) -> None:
    longer = QUICK | {"updates": 20}
    prolonged = hvil.fit(TRACES[:15], out=copied, resume=True, **longer)
    assert prolonged.updates == 20
    assert same_weights(prolonged, hvil.fit(TRACES[:15], **longer))
    assert [line["update"] for line in read_metrics(copied / "metrics.jsonl")] == list(range(1, 21))


def test_resuming_where_nothing_is_yet_starts_the_run(tmp_path: Path) -> None:
    (tmp_path / "begun").mkdir()
    for name in ("new", "begun"):
        assert hvil.fit(TRACES, out=tmp_path / name, resume=True, **QUICK).updates == 12


def test_what_cannot_be_resumed_is_refused_by_name(copied: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exists already"):
        hvil.fit(TRACES[:15], out=copied, **QUICK)
    with pytest.raises(InputError, match=r"another configuration: units \(9 and 8\)"):
        hvil.fit(TRACES[:15], out=copied, resume=True, **QUICK | {"units": 9})
    with pytest.raises(InputError, match="made with another data set"):
        hvil.fit(TRACES[1:16], out=copied, resume=True, **QUICK)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("precious", encoding="utf-8")
    with pytest.raises(InputError, match="not a run directory"):
        hvil.fit(TRACES, out=tmp_path / "other", resume=True, **QUICK)
    with pytest.raises(InputError, match="need a run directory"):
        hvil.fit(TRACES, resume=True, **QUICK)


def test_the_traces_of_a_refused_resume_are_not_overwritten(copied: Path) -> None:
    with pytest.raises(InputError):
        hvil.fit(TRACES[1:16], out=copied, resume=True, **QUICK)
    assert hvil.load(copied).data.training == TRACES[:15]


def test_settings_are_checked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown setting 'hiden'"):
        hvil.fit(TRACES, hiden=3)
    with pytest.raises(InputError, match="updates is -1"):
        hvil.fit(TRACES, updates=-1)
    with pytest.raises(InputError, match="without a call structure"):
        hvil.fit(TRACES, annotations="use", updates=1)
    with pytest.raises(InputError, match="layers is a setting of lstm, not of hvil"):
        hvil.fit(TRACES, layers=2)
    graph = {"root": "main", "procedures": {"main": {"actions": ["left"]}}}
    with pytest.raises(InputError, match="can emit 'right'"):
        hvil.fit(TRACES, graph, out=tmp_path / "never", **QUICK)
    assert not (tmp_path / "never").exists()


def spoil_nan(path: Path) -> None:
    tensors = load_file(path)
    next(iter(tensors.values())).view(-1)[0] = float("nan")
    save_file(tensors, path, {"hvil": '{"updates": 12}'})


def spoil_shape(path: Path) -> None:
    tensors = load_file(path)
    name = next(iter(tensors))
    save_file(tensors | {name: torch.zeros(3, 3)}, path, {"hvil": '{"updates": 12}'})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:100]), "truncated or damaged"),
        (lambda path: path.write_bytes(b""), "truncated or damaged"),
        (lambda path: save_file({"a": torch.zeros(1)}, path), "not a model of hvil"),
        (lambda path: path.unlink(), "no trained model yet"),
        (spoil_nan, "not finite"),
        (spoil_shape, "another configuration"),
    ],
)
def test_a_bad_model_file_is_refused(
    copied: Path, capsys: pytest.CaptureFixture[str], spoil: Any, message: str
) -> None:
    spoil(copied / "model.safetensors")
    assert message in refused(capsys, "evaluate", str(copied))


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "not a run directory" in refused(capsys, "evaluate", str(tmp_path))
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    assert "not JSON" in refused(capsys, "evaluate", str(tmp_path))


def test_fit_and_evaluate_print_the_promised_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "run")
    code, printed, err = command(
        capsys, "fit", "karel:A", "--demos", "4", "--test-traces", "20", *FLAGS, "--out", out, "--json"
    )
    assert code == 0, err
    fitted = json.loads(printed)
    assert set(KEYS) <= fitted.keys()
    assert fitted["run"] == out
    assert fitted["updates"] == 12
    assert fitted["error_interval"][0] <= fitted["error"] <= fitted["error_interval"][1]
    code, printed, err = command(capsys, "evaluate", out, "--json")
    assert code == 0, err
    evaluated = json.loads(printed)
    assert {key: evaluated[key] for key in KEYS if key != "seconds"} == {
        key: fitted[key] for key in KEYS if key != "seconds"
    }
    assert json.loads((tmp_path / "run" / "evaluation.json").read_text()) == evaluated

    code, printed, err = command(capsys, "evaluate", out, "karel:B", "--traces", "7", "--seed", "3")
    assert code == 0, err
    assert "of 7" in printed
    assert json.loads((tmp_path / "run" / "evaluation.json").read_text()) == evaluated, "the run's own result stays"
    assert json.loads((tmp_path / "run" / "evaluation-karel-B.json").read_text())["traces"] == 7
    resumed = command(
        capsys, "fit", "karel:A", "--demos", "4", "--test-traces", "20", *FLAGS, "--out", out, "--json", "--resume"
    )
    assert json.loads(resumed[1])["error"] == fitted["error"]


def test_a_trace_file_is_split_into_training_and_test_traces(
    trace_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    code, printed, err = command(
        capsys, "fit", trace_file, *FLAGS, "--out", str(out), "--json", "--call-graph", "chain:1"
    )
    assert code == 0, err
    result = json.loads(printed)
    assert result["traces"] == 4, "a fifth is held out"
    assert result["rollout_success"] is None
    run = hvil.load(out)
    assert run.data.test is not None
    assert run.data.validation is not None
    assert (len(run.data.training), len(run.data.validation)) == (14, 2), "a tenth of the rest is for early stopping"
    assert "toy.npz" in run.config.data.source


def test_without_test_traces_the_error_is_left_open(
    trace_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    code, printed, err = command(capsys, "fit", trace_file, *FLAGS, "--out", out, "--json", "--test-traces", "0")
    assert code == 0, err
    result = json.loads(printed)
    assert result["error"] is None
    assert 0 <= result["training_error"] <= 1


def test_a_file_that_names_its_task_is_tested_on_fresh_traces(tmp_path: Path) -> None:
    from hvil.data.tasks import find_task

    demonstrations = find_task("karel:A").demonstrations(6, 5)
    hvil.save_traces(demonstrations, tmp_path / "karel.npz")
    data = load_data(tmp_path / "karel.npz", DataSettings(demos=4, test_traces=9), seed=0)
    assert data.task is not None
    assert data.test is not None
    assert len(data.test) == 9
    assert data.training == demonstrations[:4]


def test_bad_input_of_fit_is_one_line(trace_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "never")]
    assert "no task and no trace file" in refused(capsys, "fit", "sorting", *FLAGS, *out)
    assert "no such file" in refused(capsys, "fit", "absent.npz", *FLAGS, *out)
    assert "--demos 0" in refused(capsys, "fit", "karel:A", "--demos", "0", *FLAGS, *out)
    assert "only 20 traces" in refused(capsys, "fit", trace_file, "--demos", "21", *FLAGS, *out)
    assert "call graph 'ring:3' is not known" in refused(capsys, "fit", trace_file, "--call-graph", "ring:3", *out)
    assert "seed" in refused(capsys, "fit", trace_file, "--seed", "-1", *out)
    graph = tmp_path / "graph.json"
    graph.write_text('{"procedures": {"main": {"actions": ["left"]}}}', encoding="utf-8")
    assert "can emit 'right'" in refused(capsys, "fit", trace_file, "--call-graph", str(graph), *FLAGS, *out)
    assert not (tmp_path / "never").exists(), "bad input leaves no directory behind"
    (tmp_path / "there").mkdir()
    assert "exists already" in refused(capsys, "fit", trace_file, *FLAGS, "--out", str(tmp_path / "there"))


def test_observations_of_another_width_are_refused(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = replace(TRACES, observations=np.zeros((len(TRACES.observations), 5), np.float32), observation_names=())
    hvil.save_traces(wide, tmp_path / "wide.npz")
    message = refused(capsys, "evaluate", str(finished), str(tmp_path / "wide.npz"))
    assert "observations of shape (5,); the model expects (3,)" in message
    renamed = replace(TRACES, action_names=("up", "down"))
    with pytest.raises(InputError, match="actions up, down; the model has left, right"):
        hvil.load(finished).evaluate(renamed)


def test_a_loss_that_is_not_finite_ends_with_code_1_and_the_last_good_checkpoint(
    trace_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from hvil.learners import baselines as recurrent

    honest = recurrent.FeedForwardLearner.loss

    def poisoned(self: Any, traces: Any, rng: Any, update: int) -> Any:
        loss = honest(self, traces, rng, update)
        return loss._replace(total=loss.total * float("inf")) if update == 7 else loss

    monkeypatch.setattr(recurrent.FeedForwardLearner, "loss", poisoned)
    out = tmp_path / "run"
    message = refused(capsys, "fit", trace_file, *FLAGS, "--out", str(out), code=1)
    assert "inf at update 8; the checkpoint of update 5 is kept" in message
    assert hvil.load(out).updates == 5, "the model of the last good checkpoint can be used"
    monkeypatch.undo()
    code, _, err = command(capsys, "fit", trace_file, *FLAGS, "--out", str(out), "--resume")
    assert code == 0, err


def test_a_config_survives_its_file() -> None:
    config = Config.of(TRACES, "tree:2x2", HvilSettings(hidden=7), TrainingSettings(clip=1.5), DataSettings("x.npz", 3))
    again = Config.from_mapping(json.loads(json.dumps(config.to_mapping())), "config.json")
    assert again == config
    assert again.digest == config.digest
    assert config.difference(replace(config, training=TrainingSettings(clip=1.5, updates=9))) is None
    assert "clip" in str(config.difference(replace(config, training=TrainingSettings())))


def test_the_defaults_of_tasks_name_settings_that_exist() -> None:
    names = {entry for name in LEARNERS.own for entry in LEARNERS[name].__dataclass_fields__}
    names |= {*TrainingSettings.__dataclass_fields__, *DataSettings.__dataclass_fields__}
    for name in ("bubblesort", "bubblesort:no-length", "karel:F", "mnist-parity:0.7", "thereandback", "treewalk"):
        assert find_task(name).defaults
        defaults = find_task(name).defaults
        assert defaults.keys() <= names | set(LEARNERS.own)
        for learner in set(LEARNERS.own) & defaults.keys():
            own = {*LEARNERS[learner].__dataclass_fields__, *TrainingSettings.__dataclass_fields__}
            assert defaults[learner].keys() <= own


def test_sources_have_short_names() -> None:
    assert short_name("karel:F") == "karel-F"
    assert short_name("data/my traces.npz") == "my-traces"
    assert re.fullmatch(r"[\w.-]+", short_name("minari:hvil/karel-a-v0"))


def test_tensorboard_files_are_written_when_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    hvil.fit(TRACES, out=tmp_path / "run", log="tensorboard", **QUICK)
    assert list((tmp_path / "run" / "tensorboard").iterdir())


def test_the_progress_bar_shows_error_loss_and_steps(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from hvil.training.observers import ProgressBar

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    bar = ProgressBar("hvil on karel:A")
    bar.begin(0, 10)
    bar.record({"update": 1, "error": 0.25})
    bar.tick(1, 3.5, {"php_steps_per_action": 1.5})
    bar.end()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)
    assert "1/10 loss 3.5  error 25.0%  steps/action 1.50" in shown
