"""Sweeps: every cell once, whatever dies; and the comparison that is built on them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hvil.cli.main import main
from hvil.experiments.comparison import comparison_table
from hvil.experiments.engine.cells import Cell
from hvil.experiments.engine.sweep import read_store, sweep
from hvil.experiments.outcome.points import compared_points, to_mapping
from hvil.experiments.outcome.results import collect
from hvil.experiments.variants import Variant, variants, with_best
from hvil.gate.errors import InputError

WORK = "sweep_work:work"
SOURCE = Path(__file__).parents[1] / "src"


@pytest.fixture
def log(tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.touch()
    monkeypatch.setenv("SWEEP_LOG", str(path))
    return path


def cells(count: int, **settings: object) -> list[Cell]:
    return [Cell("bubblesort", 3, run, settings) for run in range(count)]


def runs_in(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()]


def test_every_cell_is_run_once_and_never_again(tmp_path, log):
    progress = []
    wanted = cells(5)
    swept = sweep([*wanted, wanted[0]], tmp_path / "out", 2, lambda *numbers: progress.append(numbers), WORK)
    assert sorted(runs_in(log)) == [0, 1, 2, 3, 4]
    assert [swept.records[cell.key]["error"] for cell in wanted] == [0.0, 0.1, 0.2, 0.3, 0.4]
    assert progress[-1] == (1.0, 5, 5)
    assert all(done < total for share, done, total in progress if share < 1.0)
    again = sweep([*wanted, *cells(6)], tmp_path / "out", 2, lambda *numbers: progress.append(numbers), work=WORK)
    assert progress[-1] == (1.0, 6, 6)
    assert sorted(runs_in(log)) == [0, 1, 2, 3, 4, 5]
    assert len(again.records) == 6
    assert not any((tmp_path / "out" / "unfinished").iterdir())


def test_a_killed_worker_is_replaced_and_its_cell_gone_on_with(tmp_path, log):
    killed, fine = Cell("bubblesort", 3, 0, {"batch_size": 1}), Cell("bubblesort", 3, 1)
    swept = sweep([killed, fine], tmp_path, 1, work=WORK)
    assert swept.records[killed.key]["resumed"] is True
    assert swept.records[fine.key]["resumed"] is False
    assert swept.failures == []


def test_a_cell_that_kills_every_worker_is_given_up_and_the_others_are_run(tmp_path, log):
    deadly, fine = Cell("bubblesort", 3, 0, {"batch_size": 2}), Cell("bubblesort", 3, 1)
    swept = sweep([deadly, fine], tmp_path, 2, work=WORK)
    assert list(swept.records) == [fine.key]
    assert [failure.key for failure in swept.failures] == [deadly.key]
    assert "died 3 times" in swept.failures[0].reason


def test_a_cell_that_fails_is_reported_and_tried_again_next_time(tmp_path, log):
    failing = Cell("bubblesort", 3, 0, {"batch_size": 3})
    for _ in range(2):
        swept = sweep([failing], tmp_path, 1, work=WORK)
        assert swept.failures[0].reason == "FloatingPointError: the loss became nan"
    assert runs_in(log) == [0, 0]


def test_bad_input_ends_the_sweep(tmp_path, log):
    with pytest.raises(InputError, match="no such thing"):
        sweep(cells(3, batch_size=4), tmp_path, 1, work=WORK)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (Cell("bubblesort", 3, 0, {"colour": 1}), "unknown setting 'colour'"),
        (Cell("bubblesort", 3, 0, {"updates": -1}), "updates is -1"),
        (Cell("bubble", 3, 0), "no such task"),
        (Cell("bubblesort", 0, 0), "at least one training trace"),
        (Cell("bubblesort", 3, 0, {"call_graph": "tree:nope"}), "call graph 'tree:nope' is not known"),
        (Cell("bubblesort", 3, 0, {"patience": 3}), "no patience"),
    ],
)
def test_cells_that_make_no_sense_are_refused_before_anything_runs(tmp_path, cell, message):
    with pytest.raises(InputError, match=message):
        sweep([cell], tmp_path, 1, work=WORK)


def test_two_sweeps_do_not_share_a_directory(tmp_path, log):
    code = f"""
