"""The command `hvil explain`, and explanations that are kept: written to JSON, found again, never trusted."""

import json
import re
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from table_policy import flat_teacher, program_f

import hvil
from hvil.analysis.explain import ChoosesSteps, Explanation, explain, python_file
from hvil.analysis.explain.evidence import Recording, record
from hvil.cli.main import main
from hvil.data.tasks import Task, find_task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError

Capture = pytest.CaptureFixture[str]
KAREL_F = find_task("karel:F")


@pytest.fixture(scope="module")
def explained() -> Explanation:
    return explain(program_f(), KAREL_F, episodes=300, fresh=200)


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explain") / "run"
    traces = find_task("karel:B").demonstrations(5, 0)
    hvil.fit(traces, "tree:2x2", out=path, updates=2, hidden=8, context=4, batch_size=5)
    return path


def test_the_command_prints_program_and_fidelity(tiny_run: Path, tmp_path: Path, capsys: Capture) -> None:
    few = ["--rollouts", "30", "--fresh", "20"]
    assert main(["explain", str(tiny_run), *few, "--python", str(tmp_path / "p.py")]) == 0
    out = capsys.readouterr().out
    share = r"[\d.]+% \[[\d.]+, [\d.]+\]"
    assert re.match(r"(# this policy is too tangled to explain well: .*\n)?def root\(\):\n", out)
    assert re.search(
        rf"# \d+ lines; agrees with the policy on {share} and with the teacher on {share} of 20 fresh", out
    )
    assert re.search(r"\n# explains \d of 5 training traces\n", out)
    compile((tmp_path / "p.py").read_text(encoding="utf-8"), "p.py", "exec")
    assert main(["explain", str(tiny_run), *few, "--procedure", "root", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["source"].startswith(result["procedure"].rstrip("\n"))
    assert result["lines"] == len(result["source"].splitlines()) - (result["warning"] is not None)


def test_the_command_refuses_in_one_line(tiny_run: Path, tmp_path: Path, capsys: Capture) -> None:
    traces = find_task("karel:B").demonstrations(5, 0)
    hvil.fit(traces, "tree:2x2", out=tmp_path / "lstm", model="lstm", updates=1, units=4, layers=1)
    shutil.copytree(tiny_run, tmp_path / "empty")
    (tmp_path / "empty" / "model.safetensors").unlink()
    for arguments, message in [
        ([str(tmp_path / "lstm")], "this policy has no procedures to explain"),
        ([str(tmp_path / "empty")], "model.safetensors"),
        ([str(tmp_path)], "not a run directory"),
        ([str(tiny_run), "--procedure", "nobody"], "no procedure 'nobody'"),
        ([str(tiny_run), "--fresh", "0"], "at least 1"),
        ([str(tiny_run), "--seed", "-1"], "--seed -1"),
    ]:
        assert main(["explain", *arguments]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1, error


def test_a_run_keeps_its_explanation(tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"
    shutil.copytree(tiny_run, path)
    (path / "explanation.json").unlink(missing_ok=True)
    rolled_out = []

    def counted(policy: ChoosesSteps, traces: Traces, task: Task | None) -> Recording:
        rolled_out.append(len(traces))
        return record(policy, traces, task)

    monkeypatch.setattr("hvil.analysis.explain.evidence.record", counted)

    def explanation(**options: Any) -> Explanation:
        rolled_out.clear()
        return hvil.load(path).explain(**{"episodes": 20, "fresh": 10} | options)

    first = explanation()
    assert rolled_out == [20, 10]
    assert first.text.startswith("def root():")
    assert explanation() == first
    assert rolled_out == []
    assert explanation().summary() == first.summary()
    assert python_file(explanation()) == python_file(first)
    assert rolled_out == []
    assert explanation(again=True) == first
    assert rolled_out == [20, 10]
    explanation(fresh=9)
    assert rolled_out == [20, 9]
    run = hvil.load(path)
    with torch.no_grad():
        next(cast(torch.nn.Module, run.learner).parameters()).add_(1)
    rolled_out.clear()
    run.explain(episodes=20, fresh=9)
    assert rolled_out == [20, 9]
    (path / "explanation.json").write_text("{", encoding="utf-8")
    assert explanation() == first
    assert rolled_out == [20, 10]


def test_the_command_shows_what_the_library_has_kept(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    explanation = hvil.load(tiny_run).explain(episodes=15, fresh=10)
    monkeypatch.setattr("hvil.analysis.explain.evidence.record", None)
    assert main(["explain", str(tiny_run), "--rollouts", "15", "--fresh", "10"]) == 0
    assert capsys.readouterr().out.startswith(
        f"{explanation.commented}\n# {explanation.lines} lines; {explanation.fidelity}"
    )


@pytest.mark.parametrize("karel", [False, True])
def test_an_explanation_comes_back_from_json(karel: bool) -> None:
    first = explain(flat_teacher("B"), find_task("karel:B"), episodes=60, fresh=20, karel=karel)
    text = json.dumps(first.to_mapping(), allow_nan=False)
    again = Explanation.from_mapping(json.loads(text), first.graph, find_task("karel:B"))
    assert again == first
    assert python_file(again) == python_file(first)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("program", {"root": 0, "blocks": [[0, [{"step": 99}]]]}),
        ("program", {"root": 0, "blocks": [[0, [{"while": [[["os.system('x')", 0.5, False]]], "body": []}]]]}),
        ("program", {"root": 0, "blocks": [[0, [{"for": ["exit()", 1, 0], "body": []}]]]}),
        ("program", {"root": 7, "blocks": []}),
        ("kinds", ["truth"]),
        ("karel", {"source": "import os", "policy_agreement": 1, "teacher_agreement": 1}),
        ("episodes", "many"),
    ],
)
def test_words_that_are_not_the_policys_are_refused(explained: Explanation, name: str, value: object) -> None:
    with pytest.raises(InputError):
        Explanation.from_mapping(explained.to_mapping() | {name: value}, explained.graph, KAREL_F)


def test_progress_grows_to_the_end() -> None:
    shares: list[float] = []
    explain(program_f(), KAREL_F, episodes=20, fresh=10, progress=shares.append)
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] <= 1
