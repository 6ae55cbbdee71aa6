"""The search for programs: meanings against plain execution, smallest programs, calls."""

import functools
import itertools
import operator

from hypothesis import assume, given
from hypothesis import strategies as st

from hvil.analysis.explain.meaning import Demands, Fragment, bits, meaning_of
from hvil.analysis.explain.program import Block, Comparison, If, Statement, Step, While, expanded, literal, size
from hvil.analysis.explain.synthesis import synthesise

TESTS = (Comparison("a", 0.5), Comparison("b", 0.5))
TERMINATE = 3


@st.composite
def demands(draw: st.DrawFn) -> Demands:
    """Machines in which every situation is followed by some."""
    count = draw(st.integers(1, 6))
    wanted = draw(st.lists(st.integers(0, TERMINATE), min_size=count, max_size=count))
    masks = st.integers(1, 2**count - 1)
    following = [0 if step == TERMINATE else draw(masks) for step in wanted]
    truth = [draw(st.integers(0, 2**count - 1)) for _ in TESTS]
    return Demands(wanted, following, draw(masks), TESTS, truth, TERMINATE)


def _statements(inner: st.SearchStrategy[Statement]) -> st.SearchStrategy[Statement]:
    blocks = st.lists(inner, min_size=1, max_size=2).map(tuple)
    conditions = st.builds(literal, st.sampled_from(TESTS), st.booleans())
    return st.builds(If, conditions, blocks, st.one_of(st.just(()), blocks)) | st.builds(While, conditions, blocks)


BLOCKS = st.lists(st.recursive(st.builds(Step, st.integers(0, 2)), _statements, max_leaves=5), max_size=3).map(tuple)


class _Failed(Exception):
    pass


def executed(machine: Demands, block: Block, start: int) -> set[int] | None:
    """The situations in which a block may end, by trying all that may follow; None if it fails or never acts."""

    def run(statements: Block, situations: frozenset[int]) -> frozenset[int]:
        for statement in statements:
            situations = frozenset(end for i in situations for end in one(statement, i))
        return situations

    def holds(statement: If | While, i: int) -> bool:
        part = statement.condition.clauses[0][0]
        return bool(machine.truth[TESTS.index(part.test)] >> i & 1) != part.negated

    def one(statement: Statement, i: int) -> frozenset[int]:
        if isinstance(statement, Step):
            if machine.wanted[i] != statement.step:
                raise _Failed
            return frozenset(bits(machine.following[i]))
        assert isinstance(statement, If | While)
        if isinstance(statement, If):
            return run(statement.then if holds(statement, i) else statement.otherwise, frozenset([i]))
        ends, visited, pending = set(), {i}, [i]
        while pending:
            now = pending.pop()
            if not holds(statement, now):
                ends.add(now)
                continue
            if idle(statement.body, now):
                raise _Failed
            for then in run(statement.body, frozenset([now])):
                if then not in visited:
                    visited.add(then)
                    pending.append(then)
        return frozenset(ends)

    def idle(statements: Block, i: int) -> bool:
        for statement in statements:
            if isinstance(statement, Step):
                return False
            assert isinstance(statement, If | While)
            if isinstance(statement, While):
                if holds(statement, i):
                    return False
            elif not idle(statement.then if holds(statement, i) else statement.otherwise, i):
                return False
        return True

    try:
        return set(run(block, frozenset([start])))
    except _Failed:
        return None


@given(demands(), BLOCKS)
def test_a_block_means_what_its_execution_does(machine: Demands, block: Block) -> None:
    meaning = meaning_of(machine, block)
    assert meaning is not None
    for i in range(len(machine.wanted)):
        ends = executed(machine, block, i)
        if ends is None:
            assert meaning.fails >> i & 1
        else:
            assert not meaning.fails >> i & 1
            assert set(bits(meaning.images[i])) == ends


def takes_the_wanted_steps(machine: Demands, block: Block) -> bool:
    """Whether a block leads from every start to situations in which ∅ is wanted, and fails nowhere."""
    ends = [executed(machine, block, start) for start in bits(machine.starts)]
    return all(end is not None and all(machine.wanted[i] == TERMINATE for i in end) for end in ends)


@given(demands())
def test_a_program_that_is_synthesised_takes_the_wanted_steps(machine: Demands) -> None:
    block = synthesise(machine, size_limit=4, block_limit=300)
    assert block is None or takes_the_wanted_steps(machine, block)


