"""Explaining policies: programs that are written down come back, fidelity is that of the text, files run."""

import itertools
import re
from collections.abc import Mapping

import numpy as np
import pytest
from table_policy import RETURN, flat_teacher, karel_policy, lamp_policy, lamp_traces, program_f

from hvil.analysis.explain import Explanation, explain
from hvil.analysis.explain.evidence import record
from hvil.analysis.explain.execution import agreement
from hvil.analysis.explain.facts import Facts
from hvil.analysis.explain.text import TextProgram
from hvil.analysis.explain.vocabulary import COUNTER, LAST, looks_at_frame, vocabulary
from hvil.data.tasks import Quantity, find_task
from hvil.data.traces import Traces
from hvil.domains.karel import PROGRAMS, execute, parse
from hvil.gate.errors import InputError
from hvil.gate.text import identifiers
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
    assert set(explained.summary()) >= {"lines", "policy_agreement", "teacher_agreement", "source"}


def test_equivalent_procedures_and_direct_actions_are_one() -> None:
    explanation = explain(program_f(redundant=True), KAREL_F, episodes=300, fresh=200)
    assert explanation.policy_agreement == 1
    assert explanation.lines <= 12
    assert len(explanation.procedures) == 2
    assert explanation.unused == ("spare",)
    assert set(explanation.absorbed) < {"step", "copy"}
    assert len(explanation.absorbed) == 1


def test_inlining_writes_one_use_procedures_where_they_are_called() -> None:
    explanation = explain(program_f(), KAREL_F, episodes=300, fresh=100, inline=True)
    assert explanation.procedures == ("root",)
    assert "        if front_is_clear:\n            move()\n" in explanation.source
    assert explanation.absorbed == ("step",)
    assert explanation.policy_agreement == 1


def test_one_procedure_can_be_shown_and_an_unknown_one_is_refused(explained: Explanation) -> None:
    assert explained.procedure("root").startswith("def root():\n    turn_right()\n")
    with pytest.raises(InputError, match="no procedure 'nobody'"):
        explained.procedure("nobody")
    with pytest.raises(InputError, match="'spare' was never called"):
        explained.procedure("spare")


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_karel_source_of_the_teacher_is_the_teacher(name: str) -> None:
    karel = find_task(f"karel:{name}")
    explanation = explain(flat_teacher(name), karel, episodes=300, fresh=200, karel=True)
    assert explanation.lines <= 25
    assert explanation.policy_agreement == 1
    assert explanation.karel is not None
    assert explanation.karel.policy_agreement == explanation.karel.teacher_agreement == 1
    fresh = karel.test_demonstrations(100, 77)
    for i in range(len(fresh)):
        run = execute(parse(explanation.karel.source), karel.reset_options(fresh, i)["world"])
        assert run.actions == fresh.actions[fresh.offsets[i] : fresh.offsets[i + 1]].tolist()


def test_rare_behaviour_is_described_by_the_counter() -> None:
    """After five steps this policy no longer turns: a program of the same shape says so in a condition."""

    def root(observed: Mapping[str, bool], counter: int, last: str | None) -> str:
        if counter == 0:
            return "turnRight"
        if last == "move" and observed["left"] and counter < 5:
            return "turnLeft"
        return RETURN if observed["markers"] or not observed["front"] else "move"

    explanation = explain(karel_policy({"root": root}, {}), find_task("karel:B"), episodes=500, fresh=300)
    assert explanation.policy_agreement >= 0.99
    assert "counter <" in explanation.source
    assert explanation.lines <= 25


def test_text_and_tree_of_a_program_agree_with_the_same_episodes(explained: Explanation) -> None:
    # A wrong program: it never turns left.
    wrong = explained.source.replace("turn_left()", "turn_right()")
    recording = record(program_f(), KAREL_F.test_demonstrations(200, 5), KAREL_F)
    facts = Facts(explained.words, recording.observations)
    assert agreement(explained.program, facts, recording).all()
    text = TextProgram(wrong, explained.words)
    turned_left = [1 in recording.emitted[a:b] for a, b in itertools.pairwise(recording.row_offsets)]
    agrees = text.agreement(recording.observations, recording.row_offsets, recording.emitted)
    assert agrees.tolist() == [not turned for turned in turned_left]


