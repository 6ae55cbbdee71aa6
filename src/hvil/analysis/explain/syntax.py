"""Programs that are extracted from a policy, as trees: steps, branches, loops, and conditions over named tests.

Leaves finding them to `synthesis` and `refinement`, writing them down to `printing`, running them to `execution`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple


class Comparison(NamedTuple):
    """A comparison that can be true or false before a step: `feature > threshold`, whose words `vocabulary` knows."""

    feature: str
    threshold: float


@dataclass(frozen=True, slots=True)
class Literal:
    """A test, or its negation."""

    test: Comparison
    negated: bool = False


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A condition in disjunctive form: some clause holds; a clause is a conjunction of literals.

    No clause is never true, an empty clause always.
    """

    clauses: tuple[tuple[Literal, ...], ...]

    @property
    def size(self) -> int:
        """How many literals."""
        return sum(map(len, self.clauses))


ALWAYS = AnyOf(((),))
Condition = AnyOf


def literal(test: Comparison, negated: bool = False) -> Condition:
    """A condition of one literal."""
    return AnyOf(((Literal(test, negated),),))


@dataclass(frozen=True, slots=True)
class Statement:
    """What all statements share."""


Block = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Step(Statement):
    """An action or a call, by the number that the extraction gives it."""

    step: int


@dataclass(frozen=True, slots=True)
class Return(Statement):
    """The end of the procedure."""


@dataclass(frozen=True, slots=True)
class If(Statement):
    """`if`, with an `else` unless that is empty."""

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
    """`for _ in range(count)`; `count` is `factor · feature + offset`, or a number if there is no feature."""

    feature: str | None
    factor: int
    offset: int
    body: Block


def size(block: Block) -> int:
    """Number of statements, those inside others included."""
    return sum(1 for _ in walk(block))


def walk(block: Block) -> Iterator[Statement]:
    """Every statement, a parent before its children."""
    for statement in block:
        yield statement
        for inner in bodies(statement):
            yield from walk(inner)


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


def steps_of(block: Block) -> set[int]:
    """The steps that a block may take."""
    return {statement.step for statement in walk(block) if isinstance(statement, Step)}