@st.composite
def programs_with_demands(draw: st.DrawFn) -> tuple[Block, Demands]:
    """A small program, and demands that it meets: what it does along a few sequences of outcomes of the tests."""
    block = draw(BLOCKS.filter(lambda block: size(block) <= 4))
    outcomes = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=6, max_size=6)
    runs = [_run(block, sequence) for sequence in draw(st.lists(outcomes, min_size=1, max_size=4))]
    # Each history is a situation of its own, so that the demands cannot contradict each other.
    number: dict[tuple[tuple[int, tuple[bool, bool]], ...], int] = {}
    histories = [[tuple(run[: i + 1]) for i in range(len(run))] for run in runs if run]
    assume(histories)
    for history in histories:
        for situation in history:
            number.setdefault(situation, len(number))
    following = [0] * len(number)
    for history in histories:
        for before, after in itertools.pairwise(history):
            following[number[before]] |= 1 << number[after]
    return block, Demands(
        wanted=[situation[-1][0] for situation in number],
        following=following,
        starts=functools.reduce(operator.or_, [1 << number[history[0]] for history in histories]),
        tests=TESTS,
        truth=[sum(1 << i for situation, i in number.items() if situation[-1][1][test]) for test in range(len(TESTS))],
        terminate=TERMINATE,
    )


def _run(block: Block, outcomes: list[tuple[bool, bool]]) -> list[tuple[int, tuple[bool, bool]]]:
    """The steps of a block, each with the outcomes before it; nothing if it does not come to its end."""
    taken: list[tuple[int, tuple[bool, bool]]] = []

    def run(statements: Block) -> None:
        for statement in statements:
            if isinstance(statement, Step):
                taken.append((statement.step, outcomes[len(taken)]))
                continue
            assert isinstance(statement, If | While)
            part = statement.condition.clauses[0][0]
            while outcomes[len(taken)][TESTS.index(part.test)] != part.negated:
                before = len(taken)
                run(statement.then if isinstance(statement, If) else statement.body)
                if isinstance(statement, If):
                    break
                if len(taken) == before:
                    raise _Failed
            else:
                if isinstance(statement, If):
                    run(statement.otherwise)

    try:
        run(block)
        return [*taken, (TERMINATE, outcomes[len(taken)])]
    except (IndexError, _Failed):
        return []


@given(programs_with_demands())
def test_where_a_small_program_exists_one_no_larger_is_synthesised(drawn: tuple[Block, Demands]) -> None:
    block, machine = drawn
    assert takes_the_wanted_steps(machine, block)
    synthesised = synthesise(machine)
    assert synthesised is not None
    assert takes_the_wanted_steps(machine, synthesised)
    assert size(synthesised) <= size(block)


def _walker() -> Demands:
    """Step 0 once, then step 1 while `a`."""
    return Demands([0, 1, TERMINATE], [0b110, 0b110, 0], 0b001, TESTS[:1], [0b011], TERMINATE)


def test_the_smallest_program_is_synthesised() -> None:
    assert synthesise(_walker()) == (Step(0), While(literal(TESTS[0]), (Step(1),)))


def test_a_call_is_preferred_to_writing_its_steps_out() -> None:
    machine = _walker()
    meaning = meaning_of(machine, (Step(1),))
    assert meaning is not None
    block = synthesise(machine, [Fragment((Step(7),), meaning)])
    assert block == (Step(0), While(literal(TESTS[0]), (Step(7),)))


def test_demands_that_no_program_meets_give_none() -> None:
    # Two situations that no test tells apart, and different steps wanted.
    machine = Demands([0, 1, TERMINATE], [4, 4, 0], 0b011, TESTS[:1], [0], TERMINATE)
    assert synthesise(machine, size_limit=3) is None


def test_recursive_calls_stay_calls_when_bodies_are_written_out() -> None:
    # Procedure 0 calls procedure 1, which calls itself; call steps come after ∅ (3).
    blocks = {0: (Step(5),), 1: (Step(0), If(literal(TESTS[0]), (Step(5),)))}
    assert expanded(blocks[0], blocks, TERMINATE) == blocks[1]


def test_size_counts_statements_inside_others() -> None:
    assert size((Step(0), While(literal(TESTS[0]), (If(literal(TESTS[1]), (Step(1),), (Step(2),)),)))) == 5
