"""Explaining policies: programs that are written down come back, fidelity is that of the text, files run."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from table_policy import RETURN, TablePolicy, karel_policy, program_f

import hvil
from hvil.analysis.explain import Explanation, explain, karel_source, python_file
from hvil.analysis.explain.episodes import record
from hvil.analysis.explain.execution import Facts, agreement
from hvil.analysis.explain.text import TextProgram, text_agreement
from hvil.analysis.explain.vocabulary import identifiers, vocabulary
from hvil.cli.main import main
from hvil.data.tasks import Quantity, find_task
from hvil.data.traces import Traces
from hvil.domains.karel import PROGRAMS, execute, parse
from hvil.gate.errors import InputError
from hvil.machine.batched import Tops
from hvil.machine.callgraph import call_graph

Capture = pytest.CaptureFixture[str]
KAREL_F = find_task("karel:F")


@pytest.fixture(scope="module")
def explained() -> Explanation:
    return explain(program_f(), KAREL_F, episodes=300, fresh=200)


def test_a_policy_of_two_procedures_is_printed_as_such(explained: Explanation) -> None:
    assert explained.source == (
        "def root():\n"
        "    turn_right()\n"
        "    while not markers_present:\n"
        "        step()\n"
        "\n"
        "def step():\n"
        "    if front_is_clear:\n"
        "        move()\n"
        "    elif right_is_clear:\n"
        "        turn_right()\n"
        "    else:\n"
        "        turn_left()\n"
    )
    assert explained.lines == 12
    assert explained.policy_agreement == explained.teacher_agreement == 1
    assert explained.unused == ("copy", "spare")
    assert set(explained.to_mapping()) >= {"lines", "policy_agreement", "teacher_agreement", "source"}


def test_equivalent_procedures_and_direct_actions_are_one() -> None:
    found = explain(program_f(redundant=True), KAREL_F, episodes=300, fresh=200)
    assert found.policy_agreement == 1
    assert found.lines <= 12
    assert len(found.procedures) == 2
    assert found.unused == ("spare",)
    assert set(found.absorbed) < {"step", "copy"}
    assert len(found.absorbed) == 1


def test_inlining_writes_one_use_procedures_where_they_are_called() -> None:
    found = explain(program_f(), KAREL_F, episodes=300, fresh=100, inline=True)
    assert found.procedures == ("root",)
    assert "        if front_is_clear:\n            move()\n" in found.source
    assert found.absorbed == ("step",)
    assert found.policy_agreement == 1


def test_one_procedure_can_be_shown_and_an_unknown_one_is_refused(explained: Explanation) -> None:
    assert explained.procedure("root").startswith("def root():\n    turn_right()\n")
    with pytest.raises(InputError, match="no procedure 'nobody'"):
        explained.procedure("nobody")
    with pytest.raises(InputError, match="'spare' was never called"):
        explained.procedure("spare")


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_karel_source_of_the_teacher_is_the_teacher(name: str) -> None:
    known = find_task(f"karel:{name}")
    found = explain(_flat_teacher(name), known, episodes=300, fresh=200)
    assert found.lines <= 25
    assert found.policy_agreement == 1
    in_karel = karel_source(found)
    assert in_karel.policy_agreement == in_karel.teacher_agreement == 1
    fresh = known.test_demonstrations(100, 77)
    for i in range(len(fresh)):
        run = execute(parse(in_karel.source), known.reset_options(fresh, i)["world"])
        assert run.actions == fresh.actions[fresh.offsets[i] : fresh.offsets[i + 1]].tolist()


def _flat_teacher(name: str) -> TablePolicy:
    """The programs of the paper in one procedure, by frame and observation."""

    def root(seen: Mapping[str, bool], counter: int, last: str | None) -> str:
        if counter == 0:
            return "turnRight"
        turned = {"A": "turnRight", "B": "turnLeft"}.get(name)
        if turned and last == "move" and seen["right" if name == "A" else "left"]:
            return turned
        if name == "C" and counter > 1 and last == "turnRight":
            return "move"
        if seen["markers"]:
            return RETURN
        if name == "C" and seen["right"]:
            return "turnRight"
        if name in "ABC" or seen["front"]:
            return "move"
        if name == "F":
            return "turnRight" if seen["right"] else "turnLeft"
        return "turnLeft" if name == "D" else "turnRight"

    return karel_policy({"root": root}, {})


def test_rare_behaviour_is_described_by_the_counter() -> None:
    """After ten moves this policy no longer turns: a program of the same shape says so in a condition."""

    def root(seen: Mapping[str, bool], counter: int, last: str | None) -> str:
        if counter == 0:
            return "turnRight"
        if last == "move" and seen["left"] and counter < 5:
            return "turnLeft"
        return RETURN if seen["markers"] or not seen["front"] else "move"

    found = explain(karel_policy({"root": root}, {}), find_task("karel:B"), episodes=500, fresh=300)
    assert found.policy_agreement >= 0.99
    assert "counter <" in found.source
    assert found.lines <= 25


def test_text_and_tree_of_a_program_agree_with_the_same_episodes() -> None:
    found = explain(program_f(), KAREL_F, episodes=200, fresh=50)
    # A wrong program: it never turns left.
    wrong = found.source.replace("turn_left()", "turn_right()")
    recording = record(program_f(), KAREL_F.test_demonstrations(200, 5), KAREL_F)
    values = found.words.rows(recording.observations)
    right = agreement(found.program, Facts(found.words, recording), recording)
    assert right.all()
    text = TextProgram(wrong, found.words, "root", values)
    turned_left = [1 in recording.actions[a:b] for a, b in zip(recording.offsets, recording.offsets[1:], strict=False)]
    assert (text_agreement(text, recording.offsets, recording.actions) == ~np.array(turned_left)).all()


def test_a_loop_that_does_nothing_is_a_disagreement_not_a_hang() -> None:
    recording = record(program_f(), KAREL_F.test_demonstrations(5, 5), KAREL_F)
    words = vocabulary(program_f().graph, KAREL_F, (), 4)
    stuck = TextProgram(
        "def root():\n    while True:\n        pass\n", words, "root", words.rows(recording.observations)
    )
    assert not text_agreement(stuck, recording.offsets, recording.actions).any()


def test_the_python_file_runs_on_its_own(explained: Explanation, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(python_file(explained), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(path), "20", "3"], capture_output=True, text=True, cwd=tmp_path, env=_environment()
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "20 of 20 episodes on karel:F succeeded\n"


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}


def test_names_from_data_become_identifiers() -> None:
    names = ["frontIsClear", "<script>alert('x')</script>", "last", "while", "a b", "a-b", "7", "", 'x"; import os']
    words = identifiers(names)
    assert words[0] == "front_is_clear"
    assert len(set(words)) == len(words)
    assert all(word.isidentifier() and re.fullmatch(r"[a-z0-9_]+", word) for word in words)
    assert not {"last", "while"} & set(words)


def _lamp_traces(count: int) -> Traces:
    """Push until the lamp is lit; what is observed: the lamp, and a number that means nothing."""
    rng = np.random.default_rng(0)
    observations, actions = [], []
    for _ in range(count):
        pushes = int(rng.integers(1, 6))
        lamp = np.array([0.0] * pushes + [1.0])
        observations.append(np.column_stack([lamp, rng.random(pushes + 1)]).astype(np.float32))
        actions.append(np.zeros(pushes, dtype=np.int32))
    names = ("push <it>", "wait")
    return Traces.from_episodes(observations, actions, action_names=names, observation_names=("lamp 'lit'", "noise"))


def test_without_a_task_the_policy_is_run_along_traces() -> None:
    traces = _lamp_traces(60)
    graph = call_graph({"procedures": {"<b>root": {"calls": []}}}, traces.action_names)

    def root(seen: Mapping[str, bool], counter: int, last: str | None) -> str:
        return RETURN if counter and seen["lit"] else "push <it>"

    found = explain(TablePolicy(graph, ("lit", "noise"), {"<b>root": root}), traces=traces)
    assert found.source == "def b_root():\n    while not lamp_lit:\n        push_it()\n"
    assert (found.policy_agreement, found.teacher_agreement, found.rolled_out) == (1, 1, False)
    assert found.episodes == 30
    with pytest.raises(InputError, match="needs an environment"):
        python_file(found)
    with pytest.raises(InputError, match="runs of Karel tasks"):
        karel_source(found)


def test_columns_of_whole_numbers_are_compared_with_each_other() -> None:
    """Walk along a corridor to the shelf: no single column says when to stop."""
    rng = np.random.default_rng(0)
    walks = [(int(rng.integers(1, 5)), int(rng.integers(5, 9))) for _ in range(60)]
    traces = Traces.from_episodes(
        [np.array([[x, shelf] for x in range(start, shelf + 1)], dtype=np.float32) for start, shelf in walks],
        [np.zeros(shelf - start, dtype=np.int32) for start, shelf in walks],
        action_names=("right", "left"),
        observation_names=("x", "shelf"),
    )

    class Walker:
        graph = call_graph({"procedures": {"root": {"calls": []}}}, traces.action_names)

        def choices(self, features: np.ndarray, tops: Tops) -> np.ndarray:
            return np.where((features[:, 0] < features[:, 1]) | (tops.counter == 0), 0, self.graph.terminate)

    found = explain(Walker(), traces=traces)
    assert found.source == "def root():\n    while x < shelf:\n        right()\n"
    assert found.policy_agreement == 1


def test_a_loop_may_count_to_the_square_of_a_length() -> None:
    """One loop that does the work of two nested ones: learned programs that sort count so."""

    class Counting:
        graph = call_graph({"procedures": {"root": {"calls": []}}}, find_task("bubblesort").action_names)

        def choices(self, features: np.ndarray, tops: Tops) -> np.ndarray:
            length = np.rint(10 * features[:, -1])
            return np.where(tops.counter < length**2 - 1, 1, self.graph.terminate)

    found = explain(Counting(), find_task("bubblesort"), episodes=60, fresh=30)
    assert found.source == "def root():\n    for _ in range(length * length - 1):\n        ptr1_right()\n"
    assert found.policy_agreement == 1


def test_nothing_to_run_on_is_refused() -> None:
    with pytest.raises(InputError, match="no roll-outs are possible"):
        explain(program_f())
    with pytest.raises(InputError, match="at least 1 of each"):
        explain(program_f(), KAREL_F, episodes=0)
    with pytest.raises(InputError, match="its actions are not the policy's"):
        explain(program_f(), find_task("bubblesort"))


def test_a_behaviour_that_does_not_fit_karel_is_said_to_be_so() -> None:
    def root(seen: Mapping[str, bool], counter: int, last: str | None) -> str:
        return "turnLeft" if counter < 13 + 5 * (seen["front"] and seen["right"]) else RETURN

    found = explain(karel_policy({"root": root}, {}), KAREL_F, episodes=200, fresh=100)
    with pytest.raises(InputError, match="does not fit the Karel language"):
        karel_source(found)


def test_quantities_of_bubble_sort_are_read_from_observations() -> None:
    known = find_task("bubblesort")
    environment = known.environment()
    observation, _ = environment.reset(options={"list": [7, 1, 3]})
    environment.step(3)
    observation = environment.step(0)[0]
    values = {quantity.name: float(quantity.of(observation[None])[0]) for quantity in known.quantities}
    assert values == {"value1": 7, "value2": 1, "pointer1_at_end": 1, "pointer2_at_end": 0, "length": 3}
    assert Quantity("x", "observation[..., 1]", "number").of(np.array([[1.0, 2.0]])).tolist() == [2.0]


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explain") / "run"
    traces = find_task("karel:B").demonstrations(5, 0)
    hvil.fit(traces, "tree:2x2", out=path, updates=2, hidden=8, context=4, batch_size=5)
    return path


def test_the_command_prints_program_and_fidelity(tiny_run: Path, tmp_path: Path, capsys: Capture) -> None:
    few = ["--rollouts", "30", "--fresh", "20"]
    assert main(["explain", str(tiny_run), *few, "--python", str(tmp_path / "p.py")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("def root():\n")
    assert re.search(r"# \d+ lines; agrees with the policy on [\d.]+% and with the teacher on [\d.]+% of 20 fresh", out)
    compile((tmp_path / "p.py").read_text(encoding="utf-8"), "p.py", "exec")
    assert main(["explain", str(tiny_run), *few, "--procedure", "root", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["source"].startswith(result["procedure"].rstrip("\n"))
    assert result["lines"] == len(result["source"].splitlines())


def test_the_command_refuses_in_one_line(tiny_run: Path, tmp_path: Path, capsys: Capture) -> None:
    traces = find_task("karel:B").demonstrations(5, 0)
    hvil.fit(traces, "tree:2x2", out=tmp_path / "lstm", model="lstm", updates=1, units=4, layers=1)
    shutil.copytree(tiny_run, tmp_path / "empty")
    (tmp_path / "empty" / "model.safetensors").unlink()
    for arguments, message in [
        ([str(tmp_path / "lstm")], "'lstm' has no procedures to explain"),
        ([str(tmp_path / "empty")], "model.safetensors"),
        ([str(tmp_path)], "not a run directory"),
        ([str(tiny_run), "--procedure", "nobody"], "no procedure 'nobody'"),
        ([str(tiny_run), "--fresh", "0"], "at least 1"),
        ([str(tiny_run), "--seed", "-1"], "--seed -1"),
    ]:
        assert main(["explain", *arguments]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1, error


def test_a_run_explains_itself(tiny_run: Path) -> None:
    found = hvil.load(tiny_run).explain(episodes=20, fresh=10)
    assert found.source.startswith("def root():")
    assert 0 <= found.policy_agreement <= 1