def test_a_loop_that_does_nothing_is_a_disagreement_not_a_hang() -> None:
    recording = record(program_f(), KAREL_F.test_demonstrations(5, 5), KAREL_F)
    words = vocabulary(program_f().graph, KAREL_F, (), 4)
    stuck = TextProgram("def root():\n    while True:\n        pass\n", words)
    assert not stuck.agreement(recording.observations, recording.row_offsets, recording.emitted).any()


def test_names_from_data_become_identifiers() -> None:
    names = ["frontIsClear", "<script>alert('x')</script>", "last", "while", "a b", "a-b", "7", "", 'x"; import os']
    words = identifiers(names, (COUNTER, LAST))
    assert words[0] == "front_is_clear"
    assert len(set(words)) == len(words)
    assert all(word.isidentifier() and re.fullmatch(r"[a-z0-9_]+", word) for word in words)
    assert not {"last", "while"} & set(words)


def test_quantities_may_begin_like_the_words_of_a_frame() -> None:
    words = identifiers(["last price", "counter-clockwise", "last", "counter"], (COUNTER, LAST))
    assert not any(map(looks_at_frame, words))
    assert all(map(looks_at_frame, ["counter", "counter-2*length", "last=move", "last="]))


def test_without_a_task_the_policy_is_run_along_traces() -> None:
    traces = lamp_traces(60)
    policy = lamp_policy(traces)
    explanation = explain(policy, traces=traces)
    assert explanation.source == "def b_root():\n    while not lamp_lit:\n        push_it()\n"
    assert (explanation.policy_agreement, explanation.teacher_agreement, explanation.rolled_out) == (1, 1, False)
    assert explanation.episodes == 30
    with pytest.raises(InputError, match="runs of Karel tasks"):
        explain(policy, traces=traces, karel=True)


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

    explanation = explain(Walker(), traces=traces)
    assert explanation.source == "def root():\n    while x < shelf:\n        right()\n"
    assert explanation.policy_agreement == 1


def test_a_loop_may_count_to_the_square_of_a_length() -> None:
    """One loop that does the work of two nested ones: learned programs that sort count so."""

    class Counting:
        graph = call_graph({"procedures": {"root": {"calls": []}}}, find_task("bubblesort").action_names)

        def choices(self, features: np.ndarray, tops: Tops) -> np.ndarray:
            length = np.rint(10 * features[:, -1])
            return np.where(tops.counter < length**2 - 1, 1, self.graph.terminate)

    explanation = explain(Counting(), find_task("bubblesort"), episodes=60, fresh=30)
    assert explanation.source == "def root():\n    for _ in range(length * length - 1):\n        ptr1_right()\n"
    assert explanation.policy_agreement == 1


def test_nothing_to_run_on_is_refused() -> None:
    with pytest.raises(InputError, match="no roll-outs are possible"):
        explain(program_f())
    with pytest.raises(InputError, match="at least 1 of each"):
        explain(program_f(), KAREL_F, episodes=0)
    with pytest.raises(InputError, match="its actions are not the policy's"):
        explain(program_f(), find_task("bubblesort"))


def test_a_behaviour_that_does_not_fit_karel_is_said_to_be_so() -> None:
    def root(observed: Mapping[str, bool], counter: int, last: str | None) -> str:
        return "turnLeft" if counter < 13 + 5 * (observed["front"] and observed["right"]) else RETURN

    with pytest.raises(InputError, match="does not fit the Karel language"):
        explain(karel_policy({"root": root}, {}), KAREL_F, episodes=200, fresh=100, karel=True)


def test_quantities_of_bubble_sort_are_read_from_observations() -> None:
    bubblesort = find_task("bubblesort")
    environment = bubblesort.environment()
    observation, _ = environment.reset(options={"list": [7, 1, 3]})
    environment.step(3)
    observation = environment.step(0)[0]
    values = {quantity.name: float(quantity.of(observation[None])[0]) for quantity in bubblesort.quantities}
    assert values == {"value1": 7, "value2": 1, "pointer1_at_end": 1, "pointer2_at_end": 0, "length": 3}
    assert Quantity("x", "observation[..., 1]", "number").of(np.array([[1.0, 2.0]])).tolist() == [2.0]
