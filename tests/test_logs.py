"""Logs that look like exports of real tools go from `hvil inspect` to a report with at most one flag."""

import csv
import json
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import hvil
from hvil.cli.main import main
from hvil.data.reading import ObservationReader
from hvil.data.settings import DataSettings
from hvil.data.sources import traces_from
from hvil.experiments.comparison import comparison_table
from hvil.experiments.engine.cells import check_record, run_cell
from hvil.experiments.variants import variants

LOGS = sorted((Path(__file__).parents[1] / "examples" / "logs").glob("*.py"))
FAST = ["--updates", "4", "--hidden", "8", "--context", "4", "--batch-size", "4", "--no-baselines"]
Capture = pytest.CaptureFixture[str]


def writer(script: Path) -> Callable[..., list[str]]:
    spec = spec_from_file_location(f"logs_{script.stem}", script)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.write  # type: ignore[no-any-return]


@pytest.fixture
def own_minari(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


@pytest.mark.parametrize("script", LOGS, ids=[script.stem for script in LOGS])
@pytest.mark.usefixtures("own_minari")
def test_a_log_goes_from_inspect_to_a_report_with_at_most_one_flag(
    script: Path, tmp_path: Path, capsys: Capture
) -> None:
    arguments = writer(script)(tmp_path, traces=20)
    assert sum(word.startswith("--") for word in arguments) <= 1
    assert main(["inspect", *arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["traces"] == 20
    assert main(["inspect", *arguments]) == 0
    run = tmp_path / "run"
    assert main(["fit", *arguments, *FAST, "--out", str(run)]) == 0
    assert (run / "report.html").stat().st_size > 10_000
    assert main(["evaluate", str(run), arguments[0], "--json"]) == 0
    assert main(["infer", str(run), arguments[0], "--out", str(tmp_path / "labels.parquet")]) == 0
    assert capsys.readouterr().err.count("error") == 0


def table_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def vending(tmp_path: Path) -> tuple[Path, hvil.Traces]:
    source = writer(LOGS[0].with_name("vending.py"))(tmp_path, traces=20)[0]
    return Path(source), hvil.load_traces(source)


def test_the_columns_of_a_log_are_read_as_what_they_are(tmp_path: Path) -> None:
    _, traces = vending(tmp_path)
    reading = traces.reading
    assert reading is not None
    assert (reading.trace, reading.step, reading.action) == (("session_id",), "timestamp", "action")
    kinds = {column.name: column.kind for column in reading.columns}
    assert kinds == {
        "product": "category",
        "credit": "number",
        "price": "number",
        "temp_c": "number",
        "door_open": "truth",
    }
    assert reading.categories["product"][-1] == "(missing)"
    assert {column.name for column in reading.left_out} == {"row", "machine"}
    missing = traces.observations[:, traces.observation_names.index("temp_c is missing")] == 1
    fill = next(column.fill for column in reading.columns if column.name == "temp_c")
    assert 0 < missing.mean() < 1
    assert (traces.observations[missing, traces.observation_names.index("temp_c")] == np.float32(fill)).all()
    assert traces.metadata["trace_id"][0] == "S-00000"
    assert "elapsed" in hvil.load_traces(tmp_path / "vending.csv", elapsed=True).observation_names


def test_a_reading_survives_files_and_gives_the_same_numbers_to_other_rows(tmp_path: Path) -> None:
    path, traces = vending(tmp_path)
    for name in ("set.npz", "set.parquet"):
        hvil.save_traces(traces, tmp_path / name)
        assert hvil.load_traces(tmp_path / name) == traces
    run = hvil.fit(path, updates=2, hidden=8, context=4, out=tmp_path / "run")
    loaded = hvil.load(tmp_path / "run")
    assert loaded.config.reading == run.config.reading == traces.reading
    rows = table_rows(path)
    few = [dict(row, product="lemonade" if row["product"] == "tea" else row["product"]) for row in rows]
    few = [row for row in few if row["session_id"] in ("S-00003", "S-00004")]
    with (tmp_path / "few.csv").open("w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, list(rows[0]))
        table.writeheader()
        table.writerows(few)
    assert loaded.evaluate(tmp_path / "few.csv").error.count == 2
    other = traces_from(tmp_path / "few.csv", DataSettings(), loaded.config.reading)
    assert loaded.config.matched(other).action_names == traces.action_names
    assert other.observation_names == traces.observation_names
    assert set(other.observations[:, 0]) <= {*range(len(loaded.config.reading.categories["product"])), -1}


def test_a_policy_takes_values_by_name_and_refuses_what_is_wrong(tmp_path: Path) -> None:
    path, traces = vending(tmp_path)
    run = hvil.fit(path, updates=2, hidden=8, context=4)
    baseline = hvil.fit(path, model="feedforward", updates=2, units=8)
    row = {"product": "water", "credit": 1.0, "price": 1.0, "temp_c": None, "door_open": False}
    array = np.array(traces.reading.row(row)) if traces.reading else np.empty(0)
    for policy in (run.policy, baseline.policy):
        assert "actions ask_coin" in repr(policy)
        chances = policy.probabilities(row)
        assert chances == policy.probabilities(array)
        assert sum(chances.values()) == pytest.approx(1)
        policy.reset()
        by_name = policy.act(row)
        policy.reset()
        assert by_name == policy.act(array)
        policy.reset(2)
        assert len(policy.act([row, row])) == 2
        policy.reset()
        for wrong in (array * np.nan, array[:-1], row | {"colour": "red"}, {"product": "water"}):
            with pytest.raises(hvil.InputError):
                policy.act(wrong)
    run.policy.reset()
    assert run.policy.stack[0].procedure == run.config.graph.procedures[run.config.graph.root]


def test_next_actions_are_as_likely_as_they_are_drawn(tmp_path: Path) -> None:
    path, traces = vending(tmp_path)
    policy = hvil.fit(path, updates=2, hidden=8, context=4).policy
    observation, count = traces.observations[1], 4000
    policy.reset()
    policy.act(traces.observations[0])
    chances = policy.probabilities(observation)
    policy.reset(count, seed=3)
    policy.act(np.tile(traces.observations[0], (count, 1)))  # greedy: all environments have the same stack
    drawn = policy.act(np.tile(observation, (count, 1)), greedy=False)
    shares = np.bincount(drawn, minlength=len(chances)) / count
    assert shares == pytest.approx(list(chances.values()), abs=0.04)


@pytest.mark.parametrize("form", ["csv.gz", "tsv", "feather", "jsonl", "parquet", "pandas", "polars"])
def test_every_format_gives_the_same_traces(tmp_path: Path, form: str) -> None:
    import gzip

    import pandas as pd
    import polars as pl
    from pyarrow import csv as arrow_csv
    from pyarrow import feather

    path, traces = vending(tmp_path)
    table = arrow_csv.read_csv(path)
    target = tmp_path / f"log.{form}"
    source: object = target
    if form == "csv.gz":
        target.write_bytes(gzip.compress(path.read_bytes()))
    elif form == "tsv":
        target.write_text(path.read_text(encoding="utf-8").replace(",", "\t"), encoding="utf-8")
    elif form == "feather":
        feather.write_feather(table, target)
    elif form == "parquet":
        pd.read_csv(path, parse_dates=["timestamp"]).to_parquet(target)
    elif form == "jsonl":
        target.write_text("\n".join(json.dumps(row, default=str) for row in table.to_pylist()), encoding="utf-8")
    else:
        source = pd.read_csv(path) if form == "pandas" else pl.read_csv(path)
    found = hvil.load_traces(source)
    np.testing.assert_array_equal(found.actions, traces.actions)
    np.testing.assert_array_equal(found.offsets, traces.offsets)
    order = [found.observation_names.index(name) for name in traces.observation_names]
    np.testing.assert_allclose(found.observations[:, order], traces.observations)


def test_several_files_are_read_together(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"part{number}.csv").write_text(
            "episode,x,action\n" + "\n".join(f"{e},{x},{'go' if x < 2 else ''}" for e in range(2) for x in range(3))
        )
    by_pattern = hvil.load_traces(str(tmp_path / "part*.csv"))
    assert len(by_pattern) == 6, "each file numbers its episodes from 0 on"
    assert by_pattern.reading is not None
    assert by_pattern.reading.trace == ("source_file", "episode")
    assert by_pattern == hvil.load_traces(tmp_path)
    assert by_pattern == hvil.load_traces("|".join(str(tmp_path / f"part{n}.csv") for n in range(3)))


def test_actions_that_look_like_gaps_do_not_vanish(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "null.csv"
    path.write_text("trace,x,action\n0,1,null\n0,2,NA\n0,3,go\n0,4,\n")
    assert hvil.load_traces(path).action_names == ("NA", "go", "null")
    assert main(["inspect", str(path)]) == 0
    assert "actions that other tools take for a missing value: NA, null" in capsys.readouterr().out
    path.write_text("trace,x,action\n0,1,go\n0,2,stop\n0,3,NA\n1,1,go\n1,2,NA\n")
    assert hvil.load_traces(path).action_names == ("go", "stop"), "R writes NA where nothing is"


def test_all_problems_are_listed_at_once(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("when,x\n1,2\n")
    assert main(["inspect", str(path)]) == 2
    error = capsys.readouterr().err
    assert "--trace-column" in error
    assert "--action-column" in error
    assert error.count("\n") == 1


def test_labels_can_be_joined(tmp_path: Path) -> None:
    path, _ = vending(tmp_path)
    run = hvil.fit(path, updates=2, hidden=8, context=4, out=tmp_path / "run")
    out, segments = tmp_path / "labels.csv", tmp_path / "segments.csv"
    assert main(["infer", str(run.path), str(path), "--out", str(out), "--segments", str(segments)]) == 0
    before, after = table_rows(path), table_rows(out)
    assert [row["row"] for row in after] == [row["row"] for row in before]
    assert list(after[0])[: len(before[0])] == list(before[0])
    assert all(bool(row["procedure"]) == bool(row["action"]) for row in after)
    steps = {
        trace: [r["procedure"] for r in after if r["session_id"] == trace and r["action"]] for trace in {"S-00002"}
    }
    for segment in table_rows(segments):
        if segment["trace"] in steps:
            inside = steps[segment["trace"]][int(segment["start"]) : int(segment["end"]) + 1]
            assert set(inside) == {segment["procedure"]}


def test_a_data_set_is_downloaded_only_when_asked_for(own_minari: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import minari

    asked: list[str] = []
    monkeypatch.setattr(minari, "download_dataset", asked.append)
    with pytest.raises(hvil.InputError, match="--download"):
        hvil.load_traces("minari:theirs/set-v0")
    assert not asked
    with pytest.raises(hvil.InputError, match="no such data set"):
        hvil.load_traces("minari:theirs/set-v0", download=True)
    assert asked == ["theirs/set-v0"]


def test_frames_and_files_are_read_alike_also_with_objects_inside(tmp_path: Path) -> None:
    rows = [
        {"episode": e, "state": {"at": [x, 2 * x], "kind": "ab"[x % 2]}, "action": "go" if x < 3 else None}
        for e in range(3)
        for x in range(4)
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    traces = hvil.load_traces(tmp_path / "log.jsonl")
    assert traces.observation_names == ("state.at[0]", "state.at[1]", "state.kind")
    assert np.array_equal(traces.observations, hvil.load_traces(pa.Table.from_pylist(rows)).observations)


def test_runs_are_tabulated(tmp_path: Path, capsys: Capture) -> None:
    path, _ = vending(tmp_path)
    hvil.fit(path, updates=1, hidden=8, context=4, out=tmp_path / "runs" / "one")
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "config.json").write_text("{")
    assert main(["runs", str(tmp_path / "runs"), "--json"]) == 0
    found = {entry["run"]: entry for entry in json.loads(capsys.readouterr().out)["runs"]}
    assert (found["one"]["learner"], found["one"]["data"]) == ("hvil", "vending")
    assert "config.json" in found["broken"]["problem"]
    assert main(["runs", str(tmp_path / "runs")]) == 0
    assert "vending" in capsys.readouterr().out


def test_public_names_are_listed() -> None:
    assert set(hvil.__all__) <= set(dir(hvil))


@pytest.mark.usefixtures("own_minari")
def test_a_policy_takes_observations_with_parts_as_the_environment_gives_them(tmp_path: Path) -> None:
    source = writer(LOGS[0].with_name("game.py"))(tmp_path, traces=6)[0]
    traces = hvil.load_traces(source)
    assert traces.reading is not None
    assert traces.reading.categories["goal"] == ("open the blue door", "open the red door")
    reader = ObservationReader(len(traces.observation_names), traces.observation_names, traces.reading)
    observation = {
        "position": np.array([0.0, 3.0], dtype=np.float32),
        "room": np.int64(0),
        "carries": np.array([0, 0], dtype=np.int8),
        "goal": "open the red door",
        "senses": (np.int64(0), np.float32(0.5)),
    }
    row = dict(zip(traces.observation_names, reader(observation, 1)[0].tolist(), strict=True))
    assert row == {
        "carries[0]": 0, "carries[1]": 0, "goal": 1, "position[0]": 0, "position[1]": 3, "room": 0,
        "senses[0]": 0, "senses[1]": 0.5,
    }  # fmt: skip


def test_learners_are_compared_on_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    vending(tmp_path)
    learners = variants("feedforward:units=4,updates=3", "vending.csv", {})
    assert learners[0].settings["evaluate_every"] == 1, "a file suggests a schedule, which follows the updates"
    table = comparison_table("vending.csv", [12], learners, runs=1, test_traces=5)
    (cell,) = table.cells().values()
    cell.check()
    record = run_cell(cell, lambda share: None, tmp_path / "scratch")
    check_record(record, "record")
    assert (record["traces"], record["updates"], record["cell"]["task"]) == (5, 3, "vending.csv")
    assert len(record["settings"]["call_graph"]["procedures"]) > 1
    writer(LOGS[0].with_name("vending.py"))(tmp_path, traces=20, seed=1)
    with pytest.raises(hvil.InputError, match="has changed"):
        run_cell(cell, lambda share: None, tmp_path / "scratch")
    assert next(iter(table.cells().values())).key != cell.key, "its records do not count for the file as it is now"
    assert main(["compare", "vending.csv", "--demos", "20", "--models", "feedforward"]) == 2
    assert "there are 20, and at least one is tested on" in capsys.readouterr().err
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    entries = [
        'panels = {log = "../vending.csv"}',
        'models = {ff = {model = "feedforward"}}',
        "sizes = [5]",
        "runs = 1",
    ]
    Path("own.toml").write_text("\n".join(entries))
    assert main(["reproduce", "own.toml"]) == 2
    assert "--trust" in capsys.readouterr().err


def test_observations_from_python_may_have_values_by_name() -> None:
    seen = [{"at": np.array([x, 2.5]), "door": {"kind": "ab"[x % 2]}, "alarm": x == 2} for x in range(4)]
    traces = hvil.load_traces([(seen, ["go", "go", "stop"]), (seen[:3], ["go", "stop"])])
    assert traces.observation_names == ("at[0]", "at[1]", "door.kind", "alarm")
    assert traces.action_names == ("go", "stop")
    assert traces.observations[:4].tolist() == [[0, 2.5, 0, 0], [1, 2.5, 1, 0], [2, 2.5, 0, 1], [3, 2.5, 1, 0]]
    assert traces.lengths.tolist() == [3, 2]
    with pytest.raises(hvil.InputError, match="trace 0: 2 actions need 3 observations, found 4"):
        hvil.load_traces([(seen, ["go", "stop"])])
