"""An extracted program in the Karel language, where the behaviour fits it.

Karel has no procedures and no counters, and its conditions ask one predicate each. So calls are written out. A search
over the whole behaviour then gives further programs, for the case that the extracted one asks more. Karel's own
interpreter runs each of them, and the one that agrees most with the policy is the answer.
"""

from collections.abc import Iterator
from typing import NamedTuple

from hvil.analysis.episodes import CUT
from hvil.analysis.explain import program as tree
from hvil.analysis.explain.demands import RARE_SHARES, table
from hvil.analysis.explain.evidence import Evidence
from hvil.analysis.explain.extraction import structured
from hvil.analysis.explain.facts import Facts
from hvil.analysis.explain.invocations import invocations
from hvil.analysis.explain.vocabulary import Vocabulary
from hvil.data.tasks import Task
from hvil.domains.karel import Outcome, execute, parse, print_program
from hvil.domains.karel.syntax import (
    ACTIONS,
    OBSERVATIONS,
    Action,
    Condition,
    If,
    Program,
    Repeat,
    Statement,
    While,
)
from hvil.domains.karel.task import KarelTask
from hvil.gate.errors import InputError
from hvil.machine.callgraph import CallGraph

FITTING_AGREEMENT = 0.9
"""A program that agrees with the policy less often is refused: one episode in ten would mislead its reader."""
BLOCK_LIMIT = 20_000
"""Blocks of the search: more than for one procedure, since a program without procedures is larger."""


class KarelSource(NamedTuple):
    """A Karel program and its fidelity on the grids that the explanation was measured on."""

    source: str
    policy_agreement: float
    teacher_agreement: float


def check_karel(task: Task | None) -> KarelTask:
    """The task, if it is one of Karel's; else an `InputError`."""
    if not isinstance(task, KarelTask):
        raise InputError("Karel source can only be written for runs of Karel tasks (karel:A to karel:F, karel:FILE)")
    return task


def karel_source(
    program: tree.Program, words: Vocabulary, graph: CallGraph, evidence: Evidence, task: Task | None
) -> KarelSource:
    """The program in the Karel language.

    Raises:
        InputError: the task is not Karel, or the behaviour does not fit the language.
    """
    karel_task = check_karel(task)
    best: KarelSource | None = None
    for candidate in _candidates(program, words, graph, evidence):
        measured = _measured(print_program(candidate), evidence, karel_task)
        if best is None or measured.policy_agreement > best.policy_agreement:
            best = measured
        if best.policy_agreement == 1:
            break
    if best is None:
        raise InputError("the behaviour does not fit the Karel language: no small program does what the policy does")
    if best.policy_agreement < FITTING_AGREEMENT:
        raise InputError(
            "the behaviour does not fit the Karel language: the closest small program agrees with the policy on only "
            f"{best.policy_agreement:.1%} of {len(evidence.measured):,} roll-outs"
        )
    return best


def _candidates(program: tree.Program, words: Vocabulary, graph: CallGraph, evidence: Evidence) -> Iterator[Program]:
    """Karel programs, the closest to the extracted one first."""
    translated = translate(tree.expanded(program.blocks[program.root], program.blocks, program.terminate), words)
    if translated is not None:
        yield translated
    studied = evidence.studied
    events = table(invocations(studied.steps, graph)[graph.root].flat, Facts(words, studied.observations), frame=False)
    tried = {translated}
    # Exact programs first: nothing here refines conditions afterwards, so what is left aside would stay wrong.
    for rare in reversed(RARE_SHARES):
        block = structured(events, {}, rare, block_limit=BLOCK_LIMIT)
        translated = None if block is None else translate(block, words)
        if translated is not None and translated not in tried:
            tried.add(translated)
            yield translated


def translate(block: tree.Block, words: Vocabulary) -> Program | None:
    """A block without calls as a Karel program; None if it says what the language cannot."""
    body = _block(block, words)
    return None if not body else Program(body)


def _block(block: tree.Block, words: Vocabulary) -> tuple[Statement, ...] | None:
    result: list[Statement] = []
    for statement in block:
        translated = _statement(statement, words)
        if translated is None:
            return None
        result.append(translated)
    return tuple(result)


def _statement(statement: tree.Statement, words: Vocabulary) -> Statement | None:
    if isinstance(statement, tree.Step):
        return Action(ACTIONS[statement.step]) if statement.step < len(ACTIONS) else None
    inner = [_block(part, words) for part in tree.bodies(statement)]
    # Karel has no empty bodies; only an `else` may be missing, as an empty block.
    if not inner or not inner[0] or inner[-1] is None:
        return None
    if isinstance(statement, tree.For):
        return Repeat(statement.offset, inner[0]) if statement.quantity is None else None
    assert isinstance(statement, tree.If | tree.While)
    clauses = statement.condition.clauses
    if len(clauses) != 1 or not clauses[0]:
        return None
    conditions = [_condition(part, words) for part in clauses[0]]
    if None in conditions:
        return None
    first = conditions[0]
    assert first is not None
    if isinstance(statement, tree.While):
        return While(first, inner[0]) if len(conditions) == 1 else None
    if len(conditions) == 1:
        return If(first, inner[0], inner[1] or None)
    # Several conditions become nested ifs, which works only without an `else`.
    if inner[1]:
        return None
    nested = inner[0]
    for condition in reversed(conditions):
        assert condition is not None
        nested = (If(condition, nested),)
    return nested[0]


def _condition(part: tree.Literal, words: Vocabulary) -> Condition | None:
    # The quantities of a Karel task are its observations, in the same order.
    names = [quantity.name for quantity in words.quantities]
    if part.test.feature not in names:
        return None
    predicate = OBSERVATIONS[names.index(part.test.feature)]
    if predicate == "markersPresent" and part.negated:
        return Condition("noMarkersPresent")
    return Condition(predicate, part.negated)


def _measured(source: str, evidence: Evidence, task: KarelTask) -> KarelSource:
    """The source with the shares of grids on which it does what the policy does, and what the teacher does."""
    program, traces = parse(source), evidence.teacher
    with_policy = with_teacher = 0
    for i in range(len(traces)):
        run = execute(program, task.reset_options(traces, i)["world"])
        teacher = traces.actions[traces.offsets[i] : traces.offsets[i + 1]].tolist()
        with_teacher += run.outcome == Outcome.FINISHED and run.actions == teacher
        first, last = evidence.measured.row_offsets[i : i + 2]
        policy = evidence.measured.emitted[first:last].tolist()
        with_policy += _same(run.actions, run.outcome, policy, len(ACTIONS))
    return KarelSource(
        source=source, policy_agreement=with_policy / len(traces), teacher_agreement=with_teacher / len(traces)
    )


def _same(done: list[int], outcome: Outcome, wanted: list[int], terminate: int) -> bool:
    """Whether a run is the policy's episode: to its end, to where it was given up, or to the crash.

    The action that crashes stands in the episode, but not in the run.
    """
    if wanted[-1] == terminate:
        return outcome == Outcome.FINISHED and done == wanted[:-1]
    if wanted[-1] == CUT:
        return done[: len(wanted) - 1] == wanted[:-1]
    return outcome == Outcome.CRASHED and done == wanted[:-1]
