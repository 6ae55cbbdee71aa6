"""A user's own domain: registered by name, it works in every command like ours."""

import json
from pathlib import Path

import pytest
from corridor import CorridorTask

from hvil.cli.main import main
from hvil.data.tasks import DOMAINS, Task, UnknownTask, find_task
from hvil.data.trace_files import load
from hvil.gate.errors import InputError

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def corridor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The domain `corridor`, for one test."""
    monkeypatch.setattr(DOMAINS, "_registered", {})
    DOMAINS.register("corridor", CorridorTask)


@pytest.mark.usefixtures("corridor")
def test_a_registered_domain_is_found_by_its_name() -> None:
    task = find_task("corridor:6")
    assert isinstance(task, Task)
    assert task.name == "corridor:6"
    assert find_task("corridor").name == "corridor:4"
    assert task.test_demonstrations(5, 0) != task.demonstrations(5, 0)
    with pytest.raises(InputError, match="corridor:x: expected the number of cells"):
        find_task("corridor:x")
    with pytest.raises(UnknownTask, match=r"valid tasks: bubblesort .*, corridor, corridor:N$"):
        find_task("coridor")
    with pytest.raises(InputError, match="there is a domain named 'karel' already"):
        DOMAINS.register("karel", CorridorTask)


def test_what_is_not_registered_is_no_task() -> None:
    with pytest.raises(UnknownTask, match="'corridor': no such task"):
        find_task("corridor")


@pytest.mark.usefixtures("corridor")
def test_the_commands_work_with_a_registered_domain(tmp_path: Path, capsys: Capture) -> None:
    file, run = tmp_path / "corridor.npz", str(tmp_path / "run")
    assert main(["demos", "corridor:3", "--count", "7", "--out", str(file)]) == 0
    assert load(file) == CorridorTask(3).demonstrations(7, 0)
    assert main(["fit", "corridor", "--out", run, "--test-traces", "20"]) == 0
    capsys.readouterr()
    assert main(["evaluate", run, "--traces", "10", "--json"]) == 0
    evaluation = json.loads(capsys.readouterr().out)
    assert evaluation["updates"] == CorridorTask().defaults["updates"], "the task's own defaults hold"
    assert 0 <= evaluation["rollout_success"] <= 1
    assert main(["evaluate", run, str(file), "--json"]) == 0
    assert main(["explain", run]) == 0
    assert main(["report", run]) == 0
