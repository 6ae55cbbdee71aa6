"""Recognises loops that count: `while counter < 2 * length - 2` around two steps is `for _ in range(length - 1)`."""

import math
from dataclasses import replace

from hvil.analysis.explain.execution import Program
from hvil.analysis.explain.syntax import Block, For, If, Return, Statement, Step, While, bodies
from hvil.analysis.explain.vocabulary import COUNTER, Vocabulary


def with_for_loops(program: Program, words: Vocabulary) -> Program:
    """The program with `for` where the number of rounds is known at the start."""
    blocks = {procedure: _block(block, words) for procedure, block in program.blocks.items()}
    return replace(program, blocks=blocks)


def _block(block: Block, words: Vocabulary) -> Block:
    """Only a procedure's own statements: inside others the counter is not known."""
    result: list[Statement] = []
    counter: int | None = 0
    for statement in block:
        found = None if counter is None else _for(statement, counter, words)
        result.append(found or statement)
        taken = _steps(statement)
        counter = None if counter is None or taken is None else counter + taken
    return tuple(result)


def _for(statement: Statement, counter: int, words: Vocabulary) -> For | None:
    if not isinstance(statement, While) or len(statement.condition.clauses) != 1:
        return None
    clause = statement.condition.clauses[0]
    each = _block_steps(statement.body)
    if len(clause) != 1 or not clause[0].negated or not each or _asks_counter(statement.body):
        return None
    feature = words.features.get(clause[0].test.feature)
    if feature is None or feature.left != COUNTER:
        return None
    # `not counter − factor · right > threshold`: the loop goes on while counter < factor · right + bound.
    bound = math.floor(clause[0].test.threshold) + 1 - counter
    if not feature.right:
        return For(None, 0, -(-bound // each), statement.body) if bound > 0 else None
    if feature.factor % each:
        return None
    return For(feature.right, feature.factor // each, -(-bound // each), statement.body)


def _steps(statement: Statement) -> int | None:
    """How many steps a statement takes, if that is certain."""
    if isinstance(statement, Step):
        return 1
    if isinstance(statement, If):
        then, otherwise = _block_steps(statement.then), _block_steps(statement.otherwise)
        return then if then == otherwise else None
    return None


def _block_steps(block: Block) -> int | None:
    total = 0
    for statement in block:
        taken = _steps(statement)
        if taken is None:
            return None
        total += taken
    return total


def _asks_counter(block: Block) -> bool:
    """Whether a loop's body could leave it, or count differently."""
    for statement in block:
        if isinstance(statement, Return):
            return True
        if any(_asks_counter(inner) for inner in bodies(statement)):
            return True
    return False
