"""The interpreter of programs: it does what Python does with the same text, can stop at any action, and always ends."""

import itertools
import json
from collections.abc import Sequence

import numpy as np
import pytest
from called_program import called
from hypothesis import given
from hypothesis import strategies as st

from hvil.analysis.explain.evidence import Recording
from hvil.analysis.explain.execution import agreement
from hvil.analysis.explain.facts import Facts
from hvil.analysis.explain.interpreter import DEPTH_LIMIT, STUCK, Interpreter, Memory
from hvil.analysis.explain.printing import print_program
from hvil.analysis.explain.program import (
    Block,
    Comparison,
    Condition,
    For,
    If,
    Literal,
    Program,
    Statement,
    Step,
    While,
    call_step,
    walk,
)
from hvil.analysis.explain.text import TextProgram
from hvil.analysis.explain.vocabulary import Vocabulary
from hvil.data.tasks import Quantity
from hvil.machine.steps import Steps

WORDS = Vocabulary(
    quantities=(Quantity("height", "observation[..., 0]", "number"),), actions=("go",), procedures=("root",)
)
RICH = Vocabulary(
    quantities=(
        Quantity("lit", "observation[..., 0] > 0", "truth"),
        Quantity("length", "observation[..., 1]", "count"),
        Quantity("height", "observation[..., 2]", "number"),
    ),
    actions=("go", "turn"),
    procedures=("root", "inner", "other"),
)
ROWS = 8


@pytest.mark.parametrize(
    ("body", "agrees"),
    [
        ("go()", True),
        ("pass", False),
        ("while height > -1:\n        pass", False),
        ("root()", False),
        ("go()\n    root()", False),
        ("go()\n    while height > -1:\n        pass", False),
    ],
)
def test_a_text_that_never_ends_does_not_agree(body: str, agrees: bool) -> None:
    program = TextProgram(f"def root():\n    {body}\n", WORDS)
    go, terminate = 0, 1
    result = program.agreement(np.zeros((2, 1)), np.array([0, 2]), np.array([go, terminate]))
    assert result.tolist() == [agrees]


def test_a_procedure_that_only_calls_itself_is_stuck_and_the_text_can_be_used_again() -> None:
    program = TextProgram("def root():\n    if height > 0:\n        root()\n    go()\n", WORDS)
    observations = np.array([[1.0], [0.0], [0.0], [0.0]])
    result = program.agreement(observations, np.array([0, 2, 4]), np.array([0, 1, 0, 1]))
    assert result.tolist() == [False, True]


def test_calls_without_end_are_stuck_also_if_each_acts() -> None:
    program = Interpreter("def root():\n    go()\n    root()\n", ["go"])
    memory: Memory | None = None
    for _ in range(DEPTH_LIMIT):
        action, memory = program.act({}, memory)
        assert action == 0
    assert program.act({}, memory) == (1, STUCK)
    assert program.act({}, STUCK) == (1, STUCK)


@pytest.mark.parametrize(
    "text", ["x = 1\n", "def root():\n    fly()\n", "def root():\n    go(1)\n", "def root():\n    return\n"]
)
def test_a_text_that_is_no_program_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"line \d: .* cannot stand there in a program"):
        Interpreter(text, ["go"])


def conditions() -> st.SearchStrategy[Condition]:
    features = [*RICH.features, *(RICH.last_feature(step) for step in (-1, 0, 1, 4, 5))]
    tests = st.builds(Comparison, st.sampled_from(features), st.sampled_from([-0.5, 0.5, 1.5, 2.5]))
    literals = st.builds(Literal, tests, st.booleans())
    clauses = st.lists(literals, min_size=1, max_size=2).map(tuple)
    return st.lists(clauses, max_size=2).map(lambda parts: Condition(tuple(parts)))


def statements(inner: st.SearchStrategy[Statement]) -> st.SearchStrategy[Statement]:
    blocks = st.lists(inner, max_size=2).map(tuple)
    counts = st.sampled_from([(None, 0, 0), (None, 0, 2), ("length", 1, -1), ("length", 2, 0)])
    loops = st.builds(lambda count, body: For(*count, body), counts, blocks)
    return st.builds(If, conditions(), blocks, blocks) | st.builds(While, conditions(), blocks) | loops


