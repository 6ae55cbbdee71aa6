"""A small part of `python -m benchmarks.fuzz`, in every test run; and the defects that fuzzing found."""

import json
from pathlib import Path

import pytest
from benchmarks.fuzz import fuzz
from toy_learner import toy_traces

import hvil
from hvil.gate.errors import InputError


@pytest.mark.filterwarnings("ignore")
def test_whatever_the_bytes_the_answer_is_clear() -> None:
    for kind, tally in fuzz(800, first_seed=7).items():
        assert tally.cases >= 100
        assert not tally.defects, f"{kind}: {list(tally.defects)}"


def test_a_small_configuration_cannot_ask_for_a_large_model(tmp_path: Path) -> None:
    run = tmp_path / "run"
    hvil.fit(toy_traces(4), "tree:2x2", model="feedforward", units=4, updates=1, out=run)
    config = json.loads((run / "config.json").read_text())
    for shape, units in (([2**30], 4), ([2**30, 2**30], 4), ([3], 65536)):
        config["observation_shape"], config["model"]["units"] = shape, units
        config.pop("inputs", None)
        config["observation_names"] = []
        (run / "config.json").write_text(json.dumps(config))
        with pytest.raises(InputError, match=r"another configuration|as large as the configuration"):
            hvil.load(run)


def test_names_with_line_breaks_are_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"session_id": {"a\nb": 1}, "x": 2}))
    with pytest.raises(InputError, match="no column says") as caught:
        hvil.load_traces(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="no column 'nope'") as caught:
        hvil.load_traces(path, trace_column="nope", action_column="x")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["up\n", "left, right", "down "])
def test_parts_of_a_continuous_action_whose_names_cannot_be_listed_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "log.jsonl"
    rows = [{"trace": 0, "x": t, "action": {name.strip(" "): 0.5 * t, name: t / 3}} for t in range(3)]
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError, match="a comma, or with blanks around it") as caught:
        hvil.load_traces(path)
    assert "\n" not in str(caught.value)


def test_a_labelled_trace_without_actions_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [{"trace": "a", "action": None, "stack": "b", "observation.y": 1}]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(InputError, match="action"):
        hvil.load_traces(path)
    full = [{**rows[0], "action": "go"}, rows[0], {**rows[0], "trace": "c"}]
    path.write_text("\n".join(map(json.dumps, full)), encoding="utf-8")
    with pytest.raises(InputError, match="action"):
        hvil.load_traces(path)
