"""`hvil reproduce` from the table to the page, with the experiment that the documentation shows; pools of traces."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hvil.cli.main import main
from hvil.data.sources import Data
from hvil.experiments.engine.cells import Cell, run_cell
from hvil.experiments.engine.pools import is_short, pool, pooled_data, split
from hvil.experiments.experiment_files import FIGURES, find_experiment
from hvil.experiments.outcome.verdicts import Verdict
from hvil.gate.errors import InputError
from hvil.training.observers import read_metrics

DOCS = (Path(__file__).parents[1] / "docs" / "experiments.md").read_text(encoding="utf-8")


def block(language: str, number: int = 0) -> str:
    return re.findall(rf"```{language}\n(.*?)```", DOCS, re.DOTALL)[number]


def test_the_experiment_in_the_docs_has_ten_lines_and_runs(tmp_path, capsys):
    text = block("toml")
    assert len(text.splitlines()) <= 10
    small = text.replace("updates = 2000, hidden = 64", "updates = 3, hidden = 8").replace("[5, 10, 20]", "[2, 4]")
    small = small.replace("runs = 3", "runs = 2\ntest_traces = 5")
    assert "updates = 3" in small
    path, out = tmp_path / "depth.toml", tmp_path / "out"
    path.write_text(small + block("toml", 1), encoding="utf-8")
    command = ["reproduce", str(path), "--out", str(out), "--workers", "1", "--json"]
    assert main(command) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["records"], answer["expected"]) == (12, 12)
    assert answer["findings"][0]["verdict"] in set(Verdict)
    lines = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    record = lines[0]["record"]
    assert record["settings"]["hidden"] == 8
    assert record["cell"]["run"] == record["settings"]["seed"] == 0
    assert {"version", "seconds", "machine", "curve", "error_unseen"} <= record.keys()
    # A directory as it is in a repository: the records alone are enough to go on.
    written = {name: (out / name).read_bytes() for name in ("records.jsonl", "README.md", "depth.png", "depth.svg")}
    for cell in (out / "cells").iterdir():
        cell.unlink()
    assert main(command) == 0
    assert {name: (out / name).read_bytes() for name in written} == written
    assert (out / "workers.log").stat().st_size == 0 or "Error" not in (out / "workers.log").read_text()


def test_an_experiment_can_be_written_in_python(tmp_path):
    path = tmp_path / "depth.py"
    path.write_text(block("python"), encoding="utf-8")
    cells = find_experiment(str(path), trust=True).cells()
    assert len(cells) == 2 * 3 * 3
    assert {cell.task for cell in cells.values()} == {"karel:F"}


TABLE = """
panels = { F = "karel:F" }
sizes = [2]
runs = 1
test_traces = 2
settings = { updates = 1, hidden = 4 }
models = { HVIL = {}, LSTM = { model = "lstm" } }
"""


def test_a_sweep_that_is_refused_leaves_the_records_alone(tmp_path, capsys):
    path, out = tmp_path / "small.toml", tmp_path / "out"
    path.write_text(TABLE + "[presets.other]\nruns = 2\n")
    command = ["reproduce", str(path), "--out", str(out), "--workers", "1"]
    assert main(command) == 0
    written = {name: (out / name).read_bytes() for name in ("records.jsonl", "experiment.json", "README.md")}

    def refused(arguments: list[str], message: str) -> None:
        capsys.readouterr()
        assert main(arguments) == 2
        assert message in capsys.readouterr().err
        assert {name: (out / name).read_bytes() for name in written} == written

    path.write_text(TABLE.replace("hidden", "hiden"))
    refused(command, "unknown setting 'hiden'")
    path.write_text(TABLE + "[presets.other]\nruns = 2\n")
    refused([*command, "--preset", "other"], "holds the results of small; small, preset other needs another --out")
    other = tmp_path / "other.toml"
    other.write_text(TABLE)
    refused(["reproduce", str(other), "--out", str(out)], "holds the results of small; other needs another --out")


def test_a_part_of_an_experiment_is_run_and_leaves_the_other_records_alone(tmp_path, capsys):
    path, out = tmp_path / "small.toml", tmp_path / "out"
    path.write_text(TABLE.replace("[2]", "[2, 3]"))
    command = ["reproduce", str(path), "--out", str(out), "--workers", "1", "--json"]

    def places() -> list[tuple[str, int]]:
        lines = map(json.loads, (out / "records.jsonl").read_text().splitlines())
        return [(line["model"], line["size"]) for line in lines]

    assert main([*command, "--models", "LSTM", "--sizes", "3"]) == 0
    assert places() == [("LSTM", 3)]
    assert main([*command, "--models", "HVIL"]) == 0
    assert places() == [("HVIL", 2), ("HVIL", 3), ("LSTM", 3)]
    capsys.readouterr()
    assert main([*command, "--panels", "F", "--models", "GRU"]) == 2
    assert "has no 'GRU' among its models: HVIL, LSTM" in capsys.readouterr().err
    assert places() == [("HVIL", 2), ("HVIL", 3), ("LSTM", 3)]


def test_cells_that_failed_are_told_beside_the_results_of_the_others(tmp_path, capsys, monkeypatch):
    from hvil.experiments import reproduce
    from hvil.gate.engine.local import Failure

    path, out = tmp_path / "small.toml", tmp_path / "out"
    path.write_text(TABLE)
    run = reproduce.run_experiment
    monkeypatch.setattr(reproduce, "run_experiment", lambda *a, **k: (run(*a, **k)[0], [Failure("F", "it died")]))
    assert main(["reproduce", str(path), "--out", str(out), "--workers", "1", "--json"]) == 1
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    assert (answer["records"], answer["failures"]) == (2, [{"key": "F", "reason": "it died"}])
    assert "1 cells failed; the same command tries them again" in printed.err


def test_what_is_in_a_file_counts_not_its_name(tmp_path):
    graph, program, table = (tmp_path / name for name in ("graph.json", "program.txt", "table.toml"))
    text = TABLE.replace("karel:F", f"karel:{program}").replace("HVIL = {}", f'HVIL = {{ call_graph = "{graph}" }}')
    table.write_text(text)

    def keys(calls: str, body: str) -> list[str]:
        graph.write_text(f'{{"root": "a", "procedures": {{"a": {{"calls": [{calls}]}}, "b": {{"calls": []}}}}}}')
        program.write_text(f"def run() {{ {body} }}")
        cells = list(find_experiment(str(table)).cells().values())
        for cell in cells:
            cell.check()
        return [cell.key for cell in cells]

    first = keys('"b"', "move();")
    assert first == keys('"b"', " move ( ) ; ")
    hvil, lstm = zip(first, keys('"b", "a"', "move();"), strict=True)
    assert hvil[0] != hvil[1]
    assert lstm[0] == lstm[1]
    assert not set(first) & set(keys('"b"', "turnLeft();"))


def test_a_cell_whose_file_has_changed_is_not_run(tmp_path):
    program = tmp_path / "program.txt"
    program.write_text("def run() { move(); }")
    table = tmp_path / "table.toml"
    table.write_text(TABLE.replace("karel:F", f"karel:{program}"))
    cell = next(iter(find_experiment(str(table)).cells().values()))
    program.write_text("def run() { turnLeft(); }")
    with pytest.raises(InputError, match="has changed since the sweep began"):
        run_cell(cell, lambda share: None, tmp_path / "scratch")


@pytest.mark.parametrize("pool", [0, 30])
def test_validation_traces_choose_among_the_evaluations(tmp_path, pool):
    settings = {"model": "lstm", "units": 8, "updates": 40, "evaluate_every": 5, "learning_rate": 0.03}
    cell = Cell("karel:A", 4, 0, settings, test_traces=20, validation=6, pool=pool)
    cell.check()
    record = run_cell(cell, lambda share: None, tmp_path / "scratch")
    lines = [line for line in read_metrics(tmp_path / "scratch" / "metrics.jsonl") if "held_out" in line]
    assert len(lines) == 8
    best = max(lines, key=lambda line: line["held_out"])
    assert record["error"] == best["error"]
    assert record["training_error"] == best["training_error"]
    assert record["updates"] == 40
    with pytest.raises(InputError, match="29 traces"):
        Cell("karel:A", 4, 0, settings, test_traces=20, validation=5, pool=28).check()
    with pytest.raises(InputError, match="cannot be -1"):
        Cell("karel:A", 4, 0, settings, validation=-1).check()


@pytest.mark.parametrize("drawn", [{"pool": 30}, {"pool": 30, "percentile": 50}, {"validation": 6}])
def test_restarts_of_a_cell_are_trained_on_the_traces_of_the_cell(tmp_path, drawn):
    """The kept restart is the run that the same cell gives without a search; its program's file may be anywhere."""
    program = tmp_path / "program.txt"
    program.write_text("def run() { while(noMarkersPresent()) { move(); } }")
    settings = {"model": "hvil", "hidden": 5, "context": 3, "updates": 8, "evaluate_every": 4}
    search = Cell(f"karel:{program}", 4, 0, settings | {"restarts": 2}, test_traces=6, **drawn)
    found = run_cell(search, lambda share: None, tmp_path / "search")
    single = replace(search, settings=settings | {"restart": found["settings"]["restart"]})
    alone = run_cell(single, lambda share: None, tmp_path / "alone")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("search", "alone")]
    assert weights[0] == weights[1]
    assert found["error"] == alone["error"]
    assert found["curve"] == alone["curve"]
    assert found["rollout_error"] is not None