STEPS = st.sampled_from([0, 0, 1, 1, *(call_step(procedure, RICH.terminate) for procedure in range(3))])
BLOCKS = st.lists(st.recursive(st.builds(Step, STEPS), statements, max_leaves=4), max_size=3).map(tuple)
PROGRAMS = st.tuples(BLOCKS, BLOCKS, BLOCKS).map(lambda blocks: Program(0, RICH.terminate, dict(enumerate(blocks))))
ROW = st.tuples(st.integers(0, 1), st.integers(0, 3), st.sampled_from([-1.0, 0.5, 2.0]))
OBSERVATIONS = st.lists(ROW, min_size=ROWS, max_size=ROWS).map(lambda rows: np.array(rows, dtype=np.float64))


def interpreted(
    source: str, rows: Sequence[dict[str, float]], stored: bool = False
) -> tuple[list[int], bool, list[Memory]]:
    """The actions at these rows up to ∅, whether the program got stuck, and its memories."""
    program = Interpreter(source, RICH.actions)
    memory: Memory | None = None
    actions, memories = [], []
    for row in rows:
        action, memory = program.act(row, json.loads(json.dumps(memory)) if stored else memory)
        if memory == STUCK:
            return actions, True, memories
        actions.append(action)
        memories.append(memory)
        if action == RICH.terminate:
            break
    return actions, False, memories


def rows_of(observations: np.ndarray) -> list[dict[str, float]]:
    values = RICH.typed_values(observations)
    return [{name: column[row] for name, column in values.items()} for row in range(len(observations))]


@given(PROGRAMS, OBSERVATIONS)
def test_a_text_does_what_python_does_with_it(program: Program, observations: np.ndarray) -> None:
    source, rows = print_program(RICH, program), rows_of(observations)
    actions, stuck, _ = interpreted(source, rows)
    assert (actions, stuck) == called(source, RICH.actions, rows)


FRAMES = [
    """
def root():
    go()
    inner()
    while counter < 4:
        go()
    if last is go:
        turn()

def inner():
    while counter < 2:
        turn()
""",
    """
def root():
    for _ in range(2):
        for _ in range(length):
            inner()
        turn()
    if last is turn and counter >= 3:
        go()

def inner():
    if last is None:
        go()
    other()
    if last is other:
        turn()

def other():
    pass
""",
]


@pytest.mark.parametrize("source", FRAMES)
@pytest.mark.parametrize("length", range(4))
def test_counter_and_last_are_those_of_the_procedure_that_runs(source: str, length: int) -> None:
    rows = rows_of(np.array([[0, length if row == 0 else 3, 0] for row in range(40)]))
    actions, stuck, _ = interpreted(source, rows)
    assert actions[-1] == RICH.terminate
    assert (actions, stuck) == called(source, RICH.actions, rows)


@given(PROGRAMS, OBSERVATIONS)
def test_a_memory_may_be_stored_and_nothing_else_is_remembered(program: Program, observations: np.ndarray) -> None:
    source, rows = print_program(RICH, program), rows_of(observations)
    once = interpreted(source, rows)
    assert interpreted(source, rows, stored=True) == once
    actions, _, memories = once
    fresh = Interpreter(source, RICH.actions)
    pairs = list(zip(itertools.islice(rows, 1, None), memories, actions[1:], strict=False))
    for row, memory, action in reversed(pairs):
        assert fresh.act(row, memory)[0] == action


def has_for(block: Block) -> bool:
    return any(isinstance(statement, For) for statement in walk(block))


@given(PROGRAMS.filter(lambda program: not any(map(has_for, program.blocks.values()))), OBSERVATIONS)
def test_text_and_tree_do_the_same(program: Program, observations: np.ndarray) -> None:
    """The search runs trees; what it finds must mean the same when it is printed."""
    actions, stuck, _ = interpreted(print_program(RICH, program), rows_of(observations))
    emitted = np.array([*actions, *([0] if stuck else [])], dtype=np.int64)
    nothing = np.zeros(0, dtype=np.int64)
    recording = Recording(
        observations=observations[: len(emitted)],
        row_offsets=np.array([0, len(emitted)]),
        emitted=emitted,
        steps=Steps(nothing, nothing, nothing, nothing, nothing, nothing, np.zeros(2, dtype=np.int64)),
    )
    assert agreement(program, Facts(RICH, observations), recording).tolist() == [not stuck]
