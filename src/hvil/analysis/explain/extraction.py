"""From a recording of a policy to a program: one block a procedure, the called before the callers.

A procedure is looked at in two ways. *Flat*: all the actions of its invocations, whoever took them, with the blocks
of the procedures it calls at hand as single statements; so a procedure that sometimes calls and sometimes does the same
by itself comes out as one thing. *Own*: its own steps, calls included, with its counter; so it can count calls. Where
neither gives a structured program that agrees, a list of conditions in a loop is the answer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from hvil.analysis.explain.conditions import learn_condition
from hvil.analysis.explain.demands import (
    CONSISTENT,
    MEMORIES,
    Table,
    choose_comparisons,
    consistency,
    memories_of,
    situation_keys,
    situations,
    table,
)
from hvil.analysis.explain.episodes import Invocation, Invocations, Recording, invocations
from hvil.analysis.explain.execution import Facts, Program, Runner
from hvil.analysis.explain.refinement import refine
from hvil.analysis.explain.syntax import (
    Block,
    Condition,
    If,
    Literal,
    Statement,
    Step,
    While,
    bodies,
    size,
    steps_of,
    walk,
    with_bodies,
)
from hvil.analysis.explain.synthesis import END, Budget, Found, meaning_of, synthesise
from hvil.analysis.explain.vocabulary import COUNTER
from hvil.machine.callgraph import CallGraph

DROPS = (0.03, 0.005, 0.0)
"""Shares of invocations that may be left aside as rare, in the order they are tried."""
CHECKED = 1_000
"""Invocations on which a block is checked."""
STUDIED = 3_000
"""Invocations from which a block is found."""
MOST_SITUATIONS = 160
"""More than that is no behaviour that a small program describes."""
GOOD = 0.995
HOPELESS = 0.5
"""If fewer invocations than this do the usual, no structured program is looked for."""
OFTEN = 0.05
"""A procedure is called by name in programs of callers that call it in at least this share of their invocations."""
TREE_LEAVES = (4, 8, 16)


class Candidate(NamedTuple):
    """A block for a procedure."""

    block: Block
    agreement: float
    """Share of invocations on which it takes exactly the policy's actions."""

    @property
    def score(self) -> float:
        """Agreement, and a little for being short."""
        return self.agreement - 0.002 * size(self.block)


class Extraction(NamedTuple):
    """A program, and what became of the procedures."""

    program: Program
    agreement: float
    unused: tuple[int, ...]
    """Never called in the roll-outs."""
    absorbed: tuple[int, ...]
    """Called, but what they do is done in the program without them."""


def extract(recording: Recording, graph: CallGraph, facts: Facts) -> Extraction:
    """Find the program of a policy's episodes."""
    used = invocations(recording, graph)
    blocks: dict[int, Block] = {}
    for procedure in _called_first(graph, used):
        blocks[procedure] = _extract_procedure(procedure, used[procedure], blocks, graph, facts)
    program, agreed = refine(reachable(Program(graph.root, len(graph.action_names), blocks)), facts, recording)
    program = reachable(program)
    everyone = range(len(graph.procedures))
    return Extraction(
        program,
        agreed,
        tuple(h for h in everyone if h not in used),
        tuple(h for h in everyone if h in used and h not in program.blocks),
    )


def _callees(found: Invocations, graph: CallGraph, often: float = 0.0) -> list[int]:
    """The procedures that were called in some share of the invocations, the most frequent first."""
    counts = Counter(step for invocation in found.own for step in {event.step for event in invocation})
    return [
        step - graph.terminate
        for step, count in counts.most_common()
        if step >= graph.terminate and count >= often * len(found.own)
    ]


def _called_first(graph: CallGraph, used: Mapping[int, Invocations]) -> list[int]:
    order: list[int] = []
    open_: set[int] = set()

    def visit(procedure: int) -> None:
        if procedure in order or procedure in open_:
            return
        open_.add(procedure)
        for callee in _callees(used[procedure], graph):
            visit(callee)
        order.append(procedure)

    visit(graph.root)
    return order


def _extract_procedure(
    procedure: int, found: Invocations, blocks: Mapping[int, Block], graph: CallGraph, facts: Facts
) -> Block:
    checked = _spread(found.flat, CHECKED)
    best = Candidate((), -1.0)
    for block in _candidates(found, blocks, graph, facts):
        runner = Runner(Program(procedure, graph.terminate, {**blocks, procedure: block}), facts)
        agrees = [runner.agrees(part[0].row, [event.step for event in part]) for part in checked]
        this = Candidate(block, float(np.mean(agrees)))
        if this.score > best.score:
            best = this
        if best.agreement >= GOOD:
            break
    return best.block


