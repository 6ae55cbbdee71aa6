"""The smallest program of one procedure that explains the demonstrations, whatever the policy learned.

Where a few demonstrations leave several rules open, a network may take a tangled one. Programs of a few statements can
be searched directly, and a smaller one that explains every demonstration is the better guess.
"""

from itertools import pairwise

from hvil.analysis.explain.demands import table
from hvil.analysis.explain.extraction import structured
from hvil.analysis.explain.invocations import Event
from hvil.analysis.explain.program import Program
from hvil.analysis.explain.simplification import Demonstrations

BLOCKS = 2_000
"""Blocks after which the search gives up: the paper's Karel programs are found within a few hundred."""


def flat_program(demonstrations: Demonstrations, root: int, terminate: int) -> Program | None:
    """A program of one procedure that explains all demonstrations; None if no small one was found.

    Args:
        demonstrations: what to explain.
        root: the number of its procedure.
        terminate: the number of ∅.
    """
    emitted, bounds = demonstrations.emitted, pairwise(demonstrations.row_offsets.tolist())
    invocations = [[Event(row, emitted[row]) for row in range(first, end)] for first, end in bounds]
    events = table(invocations, demonstrations.facts, frame=True)
    block = structured(events, {}, rare=0.0, own=True, block_limit=BLOCKS)
    if not block:
        return None
    program = Program(root=root, terminate=terminate, blocks={root: block})
    return program if len(demonstrations.explained(program)) == len(invocations) else None