from pathlib import Path
from hvil.experiments.engine.cells import Cell
from hvil.experiments.engine.sweep import sweep
sweep([Cell("bubblesort", 3, 0, {{"clip": 30.0}})], Path({str(tmp_path / "out")!r}), 1, work={WORK!r})
"""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(SOURCE), str(Path(__file__).parent / "helpers")]))
    other = subprocess.Popen([sys.executable, "-c", code], env=environment)
    try:
        wait_for(lambda: runs_in(log) == [0])
        with pytest.raises(InputError, match="another sweep is running there"):
            sweep(cells(1), tmp_path / "out", 1, work=WORK)
    finally:
        other.kill()
        other.wait()


def wait_for(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_the_key_of_a_cell_tells_contents_apart():
    cell = Cell("karel:F", 10, 0, {"model": "lstm", "layers": 2})
    assert cell.key.startswith("karel-F-lstm-10-0-")
    assert cell.key == Cell("karel:F", 10, 0, {"layers": 2, "model": "lstm"}).key
    assert cell.key != Cell("karel:F", 10, 0, {"model": "lstm", "layers": 3}).key
    assert Cell.from_mapping(json.loads(json.dumps(cell.to_mapping()))).key == cell.key


def test_a_baseline_stays_the_same_when_settings_of_procedures_change():
    cell = Cell("karel:F", 10, 0, {"model": "lstm", "updates": 5})
    beside = {"hidden": 7, "entropy_weight": 0.5, "call_graph": "tree:5x3"}
    assert Cell("karel:F", 10, 0, {"model": "lstm", "updates": 5, **beside}).key == cell.key
    assert Cell("karel:F", 10, 0, {"model": "lstm", "updates": 6}).key != cell.key
    assert Cell("karel:F", 10, 0, {"updates": 5, **beside}).key != Cell("karel:F", 10, 0, {"updates": 5}).key


def test_learners_are_named_with_their_settings():
    learners = variants("hvil,lstm:learning_rate=0.003,updates=80,feedforward:last_action=false", "bubblesort")
    assert [learner.name for learner in learners] == [
        "hvil",
        "lstm:learning_rate=0.003,updates=80",
        "feedforward:last_action=false",
    ]
    assert learners[1].settings["learning_rate"] == 0.003
    assert learners[1].settings["updates"] == 80
    assert learners[1].settings["layers"] == 4
    assert learners[2].settings["last_action"] is False
    graph = variants("hvil:call_graph=tree:5x1,updates=3", "karel:A", {"updates": 7})[0]
    assert (graph.settings["call_graph"], graph.settings["updates"]) == ("tree:5x1", 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected different learners"),
        ("lstm,lstm", "expected different learners"),
        ("updates=3,lstm", "comes before any learner"),
        ("lstm:fast", "is not LEARNER"),
        ("gru", "'gru': no such learner"),
        ("lstm:units=many", "units is 'many'"),
        ("feedforward:best", "no better settings"),
    ],
)
def test_learners_that_do_not_exist_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        variants(text, "bubblesort")


def test_points_pair_the_runs_on_the_same_training_sets():
    learners = variants("hvil,lstm", "karel:A")
    table = comparison_table("karel:A", [10, 20], learners, 3, 50)
    wanted = table.cells()
    errors = {"hvil": 0.1, "lstm": 0.3}
    records = {
        cell.key: {"error": errors[name] + run / 10, "training_error": 0.0, "error_unseen": None, "seconds": 1.0}
        for (_, name, demos, run), cell in wanted.items()
        if (name, demos, run) != ("hvil", 20, 0)
    }
    points = compared_points(collect(table, wanted, records))
    assert [(point.learner, point.demos) for point in points] == [
        ("hvil", 10),
        ("hvil", 20),
        ("lstm", 10),
        ("lstm", 20),
    ]
    assert points[0].versus_first is None
    assert points[2].versus_first.difference.mean == pytest.approx(0.2)
    assert points[3].versus_first.difference.runs == 2
    assert "error_unseen" not in points[0].measures


def compare(*arguments: str) -> list[str]:
    settings = ["--updates", "12", "--runs", "2", "--test-traces", "20", "--workers", "1"]
    return [
        "compare",
        "karel:A",
        "--demos",
        "2,4",
        "--models",
        "lstm,feedforward",
        "--only-named",
        *settings,
        *arguments,
    ]


def test_compare_shows_learners_with_intervals_and_draws_the_curve(tmp_path, capsys):
    out = tmp_path / "out"
    assert main([*compare(), "--out", str(out), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(point["learner"], point["demos"]) for point in result["points"]] == [
        ("lstm", 2),
        ("lstm", 4),
        ("feedforward", 2),
        ("feedforward", 4),
    ]
    for point in result["points"]:
        low, high = point["error"]["interval"]
        assert low <= point["error"]["mean"] <= high
        assert point["error"]["runs"] == 2
    assert result["points"][2]["versus_first"]["difference"]["runs"] == 2
    assert (out / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "curve.svg").read_text()
    record = json.loads(next((out / "cells").iterdir()).read_text())
    assert np.isfinite([line["error"] for line in record["curve"]]).all()
    assert main([*compare(), "--out", str(out)]) == 0
    assert "feedforward − lstm" in capsys.readouterr().out


def test_the_committed_comparison_comes_out_of_its_records(tmp_path):
    """Cells have the keys that they had, and the numbers are those that were written beside the records."""
    committed = Path(__file__).parents[1] / "results" / "compare" / "karel-F"
    before = json.loads((committed / "comparison.json").read_text())
    learners = [Variant(name=name, settings=settings) for name, settings in before["learners"].items()]
    table = comparison_table("karel:F", [10, 40], learners, 5, 100)
    wanted = table.cells()
    records = read_store(committed / "cells", [cell.key for cell in wanted.values()])
    assert len(records) == len(wanted) == 30
    points = compared_points(collect(table, wanted, records))
    # The last bits may differ: they depend on the versions of the libraries.
    now, then = leaves([to_mapping(point) for point in points]), leaves(before["points"])
    assert now.keys() == then.keys()
    for path, value in then.items():
        assert now[path] == (pytest.approx(value, abs=1e-9) if isinstance(value, float) else value), path


def leaves(value: object, path: str = "") -> dict[str, object]:
    """The numbers and texts in nested lists and mappings, by their path."""
    if not isinstance(value, list | dict):
        return {path: value}
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    return {name: leaf for key, part in parts for name, leaf in leaves(part, f"{path}/{key}").items()}


def test_committed_cells_have_the_keys_of_their_files():
    paths = list((Path(__file__).parents[1] / "results").glob("*/*/cells/*.json"))
    assert len(paths) > 200
    for path in paths:
        assert Cell.from_mapping(json.loads(path.read_text())["cell"]).key == path.stem


def test_an_interrupted_comparison_continues_where_it_was(tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "hvil", *compare(), "--out", str(out)]
    environment = dict(os.environ, PYTHONPATH=str(SOURCE))
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    wait_for(lambda: len(list(out.glob("cells/*.json"))) >= 2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    done = {path: path.stat().st_mtime_ns for path in out.glob("cells/*.json")}
    assert 2 <= len(done) < 8, "interrupted too late to tell"
    assert main([*compare(), "--out", str(out), "--json"]) == 0
    assert len(list(out.glob("cells/*.json"))) == 8
    assert all(path.stat().st_mtime_ns == then for path, then in done.items())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--demos", "ten"], "--demos ten"),
        (["--runs", "0"], "--runs 0"),
        (["--models", "gru"], "'gru': no such learner"),
    ],
)
def test_compare_refuses_what_it_cannot_run(tmp_path, capsys, arguments, message):
    assert main([*compare(), *arguments, "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err


def test_a_plain_baseline_is_joined_by_its_best_settings(monkeypatch):
    best = {("karel", "lstm"): {"learning_rate": 0.003}}
    monkeypatch.setattr("hvil.experiments.best_found._BEST", best)
    names = [learner.name for learner in with_best(variants("hvil,lstm", "karel:A"), "karel:A")]
    assert names == ["hvil", "lstm", "lstm:best"]
    assert variants("lstm:best", "karel:A")[0].settings["learning_rate"] == 0.003
    named = with_best(variants("lstm:best,lstm", "karel:A"), "karel:A")
    assert [learner.name for learner in named] == ["lstm:best", "lstm"]


def test_a_log_says_how_far_a_sweep_is(capsys, monkeypatch):
    from hvil.gate import progress

    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    with progress.sweep_progress("small") as line:
        line(0.25, 0, 2)
        line(0.5, 1, 2)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "small: 0 of 2 cells, 25% of the work done"
    assert second.startswith("small: 1 of 2 cells, about ")
    assert second.endswith(" left")
