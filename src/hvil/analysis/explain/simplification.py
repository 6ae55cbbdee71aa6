"""Leaves out of a program what no demonstration asks for.

A network that has never seen an 8 beside a 9 may compare them wrongly, and a faithful program has to say so:
`if value2 < 8 and value1 > value2`. No demonstration asks for `value2 < 8`: a smaller program explains them all. Here a
program loses statements and conditions as long as it explains every demonstration that it explained before. Of several
smaller programs of one size, the one that agrees with the policy most often is taken.

Letters: N demonstrations.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from hvil.analysis.explain.conditions import shortenings
from hvil.analysis.explain.evidence import Recording
from hvil.analysis.explain.execution import Runner, agreement
from hvil.analysis.explain.facts import Facts
from hvil.analysis.explain.program import (
    Block,
    Condition,
    If,
    Program,
    Statement,
    While,
    literals_of,
    reachable,
    size,
)

COMPARED_EPISODES = 300
"""Episodes of the policy by which programs of one size are compared: it is enough to tell a slip from a habit."""
EXPLAINED = 0.9
"""Share of the demonstrations that a program has to explain before it is simplified: those that it does not explain
cannot say what it needs."""
MOST_PAIRS = 4_000
"""Programs that are tried with two changes at once, where no single change will do."""


class Demonstrations(NamedTuple):
    """What a program has to explain: the teacher's actions at recorded observations."""

    facts: Facts
    """Of the observations."""
    row_offsets: Int[np.ndarray, "N_plus_1"]
    """Demonstration i has the rows `row_offsets[i]:row_offsets[i+1]`."""
    emitted: list[int]
    """The action at each row; ∅ at the last row of each."""

    def explained(self, program: Program) -> list[int]:
        """The demonstrations that the program repeats exactly."""
        runner = Runner(program, self.facts)
        return [i for i in range(len(self.row_offsets) - 1) if self.explains(runner, i)]

    def mostly_explained(self, program: Program) -> bool:
        """Whether the program explains so many that they can say what it needs."""
        return len(self.explained(program)) >= EXPLAINED * (len(self.row_offsets) - 1)

    def explains(self, runner: Runner, i: int) -> bool:
        """Whether a program repeats one demonstration exactly."""
        first, end = self.row_offsets[i : i + 2].tolist()
        return runner.agrees(first, self.emitted[first:end])


def simplified(program: Program, demonstrations: Demonstrations, recording: Recording, facts: Facts) -> Program:
    """The smallest program that this search comes to.

    Args:
        program: what was extracted.
        demonstrations: those that it explains now, it explains afterwards.
        recording: episodes of the policy; they decide between programs of one size.
        facts: of the recording's observations.
    """
    check = _Check(demonstrations, demonstrations.explained(program))
    sample = recording.first(COMPARED_EPISODES)
    while True:
        smaller = [each for each in _smaller(program) if check.explains(each)]
        if not smaller:
            smaller = list(_first(check, _pairs(program)))
        if not smaller:
            return program
        least = min(map(length, smaller))
        candidates = [each for each in smaller if length(each) == least]
        if len(candidates) > 1:
            candidates.sort(key=lambda each: -float(agreement(each, facts, sample).mean()))
        program = candidates[0]


def length(program: Program) -> int:
    """What a program has to say: its statements, and the comparisons in their conditions."""
    return sum(size(block) + sum(1 for _ in literals_of(block)) for block in program.blocks.values())


class _Check:
    """Whether programs explain all that the first one did. The demonstration that has refused most is asked first."""

    def __init__(self, demonstrations: Demonstrations, explained: list[int]) -> None:
        self._demonstrations = demonstrations
        self._order = list(explained)
        self._refused: set[tuple[tuple[int, Block], ...]] = set()

    def explains(self, program: Program) -> bool:
        key = tuple(program.blocks.items())
        if key in self._refused:
            return False
        runner = Runner(program, self._demonstrations.facts)
        for position, i in enumerate(self._order):
            if not self._demonstrations.explains(runner, i):
                self._order.insert(0, self._order.pop(position))
                self._refused.add(key)
                return False
        return True


def _first(check: _Check, programs: Iterable[Program]) -> Iterator[Program]:
    """The first program that explains the demonstrations, if any does."""
    for program in programs:
        if check.explains(program):
            yield program
            return


def _pairs(program: Program) -> list[Program]:
    """Programs with two changes, the smallest first; none if there are too many."""
    changed = list(_smaller(program))
    if len(changed) ** 2 > MOST_PAIRS:
        return []
    return sorted((twice for once in changed for twice in _smaller(once)), key=length)


def _smaller(program: Program) -> Iterator[Program]:
    """The program with one change that makes it smaller."""
    for procedure, block in program.blocks.items():
        for changed in _smaller_blocks(block):
            if changed:  # a procedure cannot return without a step
                yield reachable(replace(program, blocks={**program.blocks, procedure: changed}))


def _smaller_blocks(block: Block) -> Iterator[Block]:
    for i, statement in enumerate(block):
        for part in _smaller_statements(statement):
            yield (*block[:i], *part, *block[i + 1 :])


def _smaller_statements(statement: Statement) -> Iterator[Block]:
    """What may stand in place of a statement: nothing, a part of it, or itself with a smaller part."""
    yield ()
    if isinstance(statement, If):
        yield statement.then
        if statement.otherwise:
            yield statement.otherwise
            yield (replace(statement, otherwise=()),)
        for then in _smaller_blocks(statement.then):
            if then:
                yield (replace(statement, then=then),)
        for otherwise in _smaller_blocks(statement.otherwise):
            yield (replace(statement, otherwise=otherwise),)
    if isinstance(statement, While):
        yield statement.body
        for body in _smaller_blocks(statement.body):
            if body:
                yield (replace(statement, body=body),)
    if isinstance(statement, If | While):
        for condition in _smaller_conditions(statement.condition):
            yield (replace(statement, condition=condition),)


def _smaller_conditions(condition: Condition) -> Iterator[Condition]:
    """One of its literals alone, or the condition without a clause or a literal."""
    if sum(map(len, condition.clauses)) > 1:
        for literal in dict.fromkeys(part for clause in condition.clauses for part in clause):
            yield Condition(((literal,),))
        yield from shortenings(condition)
