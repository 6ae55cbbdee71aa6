"""Writes procedures where they are called: those that are called in one place, or take a single step."""

from collections import Counter

from hvil.analysis.explain.execution import Program
from hvil.analysis.explain.extraction import expanded, reachable
from hvil.analysis.explain.syntax import Block, If, Return, Step, While, walk
from hvil.analysis.explain.vocabulary import COUNTER, LAST


def inlined(program: Program) -> Program:
    """The program with fewer procedures; one that looks at its frame or returns early stays as it is."""
    while True:
        callee = next(iter(_candidates(program)), None)
        if callee is None:
            return program
        body = {callee: program.blocks[callee]}
        blocks = {h: expanded(block, body, program.actions) for h, block in program.blocks.items() if h != callee}
        program = reachable(Program(program.root, program.actions, blocks))


def _candidates(program: Program) -> list[int]:
    callers: Counter[int] = Counter()
    inside: dict[int, set[int]] = {}
    for caller, block in program.blocks.items():
        for statement in walk(block):
            if isinstance(statement, Step) and statement.step >= program.actions:
                callers[statement.step - program.actions] += 1
                inside.setdefault(statement.step - program.actions, set()).add(caller)
    return [
        callee
        for callee, count in callers.items()
        if callee != program.root
        and (count == 1 or _one_step(program.blocks[callee]))
        and callee not in inside[callee]
        and not looks_at_frame(program.blocks[callee])
        and not any(looks_at_frame(program.blocks[caller]) for caller in inside[callee])
    ]


def _one_step(block: Block) -> bool:
    return len(block) == 1 and isinstance(block[0], Step)


def looks_at_frame(block: Block) -> bool:
    """Whether a block's meaning would change with its frame."""
    for statement in walk(block):
        if isinstance(statement, Return):
            return True
        if isinstance(statement, If | While):
            for clause in statement.condition.clauses:
                if any(part.test.feature.startswith((COUNTER, LAST)) for part in clause):
                    return True
    return False
