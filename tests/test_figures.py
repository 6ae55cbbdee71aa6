"""The tables of the figures, and the records of them that are kept."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from toy_experiment import TABLE

from hvil.data.tasks import find_task
from hvil.experiments.engine.cells import Cell
from hvil.experiments.experiment import Experiment, FewerRuns, Position, Reported
from hvil.experiments.experiment_files import FIGURES, find_experiment
from hvil.experiments.outcome.plots import _draw_panel, _draw_rows, _pyplot, draw_measure, picture_name
from hvil.experiments.outcome.results import Results, read_results
from hvil.experiments.outcome.tables import page
from hvil.experiments.outcome.verdicts import judge_all
from hvil.gate.errors import InputError


@pytest.mark.parametrize(
    ("figure", "preset", "count"),
    [
        ("acausal", "paper", 4 * (2 * 3 * 10 + 10 + 2 * 3)),
        ("acausal", "ours", 8 * ((2 * 3 + 1) * 10 + (4 * 7 - 2 * 3 - 1) * 3)),
        ("acausal", "quick", 3 * 2 * 8 * 3),
        ("bubblesort", "paper", 2 * 2 * 5),
        ("bubblesort", "ours", 2 * (20 + 20 + 10 + 20) + 2 * (10 + 20 + 10 + 10) + 2 * 10 + 4 * 5),
        ("bubblesort", "quick", 3 * 3 * 3),
        ("karel-data", "paper", 6 * (4 * 5 + 3 * 5)),
        ("karel-data", "ours", 6 * 4 * (4 * 10 + 10 + 5 + 3 + 3) + 12 * 5 * (10 + 5 + 3 + 3)),
        ("karel-data", "quick", 6 * 4 * 3 * 3),
        ("karel-length", "paper", 6 * (3 * 10 + 3)),
        ("karel-length", "ours", 6 * 4 * (6 + 5) * 5),
        ("karel-length", "quick", 6 * 6 * 1 * 3),
        ("ablations-bubblesort", "ours", 14 * 5),
        ("ablations-karel", "ours", 6 * 11 * 5),
    ],
)
def test_every_table_has_the_right_cells(figure, preset, count):
    cells = find_experiment(figure).preset(preset).cells()
    assert len(cells) == count
    assert len({cell.key for cell in cells.values()}) == count
    for cell in list(cells.values())[:: max(1, count // 20)]:
        cell.check()


def test_every_program_that_is_tested_on_longer_runs_has_runs_of_several_lengths():
    for name in find_experiment("karel-length").panels.values():
        lengths = find_task(name).demonstrations(50, seed=0).lengths
        assert len(set(lengths.tolist())) > 1, f"all runs of {name} are equally long"


def test_a_model_may_have_an_option_of_the_task_of_its_own():
    cells = find_experiment("acausal").preset("quick").cells()
    tasks = {position.model: cell.task for position, cell in cells.items() if "0.6" in position.panel}
    assert {model for model, task in tasks.items() if task == "mnist-parity:0.6,shuffled"} == {
        "effects of shuffled digits"
    }
    assert set(tasks.values()) == {"mnist-parity:0.6", "mnist-parity:0.6,shuffled"}
    assert not any("task_option" in cell.settings for cell in cells.values())


def test_bubble_sort_as_the_authors_ran_it_counts_traces_and_has_validation_traces():
    cells = find_experiment("bubblesort").preset("paper").cells()
    for cell in cells.values():
        assert cell.validation == 1_000
        assert (cell.settings["updates"], cell.settings["entropy_decay_interval"]) == (10_000, 500)
    ours = find_experiment("bubblesort").preset("ours").cells()
    assert {cell.validation for cell in ours.values()} == {0}
    assert {cell.run for cell in ours.values()} == set(range(2000, 2020))
    few = {position.size for position in ours if position.model == "feed-forward"}
    assert (few, max(p.run for p in ours if p.model == "feed-forward")) == ({30}, 2004)


def test_sizes_runs_and_their_first_number_can_be_given():
    models = {"ours": {}, "theirs": {"model": "lstm", "only_sizes": [20]}}
    fewer = (FewerRuns(2, sizes=(20,)), FewerRuns(1, sizes=(40,)), FewerRuns(1, models=("theirs",)))
    table = replace(TABLE, models=models, fewer_runs=fewer, first_run=7)
    cells = table.cells()
    assert table.size == len(cells) == 2 * (3 + 2 + 1 + 1)
    assert {(p.size, p.run) for p in cells if p.model == "theirs"} == {(20, 7)}
    assert {p.run for p in cells if p.size == 10} == {7, 8, 9}
    assert not any("only_sizes" in cell.settings for cell in cells.values())
    for change, message in (
        ({"fewer_runs": (FewerRuns(1, sizes=(7,)),)}, "no 7 among its sizes"),
        ({"fewer_runs": (FewerRuns(1, models=("nobody",)),)}, "no 'nobody' among its models"),
        ({"fewer_runs": (FewerRuns(0),)}, "0 runs; expected at least one"),
        ({"models": {"ours": {"only_sizes": 20}}}, "only_sizes is 20"),
        ({"first_run": -1}, "from 0"),
    ):
        with pytest.raises(InputError, match=message):
            replace(TABLE, **change)


@pytest.mark.parametrize("figure", FIGURES)
def test_a_table_survives_its_file(figure):
    table = find_experiment(figure)
    again = Experiment.from_mapping(json.loads(json.dumps(table.to_mapping())), "file")
    assert again.cells() == table.cells()
    assert again.claims == table.claims
    assert again.reported == table.reported
    assert again.preset("quick").cells() == table.preset("quick").cells()


def test_errors_that_others_report_are_stars_in_the_picture_of_errors(tmp_path):
    reported = (Reported("the paper", size=20, error=0.3),)
    records = {Position("A", "ours", 20, 0): {"error": 0.2, "rollout_success": 0.9, "curve": []}}
    results = Results(experiment=replace(TABLE, reported=reported), records=records)
    errors, successes = (
        draw_measure(results, measure, tmp_path, measure)[1].read_text() for measure in ("error", "rollout_success")
    )
    assert "<!-- the paper -->" in errors
    assert "<!-- ours -->" in errors
    assert "<!-- theirs -->" not in errors  # a model without records
    assert "<!-- the paper -->" not in successes
    with _pyplot() as plt:
        axes = plt.figure().gca()
        _draw_panel(axes, results, "A", "error", ["ours"])
        assert axes.get_ylim()[1] > 30, "the star is within the axes"
    with pytest.raises(InputError, match="no panel 'elsewhere'"):
        replace(TABLE, reported=(Reported("the paper", size=20, error=0.3, panel="elsewhere"),))


def test_a_picture_of_one_size_has_a_row_for_each_model_instead_of_a_legend(tmp_path):
    reported = (Reported("the paper", size=20, error=0.3),)
    one_size = replace(TABLE, sizes=(20,), models={"ours": {}, "theirs": {}, "unborn": {}}, reported=reported)
    records = {
        Position("A", model, 20, run): {"error": 0.2 + 0.1 * run, "rollout_success": 0.9, "curve": []}
        for model in ("ours", "theirs")
        for run in range(2)
    }
    results = Results(experiment=one_size, records=records)
    draw_measure(results, "error", tmp_path, "error")
    with _pyplot() as plt:
        figure = _draw_rows(plt, results, "error", ["A"], ["ours", "theirs"])
        (axes,) = figure.axes
        assert [label.get_text() for label in axes.get_yticklabels()] == ["ours", "theirs", "the paper"]
        marked = [line for line in axes.lines if line.get_marker() in ("o", "*")]
        assert [(line.get_ydata()[0], line.get_xdata()[0]) for line in marked] == [
            (0, pytest.approx(25)),
            (1, pytest.approx(25)),
            (2, pytest.approx(30)),
        ]
        assert axes.yaxis_inverted(), "the first model is on top"
        assert not figure.legends
        plt.close(figure)
    drawn = (tmp_path / "error.svg").read_text()
    assert "<!-- demonstrations: 20; mean of up to 2 runs, 95% intervals -->" in drawn
    assert "<!-- unborn -->" not in drawn


def test_the_page_tells_no_calls_from_calls_of_one_procedure():
    def record(
        root: float, collapse: str | None, procedures: tuple[str, ...] = ("root", "a", "b")
    ) -> dict[str, object]:
        shares = dict.fromkeys(procedures, (1 - root) / max(len(procedures) - 1, 1)) | {"root": root}
        described = {"procedures": shares, "procedures_in_use": 2.0, "collapse": collapse}
        return {"error": 0.0, "rollout_success": 1.0, "curve": [], "seconds": 1.0, "version": "1", **described}

    records = {
        Position("A", "ours", 20, 0): record(1.0, "no procedure is called"),
        Position("A", "ours", 20, 1): record(0.3, "hardly more than one procedure is called"),
        Position("A", "ours", 20, 2): record(0.3, "hardly more than one procedure is called"),
        Position("A", "ours", 10, 0): record(0.3, None),
        Position("A", "theirs", 20, 0): record(1.0, None, procedures=("root",)),
    }
    text = page(Results(experiment=TABLE, records=records), [], [])
    assert "| ours | 2.0 | 2.0 to 2.0 | 1 | 2 |" in text
    assert "| theirs | 2.0 | 2.0 to 2.0 | – | – |" in text, "a single procedure has nothing to call"


RESULTS = Path(__file__).parents[1] / "results"
COMMITTED = sorted(path.parent.relative_to(RESULTS).as_posix() for path in RESULTS.rglob("experiment.json"))


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_records_give_the_committed_pages(name):
    directory = RESULTS / name
    committed = read_results(directory)
    experiment = committed.experiment
    pictures = [directory / f"{picture_name(experiment, measure)}.svg" for measure in experiment.measures]
    assert set(pictures) == set(directory.glob("*.svg"))
    assert page(committed, judge_all(committed), pictures) == (directory / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in COMMITTED if "/" not in name])
def test_committed_records_give_the_committed_picture_byte_for_byte(name, tmp_path):
    committed = read_results(RESULTS / name)
    measure = committed.experiment.measures[0]
    for picture in draw_measure(committed, measure, tmp_path, picture_name(committed.experiment, measure)):
        if picture.suffix == ".svg":  # pixels may differ from processor to processor
            assert picture.read_bytes() == (RESULTS / name / picture.name).read_bytes(), f"{picture.name} has changed"


@pytest.mark.parametrize("name", [name for name in COMMITTED if "/" not in name])
def test_committed_records_belong_to_the_tables_of_today(name):
    committed = read_results(RESULTS / name)
    cells = find_experiment(committed.source).preset(committed.preset).cells()
    for position, record in committed.records.items():
        assert Cell.from_mapping(record["cell"]).key == cells[position].key, position
