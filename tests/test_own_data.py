"""Data from elsewhere: what is inferred from it, what is chosen for it, and that a fit needs no settings."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hvil
from hvil.analysis.evaluation import evaluate
from hvil.cli.main import main
from hvil.data.inputs import Inputs, features, suitable_inputs
from hvil.data.segments import annotations_from_boundaries, keep_annotations
from hvil.data.trace_files import load, save
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners import build, settings_for
from hvil.learners.config import Config
from hvil.learners.settings import HvilSettings
from hvil.training.inspection import inspect
from hvil.training.loop import seeded
from hvil.training.own_data import annotated_graph, suggested_call_graph

MAPPING = ["--trace-column", "episode", "--step-column", "t", "--action-column", "move"]
COLUMNS = ["--observation-columns", "x,goal,carrying,battery", "--annotation-column", "phase"]
FAST = ["--updates", "6", "--hidden", "8", "--units", "8", "--context", "4", "--batch-size", "4"]


def corridor(episodes: int = 24, complete: bool = True) -> list[dict[str, object]]:
    """A log: walk to the goal, pick, come back; `complete` with the row after the last action."""
    rng = np.random.default_rng(0)
    rows: list[dict[str, object]] = []
    for episode in range(episodes):
        x, goal, carrying, t = 0, int(rng.integers(1, 6)), 0, 0
        while True:
            move = "right" if not carrying and x < goal else "pick" if not carrying else "left" if x else ""
            if not move and not complete:
                break
            phase = "" if not move else "back" if carrying else "there"
            row = {"episode": f"e{episode}", "t": t, "x": x, "goal": goal, "carrying": carrying}
            rows.append(row | {"battery": round(100 - 1.5 * t, 2), "phase": phase, "move": move})
            if not move:
                break
            x += {"right": 1, "left": -1, "pick": 0}[move]
            carrying, t = int(carrying or move == "pick"), t + 1
    return rows


def write_csv(path: Path, rows: list[dict[str, object]]) -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "log.csv", corridor())


def read(path: Path, *flags: str) -> Traces:
    from hvil.data.formats.tables import Columns

    return load(path, Columns("episode", "t", "move", ("x", "goal", "carrying", "battery"), "phase"))


def test_columns_become_one_hot_or_standardised(log: Path) -> None:
    inputs = suitable_inputs(read(log))
    assert inputs is not None
    assert inputs.values[3] == (), "a column of fractions is continuous"
    assert inputs.values[:3] == ((0, 1, 2, 3, 4, 5), (1, 2, 3, 4, 5), ()), "categories stay so beside it"
    traces = Traces(
        np.array([[3, 0, 700], [9, 1, 20], [3, 1, 41]]), np.array([0, 0]), np.array([0, 2]), ("go",), ("k", "flag", "n")
    )
    found = suitable_inputs(traces)
    assert found is not None
    assert found.values == ((3, 9), (), (20, 41, 700))
    seen = found(np.array([[9, 1, 20], [4, 0, 700]]))
    np.testing.assert_array_equal(seen, [[0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1]])


@given(st.integers(0, 2**32 - 1))
def test_standardised_columns_have_mean_0_and_scale_1(seed: int) -> None:
    rng = np.random.default_rng(seed)
    observations = rng.normal(rng.normal(size=3) * 100, rng.exponential(size=3) + 0.01, size=(50, 3))
    traces = Traces(observations, np.zeros(49, dtype=int), np.array([0, 49]), ("a",))
    inputs = suitable_inputs(traces)
    assert inputs is not None
    seen = features(inputs, traces.observations, 50)
    np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-2)
    np.testing.assert_allclose(seen.std(axis=0), 1, atol=1e-2)
    assert Inputs.from_mapping(json.loads(json.dumps(inputs.to_mapping())), "x") == inputs


def test_pictures_and_indicators_pass_unchanged() -> None:
    pictures = np.full((3, 16, 16), 255, dtype=np.uint8)
    assert suitable_inputs(Traces(pictures, np.array([0, 0]), np.array([0, 2]), ("a",))) is None
    flags = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    assert suitable_inputs(Traces(flags, np.array([0, 0]), np.array([0, 2]), ("a",))) is None


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"values": []},
        {"values": [[1.5]], "means": [0], "scales": [1]},
        {"values": [[1 << 63]], "means": [0], "scales": [1]},
        {"values": [[]], "means": [0, 1], "scales": [1]},
    ],
)
def test_inputs_that_are_none_are_refused(value: object) -> None:
    with pytest.raises(InputError, match=r"^here: "):
        Inputs.from_mapping(value, "here")
    with pytest.raises(InputError):
        Inputs(((2, 1),), (0.0,), (1.0,))
    with pytest.raises(InputError):
        Inputs(((),), (0.0,), (0.0,))


@pytest.mark.parametrize("model", ["hvil", "lstm", "feedforward"])
def test_every_model_acts_alike_along_traces_and_alone_with_inputs(log: Path, model: str) -> None:
    traces = read(log)
    settings = settings_for(model, {"hidden": 8, "units": 8, "context": 4})
    learner = build(Config.of(traces, "tree:2x2", settings, inputs=suitable_inputs(traces)))
    assert np.isfinite(learner.loss(traces[:4], np.random.default_rng(0), 0).total.item())
    policy = learner.policy()
    one = traces[3]
    policy.reset()
    actions = [policy.act(observation) for observation in one.observations]
    wrong = actions != [*one.actions.tolist(), len(traces.action_names)]
    assert bool(policy.wrong(one)[0]) == wrong


def test_a_log_that_ends_with_the_last_action_repeats_the_last_observation(tmp_path: Path) -> None:
    traces = read(write_csv(tmp_path / "cut.csv", corridor(complete=False)))
    whole = read(write_csv(tmp_path / "whole.csv", corridor()))
    np.testing.assert_array_equal(traces.actions, whole.actions)
    assert (traces.observations[traces.row_offsets[1] - 2] == traces.observations[traces.row_offsets[1] - 1]).all()
    assert "last_observation" in traces.attributes
    assert any("ends with the last action" in oddity for oddity in inspect(traces).oddities)


def test_segment_labels_become_procedures_below_the_root(log: Path) -> None:
    traces = read(log)
    assert traces.annotations is not None
    assert traces.annotations.procedures == ("main", "back", "there")
    assert traces.annotations.known.all()
    first = traces[0].annotations
    assert first is not None
    assert first.kept.tolist() == [1 if t == 0 or new else 2 for t, new in enumerate(_changes(first.stacks[:, 1]))]
    graph = annotated_graph(traces.annotations)
    assert graph == {
        "root": "main",
        "procedures": {"main": {"calls": ["back", "there"]}, "back": {"calls": []}, "there": {"calls": []}},
    }
    Config.of(traces, graph, HvilSettings(annotations="use"))


def _changes(labels: np.ndarray) -> list[bool]:
    return [False, *(labels[1:] != labels[:-1]).tolist()]


def test_boundary_lists_tell_repeated_segments_apart(log: Path) -> None:
    traces = read(log)[:2]
    found = annotations_from_boundaries(traces, [[(0, "walk"), (1, "walk"), (2, "")], []])
    assert found.procedures == ("main", "walk")
    assert found.kept[:3].tolist() == [1, 1, -1]
    assert not found.known[2:].any()
    for bad in ([[(1, "a"), (0, "b")], []], [[(99, "a")], []], [[]]):
        with pytest.raises(InputError):
            annotations_from_boundaries(traces, bad)


@given(st.floats(0, 1), st.integers(0, 100))
def test_an_annotated_fraction_keeps_whole_traces_and_grows(fraction: float, seed: int) -> None:
    traces = annotated_traces()
    part, more = (keep_annotations(traces, f, seed) for f in (fraction, min(fraction + 0.2, 1)))
    assert part.annotations is not None
    assert more.annotations is not None
    known = [bool(trace.annotations.known.all()) for trace in part if trace.annotations]
    assert sum(known) == round(fraction * len(traces))
    assert (part.annotations.known <= more.annotations.known).all()


def annotated_traces() -> Traces:
    traces = Traces.from_episodes([np.zeros((4, 2))] * 10, [np.zeros(3, dtype=int)] * 10, ("a",))
    from dataclasses import replace

    return replace(traces, annotations=annotations_from_boundaries(traces, [[(0, "x"), (1, "y")]] * 10))


def test_the_default_call_graph_follows_actions_and_traces(log: Path) -> None:
    traces = read(log)
    assert suggested_call_graph(traces).graph == "tree:3x2"
    assert "4 procedures, for 3 actions and 24 traces" in suggested_call_graph(traces).reason
    assert suggested_call_graph(traces, annotated=True).graph == annotated_graph(traces.annotations)  # type: ignore[arg-type]


def test_a_csv_of_another_tool_fits_with_mapping_flags(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    code = main(["fit", str(log), *MAPPING, *COLUMNS, *FAST, "--out", str(out), "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    result = json.loads(captured.out)
    assert set(result["baselines"]) == {"hvil", "feedforward", "lstm"}
    assert "annotations name" in result["call_graph"]
    run = hvil.load(out)
    assert run.config.inputs is not None
    assert run.config.model.annotations == "use"
    assert run.config.training.patience > 0
    assert run.data.validation is not None
    assert main(["evaluate", str(out), str(log), "--json"]) == 0


def test_a_file_of_our_own_needs_no_flags_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    traces = Traces.from_episodes(
        [rng.normal(size=(4, 2)) for _ in range(12)], [rng.integers(0, 2, size=3) for _ in range(12)], ("a", "b")
    )
    save(traces, tmp_path / "mine.parquet")
    code = main(["fit", str(tmp_path / "mine.parquet"), *FAST, "--out", str(tmp_path / "run")])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert "call graph tree:2x2 (3 procedures, for 2 actions and" in captured.out
    assert "traces: 9 to learn from, 1 to stop early by, 2 held out for the test" in captured.out
    assert "columns of an observation: 2 standardised" in captured.out
    assert "at most 6 updates" in captured.out
    assert (tmp_path / "run" / "report.html").is_file()
    assert "lstm" in captured.out


def test_pictures_are_learned_from_with_the_convnet_on_request(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    pictures = [rng.integers(0, 256, size=(3, 16, 16), dtype=np.uint8) for _ in range(8)]
    save(Traces.from_episodes(pictures, [np.array([0, 1])] * 8, ("a", "b")), tmp_path / "pictures.parquet")
    flags = ["--network", "convnet", "--updates", "2", "--hidden", "8", "--context", "4", "--no-baselines"]
    assert main(["fit", str(tmp_path / "pictures.parquet"), *flags, "--out", str(tmp_path / "run")]) == 0
    policy = hvil.load(tmp_path / "run").policy
    policy.reset()
    assert 0 <= policy.act(pictures[0][0]) <= 2
    policy.reset(3)
    assert policy.act(pictures[0]).shape == (3,)


def test_early_stopping_keeps_the_best_weights(log: Path) -> None:
    traces = read(log)
    settings = {"model": "feedforward", "units": 8, "updates": 400, "evaluate_every": 5, "learning_rate": 0.05}
    run = hvil.fit(traces, patience=3, **settings)  # type: ignore[arg-type]
    again = hvil.fit(traces, patience=3, **settings)  # type: ignore[arg-type]
    assert run.updates == again.updates
    assert run.updates < 400, "it stopped early"


def test_a_fit_that_stops_early_says_so(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fast = ["--model", "feedforward", "--units", "8", "--updates", "400", "--evaluate-every", "5", "--patience", "3"]
    fast += ["--learning-rate", "0.05", "--out", str(tmp_path / "run")]
    assert main(["fit", str(log), *MAPPING, *COLUMNS, *fast]) == 0
    updates = hvil.load(tmp_path / "run").updates
    assert f"stopped early after {updates} updates; the weights of update {updates - 15} are kept" in " ".join(
        capsys.readouterr().out.split()
    )


def test_boundaries_are_not_inferred_from_the_annotations_they_are_compared_with(log: Path) -> None:
    traces = read(log)
    settings = HvilSettings(annotations="use", hidden=8, context=4)
    config = Config.of(traces, annotated_graph(traces.annotations), settings)  # type: ignore[arg-type]
    scores = [evaluate(seeded(seed, lambda: build(config)), traces).boundaries[0].f1 for seed in range(4)]
    assert min(scores) < 1, "an untrained model cannot know them"


def test_inspect_describes_good_data(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(log), *MAPPING, *COLUMNS, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["traces"] == 24
    assert [column["seen_as"][:12] for column in found["columns"]][-1] == "standardised"
    assert main(["inspect", str(log), *MAPPING, *COLUMNS]) == 0
    assert "standardised" in capsys.readouterr().out
