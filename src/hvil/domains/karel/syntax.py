"""The Karel language as a tree: what a program is made of, in whichever form it is written.

Reading and writing are left to `parser` and `printer`, the meaning to `interpreter`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

ACTIONS = ("move", "turnLeft", "turnRight", "pickMarker", "putMarker")
OBSERVATIONS = ("frontIsClear", "leftIsClear", "rightIsClear", "markersPresent")
PREDICATES = (*OBSERVATIONS, "noMarkersPresent")


class Position(NamedTuple):
    """Where something starts in the source, both counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate of the world, or its negation."""

    predicate: str
    negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What all statements share: the position in the source, which does not count for equality."""

    position: Position = field(default=Position(1, 1), compare=False)


Block = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Action(Statement):
    """One of `ACTIONS`."""

    name: str


@dataclass(frozen=True, slots=True)
class If(Statement):
    """`if`, or `if … else` where `otherwise` is not None."""

    condition: Condition
    then: Block
    otherwise: Block | None = None


@dataclass(frozen=True, slots=True)
class While(Statement):
    """`while`."""

    condition: Condition
    body: Block


@dataclass(frozen=True, slots=True)
class Repeat(Statement):
    """`repeat(count)`."""

    count: int
    body: Block


@dataclass(frozen=True, slots=True)
class Program:
    """`def run() { … }`. A block holds at least one statement."""

    body: Block


Path = tuple[int, ...]
"""Where a statement stands in the tree: child numbers from the program down (see `children`)."""


class CoveragePoint(NamedTuple):
    """Something a run may reach: a statement (`outcome` None), or one outcome of its condition."""

    path: Path
    statement: Statement
    outcome: bool | None


def children(statement: Statement) -> Block:
    """The statements directly inside `statement`, those of `else` after those of `if`."""
    if isinstance(statement, If):
        return statement.then + (statement.otherwise or ())
    if isinstance(statement, (While, Repeat)):
        return statement.body
    return ()


def walk(block: Block, path: Path = ()) -> Iterator[tuple[Path, Statement]]:
    """Every statement with its path, a parent before its children, in the order of the source."""
    for number, statement in enumerate(block):
        here = (*path, number)
        yield here, statement
        yield from walk(children(statement), here)


def coverage_points(program: Program) -> tuple[CoveragePoint, ...]:
    """All that a group of demonstrations must reach; a condition's points follow its statement: true, false."""
    points: list[CoveragePoint] = []
    for path, statement in walk(program.body):
        points.append(CoveragePoint(path, statement, None))
        if isinstance(statement, (If, While)):
            points += [CoveragePoint(path, statement, True), CoveragePoint(path, statement, False)]
    return tuple(points)


def is_inert(statement: Statement) -> bool:
    """Whether `statement` can cause no event at all: a `repeat` of nothing."""
    if not isinstance(statement, Repeat):
        return False
    return statement.count == 0 or all(is_inert(inner) for inner in statement.body)


def rounds(statement: Repeat) -> int:
    """How often to run the body. Once is enough for a body that does nothing, however large the count.

    Without this rule `repeat(1000000000) { repeat(0) { move(); } }` would run for ever without an event.
    """
    return min(statement.count, 1) if all(is_inert(inner) for inner in statement.body) else statement.count
