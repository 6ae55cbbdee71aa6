"""From a recording of a policy to a program: one block for each procedure, callees before their callers.

There are two views of a procedure. The *flat* view has all actions of its invocations, whoever took them, and a program
may use the procedures that it calls as single statements. To this view it is all the same whether the procedure calls
another one or takes the same actions by itself. The *own* view has the procedure's own steps, calls included, and its
counter, so a program can count its calls. Where neither view gives a structured program that agrees, a loop around a
list of conditions is the answer.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from hvil.analysis.explain.conditions import learn_condition
from hvil.analysis.explain.demands import (
    CONTRADICTED_SHARE,
    FLAT_MEMORIES,
    OWN_MEMORIES,
    RARE_SHARES,
    Memory,
    Table,
    choose_comparisons,
    consistency,
    demands_of,
    memories_of,
    situation_keys,
    table,
)
from hvil.analysis.explain.evidence import Recording
from hvil.analysis.explain.execution import Runner
from hvil.analysis.explain.facts import Facts
from hvil.analysis.explain.invocations import Invocation, Invocations, invocations
from hvil.analysis.explain.meaning import Fragment, meaning_of
from hvil.analysis.explain.program import (
    Block,
    Comparison,
    Condition,
    If,
    Program,
    Step,
    While,
    call_step,
    expanded,
    literals_of,
    reachable,
    size,
    walk,
)
from hvil.analysis.explain.refinement import refine
from hvil.analysis.explain.synthesis import synthesise
from hvil.analysis.explain.vocabulary import COUNTER
from hvil.machine.callgraph import CallGraph

CHECKED_INVOCATIONS = 1_000
"""Invocations on which a block is checked: the share that agrees is known to about one in a hundred."""
STUDIED_INVOCATIONS = 3_000
"""Invocations from which a block is made: a situation of one invocation in a thousand is still seen three times."""
MOST_SITUATIONS = 160
"""No program is searched for more situations: a small one would hardly do, and each step of the search takes longer."""
GOOD_AGREEMENT = 0.995
"""A block that agrees on this share of invocations is taken at once, so that the shortest kind wins.

It is 1 minus the middle one of `RARE_SHARES`: a block that misses more competes with more exact ones."""
HOPELESS_CONSISTENCY = 0.5
"""If fewer than half of the invocations do what is usual, there is no usual behaviour to write a program for."""
OFTEN_CALLED = 0.05
"""A block may call a procedure if at least this share of the invocations did; rarer calls are a policy's slips."""
STATEMENT_COST = 0.002
"""Agreement that another statement must gain: a program of ten statements more must be right on 2% more."""
LIST_LEAVES = (4, 8, 16)
"""Sizes of the trees for lists of conditions, from readable to exact."""


class Extraction(NamedTuple):
    """A program, and the procedures that it says nothing about."""

    program: Program
    unused: tuple[int, ...]
    """Never called in the roll-outs."""
    listed: tuple[int, ...]
    """Procedures of the program in which no structure was found: they are lists of conditions."""


class Candidate(NamedTuple):
    """A block that a procedure may have."""

    block: Block
    listed: bool = False
    """Whether it is a list of conditions."""


def extract(
    recording: Recording, graph: CallGraph, facts: Facts, progress: Callable[[float], None] | None = None
) -> Extraction:
    """Find the program of a policy's episodes; `progress` is called with the share of the procedures that is done."""
    by_procedure = invocations(recording.steps, graph)
    order = _callees_first(graph, by_procedure)
    blocks: dict[int, Block] = {}
    listed_ones: set[int] = set()
    for number, procedure in enumerate(order, start=1):
        chosen = _extract_procedure(procedure, by_procedure[procedure], blocks, graph, facts)
        blocks[procedure] = chosen.block
        listed_ones |= {procedure} if chosen.listed else set()
        if progress is not None:
            progress(number / len(order))
    program = reachable(refine(reachable(Program(graph.root, graph.terminate, blocks)), facts, recording))
    unused = tuple(procedure for procedure in range(len(graph.procedures)) if procedure not in by_procedure)
    listed_here = tuple(procedure for procedure in program.blocks if procedure in listed_ones)
    return Extraction(program=program, unused=unused, listed=listed_here)


def _callees(invoked: Invocations, graph: CallGraph, least_share: float = 0.0) -> list[int]:
    """The procedures that were called in at least this share of the invocations, the most frequent first."""
    counts = Counter(step for invocation in invoked.own for step in {event.step for event in invocation})
    return [
        step - call_step(0, graph.terminate)
        for step, count in counts.most_common()
        if step > graph.terminate and count >= least_share * len(invoked.own)
    ]


def _callees_first(graph: CallGraph, by_procedure: Mapping[int, Invocations]) -> list[int]:
    """The procedures that were used, each after those that it called (as far as recursion allows)."""
    order: list[int] = []
    visited: set[int] = set()

    def visit(procedure: int) -> None:
        if procedure in visited:
            return
        visited.add(procedure)
        for callee in _callees(by_procedure[procedure], graph):
            visit(callee)
        order.append(procedure)

    visit(graph.root)
    return order


def _extract_procedure(
    procedure: int, invoked: Invocations, blocks: Mapping[int, Block], graph: CallGraph, facts: Facts
) -> Candidate:
    """The candidate with the best balance of agreement and length; the first good one ends the search."""
    checked = _spread(invoked.flat, CHECKED_INVOCATIONS)
    best = Candidate(())
    best_score = -np.inf
    for candidate in _candidates(invoked, blocks, graph, facts):
        runner = Runner(Program(procedure, graph.terminate, {**blocks, procedure: candidate.block}), facts)
        agrees = [runner.agrees(invocation[0].row, [event.step for event in invocation]) for invocation in checked]
        agreement = float(np.mean(agrees))
        score = agreement - STATEMENT_COST * size(candidate.block)
        if score > best_score:
            best, best_score = candidate, score
            if agreement >= GOOD_AGREEMENT:
                break
    return best


