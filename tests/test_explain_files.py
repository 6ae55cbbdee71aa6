"""Programs as Python files: they act without hvil, play in their task's environment, and do what was measured."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripted_run import without_task
from table_policy import lamp_policy, lamp_traces, program_f, table_run

import hvil
from hvil.analysis.explain import Explanation, explain, python_file
from hvil.cli.main import main
from hvil.data.tasks import find_task
from hvil.data.traces import Traces

KAREL_F = find_task("karel:F")


@pytest.fixture(scope="module")
def explained() -> Explanation:
    return explain(program_f(), KAREL_F, episodes=300, fresh=200)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}


def test_the_python_file_runs_on_its_own(explained: Explanation, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(python_file(explained), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(path), "20", "3"], capture_output=True, text=True, cwd=tmp_path, env=_environment()
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "20 of 20 episodes on karel:F succeeded\n"


def test_a_written_program_that_does_nothing_is_stopped(explained: Explanation, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    text = python_file(explained).replace("        step()\n", "        pass\n")
    path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(path), "2"], capture_output=True, text=True, cwd=tmp_path, env=_environment()
    )
    assert done.stdout.startswith("0 of 2 episodes"), done.stderr


ALONG_TRACES = """
import importlib.util, json, sys

import numpy as np

sys.modules["hvil"] = None  # importing it would fail
spec = importlib.util.spec_from_file_location("program", sys.argv[1])
program = importlib.util.module_from_spec(spec)
spec.loader.exec_module(program)
traces = np.load(sys.argv[2])
done = []
for first, end in zip(traces["rows"], traces["rows"][1:]):
    memory = None
    for observation in traces["observations"][first:end]:
        action, memory = program.act(observation, json.loads(json.dumps(memory)))
        done.append(action)
print(json.dumps({"actions": program.ACTIONS, "done": done}))
"""


def _done_by_file(explanation: Explanation, traces: Traces, directory: Path) -> dict[str, list[Any]]:
    """What a written file does along traces in a Python without hvil; its memory is stored as JSON all the time."""
    (directory / "program.py").write_text(python_file(explanation), encoding="utf-8")
    (directory / "along.py").write_text(ALONG_TRACES, encoding="utf-8")
    np.savez(directory / "traces.npz", observations=traces.observations, rows=traces.row_offsets)
    arguments = [str(directory / name) for name in ("along.py", "program.py", "traces.npz")]
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result: dict[str, list[Any]] = json.loads(done.stdout)
    return result


def test_a_file_acts_without_an_environment_and_without_hvil(tmp_path: Path) -> None:
    traces = lamp_traces(60)
    explanation = explain(lamp_policy(traces), traces=traces)
    done = _done_by_file(explanation, traces, tmp_path)
    assert done == {"actions": list(traces.action_names), "done": traces.emitted().tolist()}
    assert explanation.source in python_file(explanation)
    assert "hvil" not in python_file(explanation).replace("hvil explain", "")


def test_a_file_does_what_the_runs_program_does(tmp_path: Path) -> None:
    """On the traces of another teacher, where the program is wrong now and then, and goes on nevertheless."""
    test = without_task(find_task("karel:D").demonstrations(40, 1))
    run = table_run(program_f(), without_task(KAREL_F.demonstrations(60, 0)), test)
    assert run.task is None
    assert 0 < run.program.wrong(test).mean() < 1
    expected = []
    for trace in test:
        run.program.reset()
        expected += [run.program.act(observation) for observation in trace.observations]
    assert _done_by_file(run.explain(), test, tmp_path)["done"] == expected


def test_the_command_writes_a_file_for_data_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces = lamp_traces(20)
    hvil.fit(traces, "chain:2", out=tmp_path / "run", updates=2, hidden=4, context=4, batch_size=4)
    file = tmp_path / "written.py"
    assert main(["explain", str(tmp_path / "run"), "--python", str(file)]) == 0
    out = capsys.readouterr().out
    assert f"# written to {file}" in out
    run = hvil.load(tmp_path / "run")
    assert run.program.source in file.read_text(encoding="utf-8")
    assert file.read_text(encoding="utf-8") == python_file(run.explain())
    expected = []
    for trace in traces:
        run.program.reset()
        expected += [run.program.act(observation) for observation in trace.observations]
    assert _done_by_file(run.explain(), traces, tmp_path)["done"] == expected


def test_a_file_of_a_task_acts_without_hvil_too(explained: Explanation, tmp_path: Path) -> None:
    traces = KAREL_F.demonstrations(20, 3)
    assert _done_by_file(explained, traces, tmp_path)["done"] == traces.emitted().tolist()


def test_words_of_a_program_may_be_names_of_its_file(tmp_path: Path) -> None:
    traces = replace(lamp_traces(60), action_names=("act", "INTERPRETER"), observation_names=("np", "observe"))
    explanation = explain(lamp_policy(traces), traces=traces)
    assert explanation.source == "def b_root():\n    while not np:\n        act()\n"
    assert _done_by_file(explanation, traces, tmp_path)["done"] == traces.emitted().tolist()
