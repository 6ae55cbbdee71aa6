"""Recognises loops that count: `while counter < 2 * length - 2` around two steps is `for _ in range(length - 1)`."""

import math
from dataclasses import replace

from hvil.analysis.explain.program import Block, For, If, Program, Statement, Step, While
from hvil.analysis.explain.vocabulary import COUNTER, Vocabulary


def with_for_loops(program: Program, words: Vocabulary) -> Program:
    """The program with `for` in place of each `while` whose number of rounds is certain when it starts."""
    blocks = {procedure: _with_for_loops(block, words) for procedure, block in program.blocks.items()}
    return replace(program, blocks=blocks)


def _with_for_loops(block: Block, words: Vocabulary) -> Block:
    """The block with its own loops replaced; loops inside other statements stay, as their counter is not certain."""
    result: list[Statement] = []
    counter: int | None = 0
    for statement in block:
        counting_loop = None if counter is None else _counting_loop(statement, counter, words)
        result.append(counting_loop or statement)
        taken = _steps_taken(statement)
        counter = None if counter is None or taken is None else counter + taken
    return tuple(result)


def _counting_loop(statement: Statement, counter: int, words: Vocabulary) -> For | None:
    """The statement as `for`, if it is a `while` that only asks how far the counter has come.

    `counter` is the number of steps before the loop.
    """
    if not isinstance(statement, While) or len(statement.condition.clauses) != 1:
        return None
    clause = statement.condition.clauses[0]
    steps_a_round = _block_steps(statement.body)
    if len(clause) != 1 or not clause[0].negated or not steps_a_round:
        return None
    feature = words.features.get(clause[0].test.feature)
    if feature is None or feature.left != COUNTER:
        return None
    # The condition says `not counter − factor · right > threshold`.
    # So the loop goes on until it has taken at least factor · right + bound steps itself.
    bound = math.floor(clause[0].test.threshold) + 1 - counter
    rounds = -(-bound // steps_a_round)
    if not feature.right:
        return For(None, 0, rounds, statement.body) if bound > 0 else None
    if feature.factor % steps_a_round:
        return None
    return For(feature.right, feature.factor // steps_a_round, rounds, statement.body)


def _steps_taken(statement: Statement) -> int | None:
    """The number of steps that a statement takes, if it is always the same."""
    if isinstance(statement, Step):
        return 1
    if isinstance(statement, If):
        then, otherwise = _block_steps(statement.then), _block_steps(statement.otherwise)
        return then if then == otherwise else None
    return None


def _block_steps(block: Block) -> int | None:
    """The number of steps that a block takes, if it is always the same."""
    total = 0
    for statement in block:
        taken = _steps_taken(statement)
        if taken is None:
            return None
        total += taken
    return total
