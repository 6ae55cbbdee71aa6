"""Call structure as data: stacks from PHP steps, files that others read and that teach again."""

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs_and_actions

import hvil
from hvil.analysis.structures import infer, segments
from hvil.cli.main import main
from hvil.data.tasks import find_task
from hvil.data.trace_files import load, save
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.machine.callgraph import CallGraph
from hvil.machine.reference import replay, stacks_from_structure, structures
from hvil.machine.steps import Steps, joined

Capture = pytest.CaptureFixture[str]


def _steps(graph: CallGraph, actions: list[int], structure: tuple[int, ...]) -> Steps:
    """The PHP steps of one trace in the form of learners."""
    moments = replay(graph, actions, structure)
    procedure, counter, last = np.array([moment.stack[-1] for moment in moments]).T
    return Steps(
        row=np.array([moment.time for moment in moments]),
        procedure=procedure,
        counter=counter,
        last=last,
        depth=np.array([len(moment.stack) for moment in moments]),
        choice=np.array(structure),
        offsets=np.array([0, len(structure)]),
    )


@given(st.data())
@settings(max_examples=40)
def test_segments_are_the_stacks_of_the_structure(data: st.DataObject) -> None:
    graph, actions = data.draw(graphs_and_actions())
    count = data.draw(st.integers(1, 3))
    taken = []
    for _ in range(count):
        possible = list(islice(structures(graph, actions), 50))
        taken.append((actions, data.draw(st.sampled_from(possible))))
    traces = Traces.from_episodes(
        [np.zeros((len(actions) + 1, 1), dtype=np.float32)] * count,
        [np.array(actions, dtype=np.int32)] * count,
        action_names=graph.action_names,
    )
    labels = segments(graph, traces, joined([_steps(graph, *each) for each in taken]))
    for i, (_, steps) in enumerate(taken):
        wanted = stacks_from_structure(graph, actions, steps)
        part = labels.annotations.take(slice(int(traces.offsets[i]), int(traces.offsets[i + 1])))
        assert part == wanted
        moments = [
            m for m, choice in zip(replay(graph, actions, steps), steps, strict=True) if choice < graph.terminate
        ]
        first, last = traces.offsets[i : i + 2]
        assert labels.procedure[first:last].tolist() == [moment.stack[-1].procedure for moment in moments]
        numbers = labels.segment[first:last]
        assert numbers[0] == 0
        changed = [
            bool(wanted.kept[t] < wanted.depths[t] or wanted.depths[t] < wanted.depths[t - 1])
            for t in range(1, len(actions))
        ]
        assert (np.diff(numbers) == changed).all()


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("infer") / "run"
    traces = find_task("karel:B").demonstrations(5, 0)
    hvil.fit(traces, "tree:2x2", out=path, updates=2, hidden=8, context=4, batch_size=5)
    return path


def test_the_file_labels_steps_and_is_a_trace_file(tiny_run: Path, tmp_path: Path, capsys: Capture) -> None:
    traces = find_task("karel:B").demonstrations(7, 3)
    save(replace(traces, annotations=None), tmp_path / "traces.npz")
    out = tmp_path / "segments.parquet"
    arguments = ["infer", str(tiny_run), str(tmp_path / "traces.npz"), "--out", str(out), "--json"]
    assert main(arguments) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["traces"] == 7
    assert result["actions"] == len(traces.actions)
    assert sum(result["procedures"].values()) == pytest.approx(1)
    table = pd.read_parquet(out)
    assert {"trace", "step", "action", "depth", "stack", "kept", "procedure", "segment"} <= set(table.columns)
    acted = table[table["action"].notna()]
    assert (acted["depth"] == acted["stack"].map(len)).all()
    assert (acted["procedure"] == acted["stack"].map(lambda stack: stack[-1])).all()
    assert table[table["action"].isna()][["depth", "procedure", "segment"]].isna().all().all()
    again = load(out)
    assert again.annotations is not None
    assert again.annotations.known.all()
    assert np.array_equal(again.actions, traces.actions)
    assert np.array_equal(again.observations, traces.observations)
    learner = hvil.load(tiny_run).learner
    wanted = segments(hvil.load(tiny_run).config.graph, traces, infer(learner, traces).steps)
    assert again.annotations == wanted.annotations


def test_structures_can_be_drawn_and_inferred_exactly(tiny_run: Path, tmp_path: Path, capsys: Capture) -> None:
    for i, flags in enumerate([["--samples", "--seed", "1"], ["--exact"], ["--exact", "--samples"]]):
        out = tmp_path / f"{i}.npz"
        assert main(["infer", str(tiny_run), "karel:B", "--traces", "4", "--out", str(out), *flags]) == 0
        annotations = load(out).annotations
        assert annotations is not None
        assert annotations.known.all()
    assert "4 traces" in capsys.readouterr().out
    first, second = (hvil.load(tiny_run).learner for _ in range(2))
    traces = find_task("karel:B").demonstrations(6, 5)
    drawn = [infer(learner, traces, np.random.default_rng(4)) for learner in (first, second)]
    assert np.array_equal(drawn[0].steps.choice, drawn[1].steps.choice)


def test_bad_input_is_one_line(tiny_run: Path, tmp_path: Path, capsys: Capture) -> None:
    for arguments, message in [
        ([str(tiny_run), "karel:B", "--out", str(tmp_path / "x.csv")], "expected FILE.parquet"),
        ([str(tiny_run), "bubblesort", "--out", str(tmp_path / "x.parquet")], "actions"),
        ([str(tmp_path), "karel:B", "--out", str(tmp_path / "x.parquet")], "not a run directory"),
        ([str(tiny_run), "karel:B", "--traces", "0", "--out", str(tmp_path / "x.parquet")], "--traces"),
    ]:
        assert main(["infer", *arguments]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    assert not (tmp_path / "x.parquet").exists()


def test_a_recurrent_policy_has_no_structure() -> None:
    traces = find_task("karel:B").demonstrations(5, 0)
    run = hvil.fit(traces, "tree:2x2", model="feedforward", updates=1, units=4)
    with pytest.raises(InputError, match="infers no call structure"):
        infer(run.learner, traces)
