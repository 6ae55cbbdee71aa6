"""The search for programs: meanings against plain execution, smallest programs, noise in demands."""

from hypothesis import given
from hypothesis import strategies as st

from hvil.analysis.explain.syntax import Block, Comparison, If, Statement, Step, While, literal, size
from hvil.analysis.explain.synthesis import END, Budget, Demands, Found, bits, meaning_of, synthesise

TESTS = (Comparison("a", 0.5), Comparison("b", 0.5))
MAX_STEPS = 60


@st.composite
def demands(draw: st.DrawFn) -> Demands:
    """Machines in which every situation is followed by some."""
    count = draw(st.integers(1, 6))
    wanted = draw(st.lists(st.integers(END, 2), min_size=count, max_size=count))
    masks = st.integers(1, 2**count - 1)
    following = [0 if step == END else draw(masks) for step in wanted]
    truth = [draw(st.integers(0, 2**count - 1)) for _ in TESTS]
    return Demands(wanted, following, draw(masks), TESTS, truth)


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
        ends, seen, pending = set(), {i}, [i]
        while pending:
            now = pending.pop()
            if not holds(statement, now):
                ends.add(now)
                continue
            if idle(statement.body, now):
                raise _Failed
            for then in run(statement.body, frozenset([now])):
                if then not in seen:
                    seen.add(then)
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


@given(demands())
def test_a_program_that_is_found_takes_the_wanted_steps(machine: Demands) -> None:
    block = synthesise(machine, budget=Budget(size=4, blocks=300))
    if block is None:
        return
    for start in bits(machine.starts):
        ends = executed(machine, block, start)
        assert ends is not None
        assert all(machine.wanted[end] == END for end in ends)


def _walker() -> Demands:
    """Step 0 once, then step 1 while `a`."""
    return Demands([0, 1, END], [0b110, 0b110, 0], 0b001, TESTS[:1], [0b011])


def test_the_smallest_program_is_found() -> None:
    assert synthesise(_walker()) == (Step(0), While(literal(TESTS[0]), (Step(1),)))


def test_a_known_call_is_preferred_to_writing_its_steps_out() -> None:
    machine = _walker()
    body = (Step(1),)
    meaning = meaning_of(machine, body)
    assert meaning is not None
    found = synthesise(machine, [Found((Step(7),), meaning)])
    assert found == (Step(0), While(literal(TESTS[0]), (Step(7),)))


def test_a_budget_that_is_too_small_gives_none() -> None:
    # Two situations that no test tells apart, and different steps wanted.
    assert synthesise(Demands([0, 1, END], [4, 4, 0], 0b011, TESTS[:1], [0]), budget=Budget(size=3)) is None


def test_size_counts_statements_inside_others() -> None:
    assert size((Step(0), While(literal(TESTS[0]), (If(literal(TESTS[1]), (Step(1),), (Step(2),)),)))) == 5
