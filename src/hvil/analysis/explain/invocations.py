"""The invocations of each procedure in recorded episodes: what it did from a call to its return.

`hvil.analysis.episodes` plays the episodes; `extraction` makes programs of the invocations.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from hvil.analysis.explain.program import NO_STEP, call_step
from hvil.machine.callgraph import CallGraph
from hvil.machine.steps import Steps

Signature = tuple[tuple[int, int], ...]
"""A stack: the procedure and the last choice of each frame."""


class Event(NamedTuple):
    """A step of an invocation, and what came before it."""

    row: int
    """The observation that it was taken at."""
    step: int
    """An action, ∅ or a call, as `program` numbers them."""
    signature: Signature = ()
    """In a flat invocation, the stack as the invocation's previous action left it, from the invocation's own frame up.

    It is empty before the first action of the invocation. Nobody asks for it in an invocation's own steps.
    """


Invocation = list[Event]


class Invocations(NamedTuple):
    """All invocations of one procedure; one that the end of an episode has cut short has no ∅."""

    own: list[Invocation]
    """Its own steps: actions and calls."""
    flat: list[Invocation]
    """The actions of it and of everything it called, and its own ∅."""


def invocations(steps: Steps, graph: CallGraph) -> dict[int, Invocations]:
    """The invocations of each procedure that was used."""
    by_procedure: dict[int, Invocations] = {}
    rows, choices = steps.row.tolist(), steps.choice.tolist()
    for first, last in itertools.pairwise(steps.offsets.tolist()):
        _add_episode(by_procedure, zip(rows[first:last], choices[first:last], strict=True), graph)
    return by_procedure


@dataclass
class _Frame:
    """An invocation that has not returned yet."""

    procedure: int
    own: Invocation = field(default_factory=list)
    flat: Invocation = field(default_factory=list)
    last: int = NO_STEP


def _add_episode(by_procedure: dict[int, Invocations], steps: Iterable[tuple[int, int]], graph: CallGraph) -> None:
    """Add the invocations of one episode, whose steps are given by row and choice."""
    stack: list[_Frame] = []
    signature: Signature = ()  # of the whole stack, after the last action

    def call(procedure: int) -> None:
        frame = _Frame(procedure)
        stack.append(frame)
        entry = by_procedure.setdefault(procedure, Invocations([], []))
        entry.own.append(frame.own)
        entry.flat.append(frame.flat)

    call(graph.root)
    for row, choice in steps:
        frame = stack[-1]
        if choice == graph.terminate:
            frame.own.append(Event(row, graph.terminate))
            frame.flat.append(Event(row, graph.terminate, signature[len(stack) - 1 :] if frame.flat else ()))
            stack.pop()
            continue
        frame.last = choice
        if choice > graph.terminate:
            callee = graph.calls[frame.procedure][choice - graph.terminate - 1]
            frame.own.append(Event(row, call_step(callee, graph.terminate)))
            call(callee)
            continue
        frame.own.append(Event(row, choice))
        for level, each in enumerate(stack):
            each.flat.append(Event(row, choice, signature[level:] if each.flat else ()))
        signature = tuple((each.procedure, each.last) for each in stack)