def test_the_commands_of_the_docs_exist(capsys):
    assert all(f"`{figure}`" in DOCS for figure in FIGURES)
    rows = re.findall(r"\| `(\S+)` \| [^|]* \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|", DOCS)
    assert [figure for figure, *_ in rows] == [figure for figure in FIGURES if "ablations" not in figure]
    for figure, *counts in rows:
        table = find_experiment(figure)
        for preset, count in zip(("quick", "ours", "paper"), counts, strict=True):
            assert len(table.preset(preset).cells()) == int(count.replace(",", "")), figure


def test_training_traces_are_shorter_than_the_percentile_of_the_different_lengths():
    lengths = np.array([1] * 50 + [2] * 20 + [3] * 10 + [10, 20, 30] * 4)
    assert is_short(lengths, 50).sum() == 80  # of 1, 2, 3, 10, 20, 30 the middle is 6.5, wherever most traces are
    training, test = split(lengths, 30, 10, 50, seed=0)
    assert lengths[training].max() <= 3
    assert lengths[test].min() >= 10
    assert len(set(training)) == 30
    with pytest.raises(InputError, match="12 above"):
        split(lengths, 30, 13, 50, seed=0)


def test_runs_draw_different_traces_from_one_pool_and_never_test_on_training_traces():
    lengths = np.ones(50, dtype=np.int64)
    first, second = (split(lengths, 10, 20, 0, seed) for seed in (0, 1))
    assert not set(first[0]) & set(first[1])
    assert not np.array_equal(first[0], second[0])
    assert np.array_equal(first[0][:5], split(lengths, 5, 20, 0, 0)[0])  # less data is the first of more


def test_a_pool_is_made_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pool.cache_clear()

    def draw() -> Data:
        return pooled_data("karel:D", 100, demos=10, test_traces=5, percentile=50, run=1)

    data = draw()
    assert data.training.lengths.max() < data.test.lengths.min()
    (path,) = tmp_path.rglob("*.npz")
    pool.cache_clear()
    monkeypatch.setattr("hvil.domains.karel.KarelTask.demonstrations", None)
    again = draw()
    assert np.array_equal(again.training.actions, data.training.actions)
    pool.cache_clear()
    assert path.exists()


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (Cell("karel:A", 10, 0, percentile=10), "needs a pool"),
        (Cell("karel:A", 10, 0, pool=50), "has not the 110"),
        (Cell("karel:A", 10, 0, pool=500, percentile=101), "from 1 to 100"),
    ],
)
def test_cells_with_an_impossible_pool_are_refused(cell, message):
    with pytest.raises(InputError, match=message):
        cell.check()
