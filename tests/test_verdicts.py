"""Verdicts on claims, pages and pictures, from records that were made up."""

import json
from dataclasses import replace

import numpy as np
import pytest
from toy_experiment import TABLE

from hvil.cli.main import main
from hvil.experiments.experiment import Claim, Experiment, FewerRuns
from hvil.experiments.outcome.results import Results, collect, read_results, write_results
from hvil.experiments.outcome.verdicts import Verdict, conjunction, disjunction, judge, judge_all
from hvil.experiments.reproduce import show
from hvil.gate.errors import InputError

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
    assert judge(claim, results)[0].measured.endswith("points (3 runs)")
    fewer = replace(part, experiment=replace(TABLE, fewer_runs=(FewerRuns(2, models=(missing,), sizes=(40,)),)))
    assert judge(claim, fewer)[0].measured.endswith("points (2 runs)"), "the table has no more of them"
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


def test_half_the_data_can_be_judged_of_the_mean_over_panels():
    claim = Claim("", "half-data", "ours", "theirs", pooled=True)
    one_panel_of_theirs = results_with(lambda panel, model, s: 0.02 if (panel, model) == ("A", "theirs") else 0.0)
    one_panel_of_ours = results_with(lambda panel, model, s: 0.02 if model == "theirs" or panel == "B" else 0.0)
    assert verdicts(claim, one_panel_of_theirs) == [Verdict.REPRODUCED]
    assert verdicts(claim, one_panel_of_ours) == [Verdict.NOT_REPRODUCED]


def test_all_and_some():
    good, bad, open_ = Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Verdict.UNDECIDED
    assert (conjunction([good, good]), conjunction([good, open_]), conjunction([open_, bad])) == (good, open_, bad)
    assert (disjunction([bad, bad]), disjunction([bad, open_]), disjunction([open_, good])) == (bad, open_, good)


def test_measures_are_read_off_the_records():
    results = results_with(lambda panel, model, size: 0.4)
    assert results.estimate("A", "ours", 10, "error_best").mean == pytest.approx(0.2)
    assert results.estimate("A", "ours", 40, "error_unseen") is None
    assert results.estimate("A", "ours", 10).interval.low < 0.39


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