def _candidates(
    invoked: Invocations, blocks: Mapping[int, Block], graph: CallGraph, facts: Facts
) -> Iterator[Candidate]:
    """Blocks to choose from, the most readable kind first."""
    # The flat view writes callees out, which have no blocks yet if they are being extracted themselves.
    recursive = any(callee not in blocks for callee in _callees(invoked, graph))
    callees = () if recursive else _callees(invoked, graph, OFTEN_CALLED)
    written_out = {callee: expanded(blocks[callee], blocks, graph.terminate) for callee in callees}

    @cache
    def events(own: bool) -> Table:
        return table(_spread(invoked.own if own else invoked.flat, STUDIED_INVOCATIONS), facts, frame=own)

    tried: set[Block] = set()
    hopeless_views: set[bool] = {False} if recursive else set()
    for rare in RARE_SHARES:
        for own in (False, True):
            if own in hopeless_views:
                continue
            block = structured(events(own), {} if own else written_out, rare, own)
            if block is None:
                # The next round leaves fewer invocations aside and so demands more: it would find nothing either.
                hopeless_views.add(own)
            elif block not in tried:
                tried.add(block)
                yield Candidate(block)
    for leaves in LIST_LEAVES:
        block = listed(events(True), leaves)
        # Without a branch it is no list, but a loop around one step, or a single step.
        yield Candidate(block, listed=any(isinstance(statement, If) for statement in walk(block)))


def structured(
    events: Table, callees: Mapping[int, Block], rare: float, own: bool = False, block_limit: int | None = None
) -> Block | None:
    """A structured program for the usual invocations; None if the search finds no small one.

    Args:
        events: what the program has to do.
        callees: procedures that it may call, with the actions that they take written out.
        rare: share of invocations that may be left aside.
        own: whether the events are the procedure's own steps, among them calls.
        block_limit: of the search (`synthesise`).
    """
    memories = OWN_MEMORIES if own else FLAT_MEMORIES
    comparisons = choose_comparisons(events, memories_of(events, memories[-1]))
    asked_by_callees = {part.test for block in callees.values() for part in literals_of(block)}
    comparisons += [
        test for test in sorted(asked_by_callees) if test not in comparisons and test.feature in events.features
    ]
    keys = _coarsest_keys(events, memories, comparisons)
    demands = None if keys is None else demands_of(keys, events, comparisons, rare)
    if demands is None or len(demands.wanted) > MOST_SITUATIONS:
        return None
    library = [
        Fragment((Step(call_step(callee, events.terminate)),), meaning)
        for callee, block in callees.items()
        if (meaning := meaning_of(demands, block)) is not None
    ]
    return synthesise(demands, library, block_limit=block_limit)


def _coarsest_keys(
    events: Table, memories: Sequence[Memory], comparisons: Sequence[Comparison]
) -> Sequence[object] | None:
    """The situations with the coarsest memory that does about as well as the finest; None if that one does badly.

    Args:
        events: what was done.
        memories: from coarse to fine.
        comparisons: those whose outcomes are part of a situation.
    """
    finest = situation_keys(events, memories[-1], comparisons)
    finest_consistency = consistency(finest, events)
    if finest_consistency < HOPELESS_CONSISTENCY:
        return None
    for memory in memories[:-1]:
        keys = situation_keys(events, memory, comparisons)
        if consistency(keys, events) >= finest_consistency - CONTRADICTED_SHARE:
            return keys
    return finest


def listed(events: Table, leaves: int) -> Block:
    """A loop around a list of conditions, one for each step, for procedures in which no structure was found.

    Args:
        events: a procedure's own steps.
        leaves: size of the decision trees that the conditions come from.
    """
    steps = np.array(events.steps)
    remaining = np.ones(len(steps), dtype=bool)
    prefix: Block = ()
    firsts = {invocation[0].step for invocation in events.invocations}
    if len(firsts) == 1 and events.terminate not in firsts:
        prefix = (Step(firsts.pop()),)
        remaining = events.features[COUNTER] > 0
    if not remaining.any():
        return prefix
    names = list(events.features)
    columns = np.column_stack(list(events.features.values()))

    def condition(answers: Bool[np.ndarray, "E"]) -> Condition:
        # A condition is only asked if none before it has decided, so it learns from the remaining events.
        return learn_condition(names, columns[remaining], answers[remaining], leaves)

    goes_on = condition(steps != events.terminate)
    remaining &= steps != events.terminate
    # The rarest step is asked for first and the most frequent one is the last `else`, which needs no condition.
    order = [step for step, _ in reversed(Counter(steps[remaining].tolist()).most_common())]
    branches: list[tuple[Condition, Block]] = []
    for step in order[:-1]:
        branches.append((condition(steps == step), (Step(step),)))
        remaining &= steps != step
    body: Block = tuple(Step(step) for step in order[-1:])
    for asked, then in reversed(branches):
        body = (If(asked, then, body),)
    return (*prefix, While(goes_on, body)) if body else prefix


def _spread(invocations: list[Invocation], count: int) -> list[Invocation]:
    """At most `count` of the invocations that are not empty, at equal distances."""
    nonempty = [invocation for invocation in invocations if invocation]
    return nonempty[:: max(1, -(-len(nonempty) // count))]
