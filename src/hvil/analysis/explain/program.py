"""Programs as trees: steps, branches, loops and conditions, and the functions that look into these trees.

Everything else in this room imports from here. `synthesis`, `extraction` and `refinement` find programs, `printing`
writes them down, `execution` runs the tree and `text` runs what is printed.

Steps have numbers: the actions first, then ∅ (`terminate`, the number of actions), then the calls (`call_step`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

NO_STEP = -1
"""The last step of a frame that has not taken one yet."""


class Comparison(NamedTuple):
    """`feature > threshold`, which is true or false before a step; `vocabulary` knows the features."""

    feature: str
    threshold: float


@dataclass(frozen=True, slots=True)
class Literal:
    """A comparison, or its negation."""

    test: Comparison
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """A disjunction of clauses; a clause is a conjunction of literals.

    A condition without clauses is never true. A clause without literals is always true.
    """

    clauses: tuple[tuple[Literal, ...], ...]


ALWAYS, NEVER = Condition(((),)), Condition(())


def literal(test: Comparison, negated: bool = False) -> Condition:
    """A condition of one literal."""
    return Condition(((Literal(test, negated),),))


@dataclass(frozen=True, slots=True)
class Statement:
    """What all statements share."""


Block = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Step(Statement):
    """An action or a call, by its number."""

    step: int


@dataclass(frozen=True, slots=True)
class If(Statement):
    """`if`, with an `else` unless that block is empty."""

    condition: Condition
    then: Block
    otherwise: Block = ()


@dataclass(frozen=True, slots=True)
class While(Statement):
    """`while`."""

    condition: Condition
    body: Block


@dataclass(frozen=True, slots=True)
class For(Statement):
    """`for _ in range(count)`: `count` is `factor · quantity + offset`, or `offset` alone without a quantity."""

    quantity: str | None
    factor: int
    offset: int
    body: Block


@dataclass(frozen=True)
class Program:
    """A block for each procedure that the program needs."""

    root: int
    terminate: int
    """The number of ∅: smaller steps are actions, larger ones are calls."""
    blocks: Mapping[int, Block]

    def callee(self, step: int) -> int | None:
        """The procedure that a step calls; None if the step is an action."""
        return step - self.terminate - 1 if step > self.terminate else None


def call_step(procedure: int, terminate: int) -> int:
    """The step that calls a procedure."""
    return terminate + 1 + procedure


def bodies(statement: Statement) -> tuple[Block, ...]:
    """The blocks directly inside a statement."""
    if isinstance(statement, If):
        return statement.then, statement.otherwise
    if isinstance(statement, While | For):
        return (statement.body,)
    return ()


def with_bodies(statement: Statement, blocks: tuple[Block, ...]) -> Statement:
    """The statement with other blocks inside."""
    if isinstance(statement, If):
        return replace(statement, then=blocks[0], otherwise=blocks[1])
    if isinstance(statement, While | For):
        return replace(statement, body=blocks[0])
    return statement


def walk(block: Block) -> Iterator[Statement]:
    """Every statement, a parent before its children."""
    for statement in block:
        yield statement
        for inner in bodies(statement):
            yield from walk(inner)


def size(block: Block) -> int:
    """The number of statements, including those inside others."""
    return sum(1 for _ in walk(block))


def steps_of(block: Block) -> Iterator[int]:
    """The steps that are written in a block."""
    return (statement.step for statement in walk(block) if isinstance(statement, Step))


def literals_of(block: Block) -> Iterator[Literal]:
    """The literals of all conditions in a block."""
    for statement in walk(block):
        if isinstance(statement, If | While):
            for clause in statement.condition.clauses:
                yield from clause


def expanded(block: Block, callees: Mapping[int, Block], terminate: int) -> Block:
    """The block with the bodies of these procedures in place of the calls to them; recursive calls stay calls."""
    by_step = {call_step(procedure, terminate): body for procedure, body in callees.items()}

    def expand(part: Block, inside: frozenset[int]) -> Block:
        result: list[Statement] = []
        for statement in part:
            if isinstance(statement, Step) and statement.step in by_step and statement.step not in inside:
                result += expand(by_step[statement.step], inside | {statement.step})
            else:
                result.append(with_bodies(statement, tuple(expand(body, inside) for body in bodies(statement))))
        return tuple(result)

    return expand(block, frozenset())


def reachable(program: Program) -> Program:
    """The program without the procedures that its root does not reach; callers come before what they call."""
    reached: dict[int, Block] = {}
    pending = [program.root]
    while pending:
        procedure = pending.pop()
        if procedure not in reached:
            reached[procedure] = program.blocks[procedure]
            callees = {program.callee(step) for step in steps_of(reached[procedure])}
            pending += sorted((callee for callee in callees if callee is not None), reverse=True)
    return replace(program, blocks=reached)
