"""Writes procedures out where they are called: those that are called at one point only, or that take a single step."""

from collections import Counter
from dataclasses import replace

from hvil.analysis.explain.program import Block, Program, Step, expanded, literals_of, reachable, steps_of
from hvil.analysis.explain.vocabulary import looks_at_frame


def inlined(program: Program) -> Program:
    """The program with fewer procedures; a procedure that looks at its frame stays, and so do its callees."""
    while True:
        callee = next(iter(_candidates(program)), None)
        if callee is None:
            return program
        body = {callee: program.blocks[callee]}
        others = ((procedure, block) for procedure, block in program.blocks.items() if procedure != callee)
        blocks = {procedure: expanded(block, body, program.terminate) for procedure, block in others}
        program = reachable(replace(program, blocks=blocks))


def _candidates(program: Program) -> list[int]:
    """The procedures that can be written out."""
    calls: Counter[int] = Counter()
    callers: dict[int, set[int]] = {}
    for caller, block in program.blocks.items():
        for step in steps_of(block):
            callee = program.callee(step)
            if callee is not None:
                calls[callee] += 1
                callers.setdefault(callee, set()).add(caller)
    return [
        callee
        for callee, count in calls.items()
        if callee != program.root
        and (count == 1 or _takes_one_step(program.blocks[callee]))
        and callee not in callers[callee]
        and not any(_needs_frame(program.blocks[procedure]) for procedure in (callee, *callers[callee]))
    ]


def _takes_one_step(block: Block) -> bool:
    return len(block) == 1 and isinstance(block[0], Step)


def _needs_frame(block: Block) -> bool:
    """Whether a block's conditions ask for its counter or its last step, which differ in another frame."""
    return any(looks_at_frame(part.test.feature) for part in literals_of(block))
