"""Verdicts on claims, pages and pictures, from records that were made up."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hvil.cli.main import main
from hvil.experiments.engine.cells import Cell
from hvil.experiments.experiment import Claim, Experiment
from hvil.experiments.experiment_files import FIGURES, find_experiment
from hvil.experiments.outcome.results import Results, collect, read_results, write_results
from hvil.experiments.outcome.tables import page
from hvil.experiments.outcome.verdicts import Verdict, conjunction, disjunction, judge, judge_all
from hvil.experiments.reproduce import show
from hvil.gate.errors import InputError

TABLE = Experiment(
    name="toy",
    title="A toy",
    panels={"A": "karel:A", "B": "karel:B"},
    models={"ours": {}, "theirs": {"model": "lstm"}},
    sizes=(10, 20, 40),
    runs=3,
    measures=("error", "error_unseen", "error_best"),
)
SPREAD = (-0.01, 0.0, 0.01)


def results_with(errors, table: Experiment = TABLE, spread=SPREAD) -> Results:
    """Records whose errors are `errors(panel, model, size)`, a little different in each run; None: no record."""
    cells = table.cells()
    records = {}
    for (panel, model, size, run), cell in cells.items():
        error = errors(panel, model, size)
        if error is None:
            continue
        value = (
            float(np.clip(error + spread[run % len(spread)] * (1 if model == "ours" else -1), 0, 1)) if error else 0.0
        )
        records[cell.key] = {
            "cell": cell.to_mapping(),
            "error": value,
            "error_unseen": None if size == 40 else value,
            "curve": [{"update": 1, "error": value / 2}],
            "seconds": 1.0,
            "version": "0",
        }
    return collect(table, cells, records, None, "toy.toml")


def verdicts(claim: Claim, results: Results) -> list[str]:
    return [finding.verdict for finding in judge(claim, results)]


@pytest.mark.parametrize(
    ("ours", "theirs", "lower", "not_lower"),
    [
        (0.2, 0.5, Verdict.REPRODUCED, Verdict.NOT_REPRODUCED),
        (0.5, 0.2, Verdict.NOT_REPRODUCED, Verdict.REPRODUCED),
        (0.3, 0.301, Verdict.UNDECIDED, Verdict.UNDECIDED),
        (0.0, 0.0, Verdict.NO_DIFFERENCE, Verdict.REPRODUCED),
        (None, 0.2, Verdict.NO_RECORDS, Verdict.NO_RECORDS),
    ],
)
def test_a_difference_is_judged_by_its_interval(ours, theirs, lower, not_lower):
    results = results_with(lambda panel, model, size: ours if model == "ours" else theirs)
    for kind, expected in (("lower", lower), ("not-lower", not_lower)):
        claim = Claim("", kind, "ours", "theirs", pooled=True)
        assert verdicts(claim, results) == [expected]
        assert verdicts(replace(claim, pooled=False), results) == [expected] * 3


def test_a_difference_within_the_margin_is_none():
    results = results_with(lambda panel, model, size: 0.3 if model == "ours" else 0.301)
    claim = Claim("", "lower", "ours", "theirs", pooled=True, margin=0.06)
    assert verdicts(claim, results) == [Verdict.NO_DIFFERENCE]
    assert verdicts(replace(claim, kind="not-lower"), results) == [Verdict.REPRODUCED]
    assert verdicts(replace(claim, margin=0.04), results) == [Verdict.UNDECIDED]
    lower = results_with(lambda panel, model, size: 0.2 if model == "ours" else 0.25)
    assert verdicts(replace(claim, margin=0.2), lower) == [Verdict.REPRODUCED], "small, but lower"


def test_many_claims_are_judged_by_wider_intervals():
    results = results_with(lambda panel, model, size: 0.2 if model == "ours" else 0.26)
    claim = Claim("lower", "lower", "ours", "theirs", pooled=True, margin=0.0)
    assert verdicts(claim, results) == [Verdict.REPRODUCED], "at 95% it is"
    (alone,) = judge_all(replace(results, experiment=replace(TABLE, claims=(claim,))))
    assert (alone.verdict, alone.confidence) == (Verdict.REPRODUCED, pytest.approx(0.95))
    many = judge_all(replace(results, experiment=replace(TABLE, claims=(claim,) * 8)))
    assert [finding.verdict for finding in many] == [Verdict.UNDECIDED] * 8
    assert many[0].confidence == pytest.approx(1 - 0.05 / 8)


def test_what_is_sure_makes_room_for_the_rest():
    results = results_with(lambda panel, model, size: {"A": 0.2, "B": 0.3}[panel] if model == "ours" else 0.5)
    sure = Claim("no error", "at-most", "ours", pooled=True, level=0.0)  # one error decides
    claim = Claim("lower", "lower", "ours", "theirs", panels=("A",))
    table = replace(TABLE, claims=(claim, sure))
    lower, none = judge_all(replace(results, experiment=table))
    assert none.verdict == Verdict.NOT_REPRODUCED
    assert sorted([none.confidence, lower.confidence]) == pytest.approx([0.95, 0.975])


def test_a_claim_about_some_panels_has_several_chances():
    results = results_with(lambda panel, model, size: 0.2 if model == "ours" else 0.245)
    claim = Claim("", "lower", "ours", "theirs", margin=0.0)
    assert {finding.confidence for finding in judge(claim, results)} == {0.95}
    whole, *parts = judge(replace(claim, some=True), results)
    assert whole.confidence == pytest.approx(0.95)
    assert [part.confidence for part in parts] == pytest.approx([0.975, 0.975])


def test_one_run_decides_nothing():
    results = results_with(lambda panel, model, size: 0.1 if model == "ours" else 0.9, replace(TABLE, runs=1))
    assert verdicts(Claim("", "lower", "ours", "theirs", pooled=True), results) == [Verdict.UNDECIDED]
    assert verdicts(Claim("", "at-most", "ours", level=0.3, pooled=True), results) == [Verdict.UNDECIDED]
    no_error = results_with(lambda panel, model, size: 0.0, replace(TABLE, runs=1))
    assert verdicts(Claim("", "at-most", "ours", pooled=True), no_error) == [Verdict.UNDECIDED]
    assert verdicts(Claim("", "at-most", "ours", pooled=True), results) == [Verdict.NOT_REPRODUCED]


def test_a_claim_about_all_panels_fails_where_one_fails():
    results = results_with(lambda panel, model, size: {"A": 0.2, "B": 0.6}[panel] if model == "ours" else 0.4)
    claim = Claim("", "lower", "ours", "theirs")
    assert verdicts(claim, results) == [Verdict.NOT_REPRODUCED, Verdict.REPRODUCED, Verdict.NOT_REPRODUCED]
    assert verdicts(replace(claim, panels=("A",)), results) == [Verdict.REPRODUCED]
    assert verdicts(replace(claim, some=True), results)[0] == Verdict.REPRODUCED
    worse = results_with(lambda panel, model, size: 0.6 if model == "ours" else 0.4)
    assert verdicts(replace(claim, some=True), worse)[0] == Verdict.NOT_REPRODUCED


@pytest.mark.parametrize("missing", ["ours", "theirs"])
def test_runs_that_are_not_complete_are_left_out_of_means(missing):
    results = results_with(lambda panel, model, size: (1 if model == "ours" else 3) / size)
    part = replace(results, records={p: r for p, r in results.records.items() if p != ("A", missing, 40, 2)})
    claim = Claim("", "lower", "ours", "theirs", panels=("A",))
    (finding,) = judge(claim, part)
    differences = [
        np.mean([results.values("A", "ours", s)[run] - results.values("A", "theirs", s)[run] for s in TABLE.sizes])
        for run in (0, 1)
    ]
    assert finding.measured.startswith(f"{100 * np.mean(differences):+.1f} [")
    assert finding.measured.endswith("points (2 of 3 runs)")
    assert not judge(claim, results)[0].measured.endswith("runs)")
    (level,) = judge(Claim("", "at-most", missing, panels=("A",), level=0.9), part)
    assert level.measured.endswith("(2 of 3 runs)")


def test_a_measure_that_a_place_lacks_is_averaged_over_the_others():
    results = results_with(lambda panel, model, size: 0.2 if model == "ours" else 0.5)
    (finding,) = judge(Claim("", "lower", "ours", "theirs", panels=("A",), measure="error_unseen"), results)
    assert (finding.verdict, finding.measured[:5]) == (Verdict.REPRODUCED, "-30.0")
    nowhere = Claim("", "lower", "ours", "theirs", panels=("A",), sizes=(40,), measure="error_unseen")
    assert verdicts(nowhere, results) == [Verdict.NO_RECORDS]


@pytest.mark.parametrize(
    ("level", "at_most"), [(0.24, Verdict.REPRODUCED), (0.1, Verdict.NOT_REPRODUCED), (0.201, Verdict.UNDECIDED)]
)
def test_a_level_is_judged_by_the_interval_of_the_mean(level, at_most):
    results = results_with(lambda panel, model, size: 0.2)
    claim = Claim("", "at-most", "ours", sizes=(10,), panels=("A",), level=level)
    opposite = {Verdict.REPRODUCED: Verdict.NOT_REPRODUCED, Verdict.NOT_REPRODUCED: Verdict.REPRODUCED}
    assert verdicts(claim, results) == [at_most]
    assert verdicts(replace(claim, kind="above"), results) == [opposite.get(at_most, at_most)]


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ((0.5, 0.1, 0.1), (0.6, 0.6, 0.5), Verdict.REPRODUCED),  # 20 are enough, and 40 are not for theirs
        ((0.1, 0.1, 0.1), (0.6, 0.1, 0.1), Verdict.NOT_REPRODUCED),  # twice as much is enough for theirs
        ((0.5, 0.5, 0.1), (0.6, 0.6, 0.6), Verdict.NOT_REPRODUCED),  # only with 40, and there is nothing twice as large
        ((0.5, 0.24, 0.1), (0.6, 0.6, 0.6), Verdict.UNDECIDED),
        ((0.1, 0.1, 0.1), (0.1, 0.6, 0.6), Verdict.NOT_REPRODUCED),  # theirs had it with less
    ],
)
def test_half_the_data_means_that_twice_as_much_is_not_enough_for_the_other(ours, theirs, expected):
    errors = {"ours": dict(zip(TABLE.sizes, ours, strict=True)), "theirs": dict(zip(TABLE.sizes, theirs, strict=True))}
    results = results_with(lambda panel, model, size: errors[model][size])
    assert verdicts(Claim("", "half-data", "ours", "theirs", panels=("A",), level=0.24), results) == [expected]


def test_no_error_means_none_in_any_run():
    claim = Claim("", "half-data", "ours", "theirs", panels=("A",))
    assert verdicts(claim, results_with(lambda p, model, s: 0.0 if model == "ours" else 0.02)) == [Verdict.REPRODUCED]
    assert verdicts(claim, results_with(lambda p, model, s: 0.01 if model == "ours" else 0.02)) == [
        Verdict.NOT_REPRODUCED
    ]


def test_all_and_some():
    good, bad, open_ = Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Verdict.UNDECIDED
    assert (conjunction([good, good]), conjunction([good, open_]), conjunction([open_, bad])) == (good, open_, bad)
    assert (disjunction([bad, bad]), disjunction([bad, open_]), disjunction([open_, good])) == (bad, open_, good)


def test_measures_are_read_off_the_records():
    results = results_with(lambda panel, model, size: 0.4)
    assert results.estimate("A", "ours", 10, "error_best").mean == pytest.approx(0.2)
    assert results.estimate("A", "ours", 40, "error_unseen") is None
    assert results.estimate("A", "ours", 10).interval.low < 0.39


@pytest.mark.parametrize(
    ("figure", "preset", "count"),
    [
        ("acausal", "paper", 4 * 7 * 8 * 10),
        ("acausal", "ours", 4 * 7 * 8 * 3),
        ("acausal", "corner", 2 * 3 * 8 * 10),
        ("acausal", "quick", 2 * 2 * 8 * 3),
        ("bubblesort", "paper", 10 * 2 * 5),
        ("bubblesort", "ours", 2 * (20 + 20 + 10 + 20) + 2 * 4 * 10 + 4 * 5),
        ("bubblesort", "quick", 3 * 3 * 3),
        ("karel-data", "paper", 6 * 5 * (10 + 5 + 3 + 3)),
        ("karel-data", "ours", 12 * 4 * (10 + 5 + 3 + 3)),
        ("karel-data", "quick", 6 * 4 * 3 * 3),
        ("karel-length", "paper", 6 * 6 * 5 * 10),
        ("karel-length", "ours", 12 * 5 * 5 * 3),
        ("karel-length", "quick", 6 * 5 * 1 * 3),
        ("ablations-bubblesort", "ours", 11 * 5),
        ("ablations-karel", "ours", 6 * 11 * 5),
    ],
)
def test_every_table_has_the_right_cells(figure, preset, count):
    cells = find_experiment(figure).preset(preset).cells()
    assert len(cells) == count
    assert len({cell.key for cell in cells.values()}) == count
    for cell in list(cells.values())[:: max(1, count // 20)]:
        cell.check()


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
    models = {"ours": {}, "theirs": {"model": "lstm", "only_sizes": [20], "only_runs": 1}}
    table = replace(TABLE, models=models, runs_by_size=(3, 2, 1), first_run=7)
    cells = table.cells()
    assert table.size == len(cells) == 2 * (3 + 2 + 1 + 1)
    assert {(p.size, p.run) for p in cells if p.model == "theirs"} == {(20, 7)}
    assert {p.run for p in cells if p.size == 10} == {7, 8, 9}
    assert not any("only_runs" in cell.settings or "only_sizes" in cell.settings for cell in cells.values())
    for change, message in (
        ({"runs_by_size": (1,)}, "runs_by_size"),
        ({"models": {"ours": {"only_runs": 0}}}, "only_runs is 0"),
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
    assert again.preset("quick").cells() == table.preset("quick").cells()


RESULTS = Path(__file__).parents[1] / "results"
COMMITTED = sorted(path.parent.relative_to(RESULTS).as_posix() for path in RESULTS.rglob("experiment.json"))


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_records_give_the_committed_pages(name):
    directory = RESULTS / name
    committed = read_results(directory)
    pictures = sorted(directory.glob("*.svg"), key=lambda path: len(path.name))
    assert page(committed, judge_all(committed), pictures) == (directory / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in COMMITTED if "/" not in name])
def test_committed_records_belong_to_the_tables_of_today(name):
    committed = read_results(RESULTS / name)
    cells = find_experiment(committed.source).preset(committed.preset).cells()
    for position, record in committed.records.items():
        assert Cell.from_mapping(record["cell"]).key == cells[position].key, position


def test_a_page_and_its_pictures_are_drawn_again_byte_for_byte(tmp_path, capsys):
    claims = (Claim("lower", "lower", "ours", "theirs"), Claim("half", "half-data", "ours", "theirs", level=0.2))
    results = results_with(lambda p, model, size: (2 if model == "ours" else 5) / size, replace(TABLE, claims=claims))
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    write_results(results, first)
    assert read_results(first) == results
    shown = show(results, first)
    text = shown.page.read_text()
    assert "| lower | ours and theirs | reproduced in 2 of 2 | **reproduced** |" in text
    assert "| – A |" in text
    assert main(["reproduce", "--from-records", str(first), "--out", str(second), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"][0]["verdict"] == "reproduced"
    files = sorted(path.name for path in first.iterdir())
    assert {"toy.png", "toy.svg", "toy-unseen.svg", "toy-best.png", "README.md", "records.jsonl"} < set(files)
    assert files == sorted(path.name for path in second.iterdir())
    for name in files:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": {}}, "at least one panel"),
        ({"sizes": [10, 10]}, "twice"),
        ({"sizes": ["ten"]}, r"sizes\[0\] is 'ten'; expected a whole number"),
        ({"runs": True}, "runs is True"),
        ({"measures": ["speed"]}, "measure 'speed'"),
        ({"axis": "time"}, "axis is 'time'"),
        ({"colour": 1}, "unknown entry 'colour'"),
        ({"panels": {"A": 3}}, "panels.A is 3; expected text"),
        ({"models": {"A": 3}}, "models.A is 3; expected an object"),
        ({"claims": [{"says": "x", "kind": "lower", "ours": "ours", "theirs": "nobody"}]}, "no model 'nobody'"),
        ({"claims": [{"says": "x", "kind": "wins", "ours": "ours"}]}, "kind 'wins'"),
        ({"claims": [{"says": "x"}]}, "missing"),
        ({"claims": [{"says": "x", "kind": "at-most", "ours": "ours", "some": True, "pooled": True}]}, "or about some"),
        ({"claims": 3}, "claims is 3; expected a list"),
    ],
)
def test_tables_that_make_no_sense_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        Experiment.from_mapping(TABLE.to_mapping() | change, "file")


def test_a_claim_written_in_python_is_checked_like_one_in_a_file():
    with pytest.raises(InputError, match="kind 'at_most'; expected one of lower"):
        replace(TABLE, claims=(Claim("x", "at_most", "ours"),))
    with pytest.raises(InputError, match="axis is 'time'"):
        replace(TABLE, axis="time")


def test_any_name_can_be_shown(tmp_path, capsys):
    names = {"one|two": "karel:A", "line\u2028end": "karel:B"}
    models = {"[/y] ours [wide]": {}, "theirs": {"model": "lstm"}}
    claim = Claim("[red]lower", "lower", "[/y] ours [wide]", "theirs")
    table = replace(TABLE, title="[/y] A title", panels=names, models=models, claims=(claim,))
    write_results(results_with(lambda panel, model, size: 0.2, table), tmp_path)
    assert main(["reproduce", "--from-records", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "[/y] ours [wide]: [red]lower" in shown
    assert "[/y] A title" in shown
    rows = [line for line in (tmp_path / "README.md").read_text().split("\n") if line.startswith("| one")]
    assert len(rows) == 9
    assert {line.replace("\\|", "").count("|") for line in rows} == {5}


def test_every_column_of_panels_has_an_axis(tmp_path, monkeypatch):
    import matplotlib.figure

    labels = []
    save = matplotlib.figure.Figure.savefig

    def look(figure, *args, **kwargs):
        labels.append([axes.get_xlabel() for axes in figure.axes if axes.get_visible()])
        return save(figure, *args, **kwargs)

    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", look)
    table = replace(TABLE, panels=dict.fromkeys("ABCDE", "karel:A"), measures=("error",))
    show(results_with(lambda panel, model, size: 0.2, table), tmp_path)
    assert labels[0] == ["", "", "demonstrations", "demonstrations", "demonstrations"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("figure-9", None, "no such figure"),
        ("gone.toml", None, "no such file"),
        ("bad.toml", "sizes = [", "cannot be read as TOML"),
        ("bad.py", "1 / 0", "ZeroDivisionError"),
        ("none.py", "x = 1", "expected EXPERIMENT"),
    ],
)
def test_files_without_an_experiment_are_refused(tmp_path, capsys, name, text, message):
    path = tmp_path / name if "." in name else name
    if text is not None:
        path.write_text(text)
    assert main(["reproduce", str(path), "--trust"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a figure"),
        (["bubblesort", "--preset", "slow"], "no preset 'slow'; it has paper, ours, quick"),
        (["bubblesort", "--workers", "0"], "--workers 0"),
        (["bubblesort", "--ray-address", "here:1"], "--ray-address is for --engine ray"),
        (["--from-records", "nowhere"], "no such directory"),
        (["bubblesort", "--from-records", "nowhere"], "name no figure"),
    ],
)
def test_commands_that_make_no_sense_are_refused(capsys, arguments, message):
    assert main(["reproduce", *arguments]) == 2
    assert message in capsys.readouterr().err
