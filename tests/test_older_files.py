"""Runs and trace files that version 0.1 wrote still load, and mean what they meant."""

import json
import shutil
from pathlib import Path

import pytest

import hvil
from hvil.cli.main import main
from hvil.data.tasks import find_task

OLDER = Path(__file__).parent / "data" / "v0.1"


@pytest.mark.parametrize("name", ["hvil", "exact", "lstm", "feedforward", "stackrnn"])
def test_a_run_evaluates_as_it_did(name: str) -> None:
    run = hvil.load(OLDER / name)
    assert run.config.learner == name
    then = json.loads((OLDER / name / "evaluation.json").read_text(encoding="utf-8"))
    now = run.evaluate(find_task("karel:F").test_demonstrations(20, 3)).to_mapping()
    for measure in ("error", "rollout_success", "log_likelihood", "php_steps_per_action"):
        if then[measure] is not None:
            assert now[measure] == pytest.approx(then[measure], rel=1e-4), measure
    assert now["procedures"] == pytest.approx(then["procedures"])


def test_a_run_of_own_data_evaluates_as_it_did() -> None:
    run = hvil.load(OLDER / "own")
    assert run.config.inputs is not None
    then = json.loads((OLDER / "own" / "evaluation.json").read_text(encoding="utf-8"))
    now = run.evaluate(hvil.load_traces(OLDER / "log.csv"), rollouts=False)
    assert now.error.value == then["error"] == 1.0


@pytest.mark.parametrize("name", ["karel.npz", "sort.parquet"])
def test_a_trace_file_loads(name: str) -> None:
    traces = hvil.load_traces(OLDER / name)
    task = find_task(traces.attributes["task"])
    assert traces == task.demonstrations(6, 1)


def test_the_commands_take_an_older_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(shutil.copytree(OLDER / "hvil", tmp_path / "run"))
    assert main(["infer", run, str(OLDER / "karel.npz"), "--out", str(tmp_path / "steps.npz")]) == 0
    assert main(["report", run, "--episodes", "1"]) == 0
    capsys.readouterr()
