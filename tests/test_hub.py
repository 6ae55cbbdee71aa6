"""Cards, and the way to the Hub and back, against a stand-in for it on loopback."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hub_server import TOKEN, HubServer, hub_server

import hvil
from hvil.cli.main import main
from hvil.training.card import card
from hvil.training.hub import push

HOSTILE = "</script>`|\n# owned [x](javascript:0)"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "walk"
    arguments = ["fit", "thereandback", "--updates", "2", "--restarts", "1", "--hidden", "4", "--context", "4"]
    assert main([*arguments, "--exact-start", "0", "--test-traces", "10", "--out", str(out), "--json"]) == 0
    return out


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with hub_server() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server


class TestCard:
    def test_it_says_data_errors_program_and_settings(self, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["card", str(run)]) == 0
        assert capsys.readouterr().out == f"{run / 'README.md'}\n"
        text = (run / "README.md").read_text(encoding="utf-8")
        assert text.startswith("---\nlibrary_name: ")
        evaluation = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))
        assert f"{100 * evaluation['error']:.1f}% [" in text
        assert "| source | `thereandback` |" in text
        assert "| updates | `2` |" in text
        assert "Not extracted yet" in text

    def test_it_shows_the_program_that_the_run_keeps(self, run: Path) -> None:
        opened = hvil.load(run)
        explanation = opened.explain(episodes=20, fresh=10)
        assert f"```python\n{explanation.text.strip()}\n\n# {explanation.fidelity}\n```" in card(opened)

    def test_names_from_data_stay_text(self) -> None:
        traces = hvil.Traces.from_episodes([np.zeros((3, 1))] * 4, [np.array([0, 1])] * 4, [HOSTILE, "b"])
        trained = hvil.fit(traces, updates=1, hidden=4, context=4, batch_size=4, validation=0, patience=0)
        text = card(trained)
        assert "\n# owned" not in text
        assert r"`` </script>`\|\u000a# owned [x](javascript:0) ``" in text, "in a code span, it is shown as it is"


def test_a_run_goes_to_the_hub_and_comes_back(
    run: Path, hub: HubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "traces.npz").write_bytes(b"private")
    assert main(["push", str(run), "me/walk", "--private"]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.strip() == f"{hub.address}/me/walk"
    assert "me/walk" in hub.private
    files = hub.repositories["me/walk"]
    assert {"README.md", "config.json", "model.safetensors", "run.toml", "evaluation.json"} <= files.keys()
    assert "traces.npz" not in files
    assert not any("checkpoint" in name for name in files)

    assert main(["pull", "me/walk", "--out", str(tmp_path / "theirs")]) == 0, capsys.readouterr().err
    fetched = hvil.load(tmp_path / "theirs")
    assert fetched.config == hvil.load(run).config
    assert (tmp_path / "theirs" / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["theirs"]
    assert hub.unknown == []


def test_a_report_on_traces_of_ones_own_stays_here_unless_somebody_asks_for_it(hub: HubServer, tmp_path: Path) -> None:
    traces = hvil.Traces.from_episodes([np.zeros((3, 1))] * 4, [np.array([0, 1])] * 4, ["a", "b"])
    hvil.fit(traces, updates=1, hidden=4, context=4, batch_size=4, validation=0, patience=0, out=tmp_path / "own")
    (tmp_path / "own" / "report.html").write_text("a report")
    push(tmp_path / "own", "me/own")
    assert "report.html" not in hub.repositories["me/own"]
    push(tmp_path / "own", "me/own", report=True)
    assert hub.repositories["me/own"]["report.html"] == b"a report"


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    return message


def test_what_is_no_run_is_not_kept(hub: HubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub.repositories["me/other"] = {"config.json": b"{}", "evil.py": b"raise SystemExit"}
    out = tmp_path / "theirs"
    assert "me/other: not a run of hvil" in refused(["pull", "me/other", "--out", str(out)], capsys)
    assert "me/nothing: the Hub refused" in refused(["pull", "me/nothing", "--out", str(out)], capsys)
    assert not out.exists()
    assert "exists already" in refused(["pull", "me/other", "--out", str(tmp_path)], capsys)


def test_the_hub_refuses_in_one_line(
    run: Path, hub: HubServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_" + "b" * 34)
    assert "me/walk: the Hub refused" in refused(["push", str(run), "me/walk"], capsys)
    assert "the Hub refused" in refused(["push", str(run), "no/such/name"], capsys)


def test_without_the_extra_one_line_says_what_to_install(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert "pip install 'hvil[hub]'" in refused(["push", str(run), "me/walk"], capsys)


class FakeTracker:
    """What W&B and trackio have in common, and what they were told."""

    def __init__(self) -> None:
        self.begun: dict[str, Any] = {}
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.finished = 0

    def init(self, **settings: Any) -> None:
        self.begun = settings

    def log(self, values: dict[str, float], step: int) -> None:
        self.rows.append((step, values))

    def finish(self) -> None:
        self.finished += 1


TRACES = hvil.Traces.from_episodes([np.zeros((3, 1))] * 4, [np.array([0, 1])] * 4, ["a", "b"])
SMALL = {"updates": 3, "hidden": 4, "context": 4, "batch_size": 4, "validation": 0, "patience": 0}


@pytest.mark.parametrize("library", ["wandb", "trackio"])
def test_numbers_go_to_the_tracker_that_is_asked_for(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = FakeTracker()
    monkeypatch.setitem(sys.modules, library, tracker)
    hvil.fit(TRACES, out=tmp_path / "run", log=library, **SMALL)
    assert (tracker.begun["project"], tracker.begun["name"], tracker.finished) == ("hvil", "run", 1)
    assert tracker.begun["config"]["training"]["updates"] == 3
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [{"update": step, **values} for step, values in tracker.rows] == lines


def test_a_logger_that_is_not_there_leaves_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(hvil.InputError, match=r"log wandb: not installed; pip install 'hvil\[wandb\]'"):
        hvil.fit(TRACES, out=tmp_path / "run", log="wandb", **SMALL)
    with pytest.raises(hvil.InputError, match="no such logger; expected tensorboard, trackio, wandb"):
        hvil.fit(TRACES, out=tmp_path / "run", log="paper", **SMALL)
    assert not (tmp_path / "run").exists()
