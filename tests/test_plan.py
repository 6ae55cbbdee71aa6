"""One planner: command and library plan alike, and every choice that nobody made has a reason."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from safetensors.torch import load_file

import hvil
from hvil.cli.main import main
from hvil.data.settings import DataSettings
from hvil.data.sources import Data, load_data
from hvil.data.tasks import find_task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.settings import OWN_EVALUATIONS, OWN_UPDATES, TrainingSettings
from hvil.training.fit import fit_baselines, prepare
from hvil.training.plan import Plan, make_plan
from hvil.training.run import read_config

SMALL: dict[str, Any] = {"updates": 12, "hidden": 6, "context": 4, "seed": 3, "test_traces": 10, "restarts": 1}
FLAGS = [word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def log(annotated: bool) -> pd.DataFrame:
    """24 visits of a lift: down to floor 0, door, up to floor 3, door."""
    rows = []
    for trace in range(24):
        floor, step = trace % 3 + 1, 0
        for phase, goal in (("fetch", 0), ("deliver", 3)):
            while floor != goal:
                action = "down" if goal < floor else "up"
                rows.append((trace, step, action, floor, float(trace % 5), phase))
                floor, step = floor + (1 if action == "up" else -1), step + 1
            rows.append((trace, step, "door", floor, float(trace % 5), phase))
            step += 1
        rows.append((trace, step, None, floor, float(trace % 5), None))
    names = ["trace", "step", "action", "observation.floor", "observation.load", "stack"]
    table = pd.DataFrame(rows, columns=names)
    return table if annotated else table.drop(columns="stack")


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, tuple[str, Any]]:
    """Six sources, each as the command and as the library gets it."""
    plain, annotated = log(False), log(True)
    files = {name: str(tmp_path / name) for name in ("plain.csv", "annotated.csv", "log.parquet", "log.npz")}
    plain.to_csv(files["plain.csv"], index=False)
    annotated.to_csv(files["annotated.csv"], index=False)
    plain.to_parquet(files["log.parquet"])
    hvil.save_traces(hvil.load_traces(files["annotated.csv"]), files["log.npz"])
    return {
        "csv": (files["plain.csv"], files["plain.csv"]),
        "annotated csv": (files["annotated.csv"], Path(files["annotated.csv"])),
        "parquet": (files["log.parquet"], files["log.parquet"]),
        "npz": (files["log.npz"], hvil.load_traces(files["log.npz"])),
        "data frame": (files["annotated.csv"], annotated),
        "task": ("karel:F", "karel:F"),
    }


@pytest.mark.parametrize("kind", ["csv", "annotated csv", "parquet", "npz", "data frame", "task"])
def test_command_and_library_make_equal_plans_and_equal_weights(
    sources: dict[str, tuple[str, Any]], kind: str, tmp_path: Path
) -> None:
    named, given = sources[kind]
    assert main(["fit", named, "--out", str(tmp_path / "run"), "--no-baselines", "--json", *FLAGS]) == 0
    run = hvil.fit(given, **SMALL)
    by_command = read_config(tmp_path / "run")
    source = run.config.data.source or by_command.data.source
    assert replace(run.config, data=replace(run.config.data, source=source)) == by_command
    weights = load_file(tmp_path / "run" / "model.safetensors")
    assert isinstance(run.learner, torch.nn.Module)
    assert weights.keys() == run.learner.state_dict().keys()
    assert all(torch.equal(value, weights[name]) for name, value in run.learner.state_dict().items())
    if kind != "task":
        assert run.config.training.patience > 0
        assert run.data.validation is not None
        assert run.data.test is not None
        assert run.config.model.uses_annotations == (kind not in ("csv", "parquet"))


def test_a_polars_frame_and_a_pandas_frame_give_the_same_traces() -> None:
    plain = log(False)
    settings = DataSettings(test_traces=4)
    ours, theirs = (load_data(frame, settings, 0) for frame in (plain, pl.from_pandas(plain)))
    assert ours.training == theirs.training
    assert ours.test == theirs.test


def test_pairs_of_arrays_are_traces_with_numbered_or_named_actions() -> None:
    pairs = [(np.zeros((3, 2), np.float32), [0, 1]), (np.ones((2, 2), np.float32), [2])]
    numbered = load_data(pairs, DataSettings(test_traces=0), 0).training
    assert numbered.action_names == ("0", "1", "2")
    named = load_data(
        [(o, ["ab"[int(a) % 2] for a in actions]) for o, actions in pairs], DataSettings(test_traces=0), 0
    )
    assert named.training.action_names == ("a", "b")
    assert named.training.actions.tolist() == [0, 1, 0]


@pytest.mark.parametrize("nothing", [3, {"a": 1}, [1, 2], object(), b"log.csv"])
def test_what_cannot_be_traces_is_refused_with_what_can(nothing: Any) -> None:
    with pytest.raises(InputError, match="expected a path, a task's name, Traces, a data frame"):
        hvil.fit(nothing)


def test_every_choice_that_nobody_made_has_a_reason(tmp_path: Path) -> None:
    log(True).to_csv(tmp_path / "log.csv", index=False)
    data, plan = prepare(str(tmp_path / "log.csv"), {"hidden": 6, "updates": 100})
    assert set(plan.settings()) - {"source", "hidden", "updates"} <= plan.reasons.keys()
    assert "hidden" not in plan.reasons
    assert plan.reasons["test_traces"] == "the default"
    assert plan.reasons["annotations"] == "the traces come with a call structure"
    assert plan.config.training.evaluate_every == 100 // OWN_EVALUATIONS
    assert "procedures that the annotations name" in plan.reasons["call_graph"]
    assert any("held out for the test" in line for line in plan.lines(data))


def test_the_command_shows_its_plan_and_trains_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    log(False).to_csv("log.csv", index=False)
    assert main(["fit", "log.csv", "--plan", "--hidden", "7"]) == 0
    shown = capsys.readouterr().out
    assert "enough for a few hundred traces" in shown
    assert str(OWN_UPDATES) in shown
    assert not (tmp_path / "runs").exists()
    assert main(["fit", "--help"]) == 0
    assert f"(default: 2000; for data of your own {OWN_UPDATES})" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("updates", "start", "restarts"), [(100, 0, 1), (300, 200, 4)])
def test_few_updates_are_not_spent_on_a_search(updates: int, start: int, restarts: int) -> None:
    plan = prepare("karel:F", {"updates": updates, "test_traces": 2}).plan
    assert (plan.config.model.exact_start, plan.config.training.restarts) == (start, restarts)
    assert ("too few for a search" in plan.reasons["restarts"]) == (restarts == 1)


def test_baselines_are_planned_for_themselves_and_with_the_users_settings(tmp_path: Path) -> None:
    log(False).to_csv(tmp_path / "log.csv", index=False)
    given = {"updates": 3, "hidden": 4, "context": 4, "seed": 5, "batch_size": 4}
    run = hvil.fit(str(tmp_path / "log.csv"), out=tmp_path / "run", learning_rate=0.01, **given)
    for name, baseline in fit_baselines(run, given).items():
        training = baseline.config.training
        assert baseline.config.learner == name
        assert (training.updates, training.seed, training.batch_size) == (3, 5, 4)
        assert training.learning_rate == TrainingSettings.learning_rate, "not that of the run"
        assert training.patience == run.config.training.patience
    longer = fit_baselines(run, {"updates": 5}, resume=True)
    assert {baseline.updates for baseline in longer.values()} == {5}


@pytest.mark.parametrize("flags", [["karel:F"], ["log.csv", "--no-baselines"]])
def test_a_setting_of_a_baseline_is_refused_where_no_baseline_is_trained(
    flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    log(False).to_csv("log.csv", index=False)
    assert main(["fit", *flags, "--plan", "--units", "8"]) == 2
    assert "units is a setting of lstm and feedforward and stackrnn, not of hvil" in capsys.readouterr().err
    assert main(["fit", "log.csv", "--plan", "--units", "8"]) == 0, "here baselines are trained"


def test_a_task_suggests_its_defaults_and_a_cell_takes_the_fields() -> None:
    data = load_data("karel:F", DataSettings(source="karel:F", demos=3, test_traces=2), 0)
    suggested = make_plan(data, {})
    assert suggested.config.model.hidden == 256
    assert suggested.reasons["hidden"] == "the default for karel"
    assert prepare("karel:F", {"test_traces": 2}).plan.reasons["demos"] == "the default for karel"
    assert make_plan(data, {}, defaults="fields").config.model.hidden == 100
    assert make_plan(data, {"model": "lstm"}).config.model.last_action is False
    sort = load_data("bubblesort", DataSettings(source="bubblesort", demos=3, test_traces=2), 0)
    hvil_plan, lstm_plan = make_plan(sort, {}), make_plan(sort, {"model": "lstm"})
    assert hvil_plan.config.model.baseline == "leave-one-out"
    assert hvil_plan.config.training.curriculum > 0
    assert lstm_plan.config.training.curriculum == 0, "what suits one learner is not forced on another"
    assert lstm_plan.config.training.updates == 20_000


def test_a_resumed_run_keeps_what_it_began_with_and_can_be_longer(tmp_path: Path) -> None:
    log(False).to_csv(tmp_path / "log.csv", index=False)
    source, out = str(tmp_path / "log.csv"), tmp_path / "run"
    first = hvil.fit(source, out=out, **SMALL)
    longer = hvil.fit(source, out=out, resume=True, updates=30)
    assert longer.updates > first.updates
    assert longer.config.model == first.config.model
    assert longer.plan is not None
    assert longer.plan.reasons["hidden"] == longer.plan.reasons["test_traces"] == "as the run began"
    with pytest.raises(InputError, match="another configuration: hidden"):
        hvil.fit(source, out=out, resume=True, hidden=9, updates=31)


def test_sets_that_the_caller_brings_are_taken_as_they_are() -> None:
    traces: Traces = load_data(log(False), DataSettings(test_traces=0, validation=0.0), 0).training
    run = hvil.fit(traces[:16], test=traces[16:20], validation=traces[20:], **SMALL)
    data: Data = run.data
    assert (len(data.training), data.test, data.validation) == (16, traces[16:20], traces[20:])


def test_sets_that_the_caller_brings_beside_a_file_come_back_with_the_run(tmp_path: Path) -> None:
    log(False).to_csv(tmp_path / "log.csv", index=False)
    mine = load_data(log(False), DataSettings(test_traces=0, validation=0.0), 0).training[:3]
    hvil.fit(str(tmp_path / "log.csv"), test=mine, out=tmp_path / "run", **SMALL)
    assert hvil.load(tmp_path / "run").data.test == mine


def test_a_search_that_the_data_do_not_allow_is_not_suggested() -> None:
    def planned(task: str, **given: Any) -> Plan:
        return prepare(task, {"demos": 3, "test_traces": 2, **given}).plan

    usual = planned("bubblesort:2-3").config
    assert usual.model.exact_start  # type: ignore[attr-defined]
    assert usual.training.restarts > 1
    taught = planned("bubblesort", annotations="use")
    assert not taught.config.model.exact_start  # type: ignore[attr-defined]
    assert taught.config.training.restarts == 1
    assert "nothing to search" in taught.reasons["restarts"]
    long = planned("bubblesort:8-9")
    assert not long.config.model.exact_start  # type: ignore[attr-defined]
    assert "no trace has at most 50 actions" in long.reasons["exact_start"]
    few = planned("bubblesort:5-5", demos=6)
    assert few.config.model.exact_start  # type: ignore[attr-defined]
    lengths = sorted(find_task("bubblesort:5-5").demonstrations(6, 0).lengths)
    assert few.config.model.exact_length == lengths[3] > 50  # type: ignore[attr-defined]
    assert "the 4 shortest traces" in few.reasons["exact_length"]
    alone = prepare("karel:F", {"demos": 3, "test_traces": 2}, "chain:1").plan
    assert not alone.config.model.exact_start  # type: ignore[attr-defined]
    assert "no procedure calls another" in alone.reasons["exact_start"]
    with pytest.raises(InputError, match="no trace has at most 50 actions"):
        hvil.fit("bubblesort:8-9", demos=3, test_traces=2, exact_start=10, updates=1, restarts=1)


def test_the_call_graph_can_be_the_one_that_annotations_show() -> None:
    settings = {"demos": 20, "test_traces": 1, "annotations": "use"}
    data, plan = prepare("karel:F", settings, "annotations")
    graph = plan.config.graph
    annotations = data.training.annotations
    assert annotations is not None
    assert graph.procedures[graph.root] == "run"
    assert set(graph.procedures) <= set(annotations.procedures)
    assert any(graph.calls), "program F has loops and branches, each a procedure"

    plain = replace(data.training, annotations=None)
    with pytest.raises(InputError, match="no annotations"):
        make_plan(data._replace(training=plain), {}, "annotations")