def _candidates(found: Invocations, blocks: Mapping[int, Block], graph: CallGraph, facts: Facts) -> Iterator[Block]:
    """Blocks to choose from, the most readable kind first."""
    actions = graph.terminate
    callees = _callees(found, graph)
    recursive = any(callee not in blocks for callee in callees)
    tried: set[Block | None] = set()
    hopeless: set[bool] = set()
    for drop in DROPS:
        for own in (True,) if recursive else (False, True):
            if own in hopeless:
                continue
            events = table(_spread(found.own if own else found.flat, STUDIED), facts, frame=own)
            known = () if own else _callees(found, graph, OFTEN)
            bodies_ = {callee: expanded(blocks[callee], blocks, actions) for callee in known}
            block = structured(events, bodies_, actions, drop, own)
            if block is None:
                # Less left aside means more to be done: no program then either.
                hopeless.add(own)
            elif block not in tried:
                tried.add(block)
                yield block
    events = table(_spread(found.own, STUDIED), facts, frame=True)
    for leaves in TREE_LEAVES:
        yield listed(events, leaves)


def structured(
    events: Table,
    callees: Mapping[int, Block],
    actions: int,
    drop: float,
    own: bool = False,
    budget: Budget | None = None,
) -> Block | None:
    """A structured program for the usual invocations, if there is a small one.

    Args:
        events: what the program has to do.
        callees: procedures that it may call, with the actions that they take written out.
        actions: how many; a step of this number or more is a call.
        drop: share of invocations that may be left aside as rare.
        own: whether the events are the procedure's own steps, among them calls.
        budget: of the search.
    """
    finest = MEMORIES[1] if own else MEMORIES[-1]
    comparisons = choose_comparisons(events, memories_of(events, finest))
    extra = {part.test for block in callees.values() for part in _literals(block)}
    comparisons += [test for test in sorted(extra) if test not in comparisons and test.feature in events.features]
    keys = situation_keys(events, finest, comparisons)
    best = consistency(keys, events)
    if best < HOPELESS:
        return None
    for memory in MEMORIES:
        coarse = situation_keys(events, memory, comparisons)
        if consistency(coarse, events) >= best - CONSISTENT:
            keys = coarse
            break
    demands = situations(keys, events, comparisons, drop).demands
    if len(demands.wanted) > MOST_SITUATIONS:
        return None
    meanings = {callee: meaning_of(demands, block) for callee, block in callees.items()}
    library = [Found((Step(actions + c),), meaning) for c, meaning in meanings.items() if meaning is not None]
    return synthesise(demands, library, budget)


def expanded(block: Block, blocks: Mapping[int, Block], actions: int) -> Block:
    """The block with the bodies of the procedures in place of their calls."""
    result: list[Statement] = []
    for statement in block:
        if isinstance(statement, Step) and statement.step - actions in blocks:
            result += expanded(blocks[statement.step - actions], blocks, actions)
        else:
            result.append(with_bodies(statement, tuple(expanded(b, blocks, actions) for b in bodies(statement))))
    return tuple(result)


def _literals(block: Block) -> Iterator[Literal]:
    for statement in walk(block):
        if isinstance(statement, If | While):
            for clause in statement.condition.clauses:
                yield from clause


def listed(events: Table, leaves: int) -> Block:
    """A loop around a list of conditions, one for each step: what is left when no structure is found.

    Args:
        events: a procedure's own steps.
        leaves: size of the decision trees that the conditions come from.
    """
    first = {invocation[0].step for invocation in events.invocations}
    counters = events.features[COUNTER]
    steps = np.array(events.steps)
    left = counters > 0 if len(first) == 1 else np.ones(len(steps), dtype=bool)
    prefix: Block = (Step(first.pop()),) if len(first) == 1 else ()
    if not left.any():
        return prefix
    names = list(events.features)
    columns = np.column_stack(list(events.features.values()))

    def condition(right: Bool[np.ndarray, "E"]) -> Condition:
        return learn_condition(names, columns[left], right[left], leaves)

    going = condition(steps != END)
    left &= steps != END
    order = [step for step, _ in reversed(Counter(steps[left].tolist()).most_common())]
    branches: list[tuple[Condition, Block]] = []
    for step in order[:-1]:
        branches.append((condition(steps == step), (Step(step),)))
        left &= steps != step
    body: Block = tuple(Step(step) for step in order[-1:])
    for asked, then in reversed(branches):
        body = (If(asked, then, body),)
    return (*prefix, While(going, body)) if body else prefix


def _spread(parts: list[Invocation], count: int) -> list[Invocation]:
    parts = [part for part in parts if part]
    return parts[:: max(1, -(-len(parts) // count))]


def reachable(program: Program) -> Program:
    """Without the procedures that the root does not reach."""
    reached: dict[int, Block] = {}
    pending = [program.root]
    while pending:
        procedure = pending.pop()
        if procedure not in reached:
            reached[procedure] = program.blocks[procedure]
            pending += sorted(
                (s - program.actions for s in steps_of(reached[procedure]) if s >= program.actions), reverse=True
            )
    return Program(program.root, program.actions, reached)
