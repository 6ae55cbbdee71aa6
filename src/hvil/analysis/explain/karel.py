"""An extracted program in the Karel language, where the behaviour fits it.

Karel has no procedures, no counters and conditions of one predicate: calls are written out, and where a condition says
more, the whole behaviour is searched once more for a program that needs no more. What is found is run by Karel's own
interpreter against the policy.
"""

from collections.abc import Iterator
from typing import NamedTuple

from hvil.analysis.explain import syntax
from hvil.analysis.explain.demands import table
from hvil.analysis.explain.episodes import CUT, Invocation, Recording, invocations
from hvil.analysis.explain.execution import Facts
from hvil.analysis.explain.explanation import Explanation
from hvil.analysis.explain.extraction import expanded, structured
from hvil.analysis.explain.synthesis import END, Budget
from hvil.analysis.explain.vocabulary import Vocabulary
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

ENOUGH = 0.9
"""A program that agrees with the policy less often does not fit."""
DROPS = (0.0, 0.005, 0.03)


class KarelSource(NamedTuple):
    """A Karel program and its fidelity on fresh grids."""

    source: str
    policy_agreement: float
    teacher_agreement: float


def karel_source(explanation: Explanation) -> KarelSource:
    """The program in the Karel language.

    Raises:
        InputError: the task is not Karel, or the behaviour does not fit the language.
    """
    task = explanation.task
    if not isinstance(task, KarelTask):
        raise InputError("Karel source can only be written for runs of Karel tasks (karel:A to karel:F, karel:FILE)")
    best: KarelSource | None = None
    for program in _programs(explanation):
        source = print_program(program)
        found = KarelSource(source, *_fidelity(source, explanation, task))
        if best is None or found.policy_agreement > best.policy_agreement:
            best = found
        if best.policy_agreement == 1:
            break
    if best is None:
        raise InputError("the behaviour does not fit the Karel language: no small program does what the policy does")
    if best.policy_agreement < ENOUGH:
        raise InputError(
            "the behaviour does not fit the Karel language: the closest small program agrees with the policy on only "
            f"{best.policy_agreement:.1%} of {explanation.episodes:,} roll-outs"
        )
    return best


def _programs(explanation: Explanation) -> Iterator[Program]:
    """Candidates, the closest to the explanation first."""
    program, words = explanation.program, explanation.words
    whole = expanded(program.blocks[program.root], program.blocks, program.actions)
    translated = translate(whole, words)
    if translated is not None:
        yield translated
    everything = invocations(explanation.study, explanation.graph)[explanation.graph.root].flat
    events = table([_only_actions(i) for i in everything], Facts(words, explanation.study), frame=False)
    tried = {translated}
    for drop in DROPS:
        block = structured(events, {}, program.actions, drop, budget=Budget(blocks=20_000))
        translated = None if block is None else translate(block, words)
        if translated is not None and translated not in tried:
            tried.add(translated)
            yield translated


def _only_actions(invocation: Invocation) -> Invocation:
    return [event for event in invocation if event.step != CUT]


def translate(block: syntax.Block, words: Vocabulary) -> Program | None:
    """A block without calls as a Karel program; None if it says what the language cannot."""
    body = _block(block, words)
    return None if not body else Program(body)


def _block(block: syntax.Block, words: Vocabulary) -> tuple[Statement, ...] | None:
    result: list[Statement] = []
    for statement in block:
        translated = _statement(statement, words)
        if translated is None:
            return None
        result.append(translated)
    return tuple(result)


def _statement(statement: syntax.Statement, words: Vocabulary) -> Statement | None:
    if isinstance(statement, syntax.Step):
        return Action(ACTIONS[statement.step]) if statement.step < len(ACTIONS) else None
    inner = [_block(part, words) for part in syntax.bodies(statement)]
    if not inner or not inner[0] or inner[-1] is None:
        return None
    if isinstance(statement, syntax.For):
        return Repeat(statement.offset, inner[0]) if statement.feature is None else None
    assert isinstance(statement, syntax.If | syntax.While)
    clauses = statement.condition.clauses
    if len(clauses) != 1 or not clauses[0]:
        return None
    conditions = [_condition(part, words) for part in clauses[0]]
    if None in conditions:
        return None
    first = conditions[0]
    assert first is not None
    if isinstance(statement, syntax.While):
        return While(first, inner[0]) if len(conditions) == 1 else None
    if len(conditions) == 1:
        return If(first, inner[0], inner[1] or None)
    if inner[1]:
        return None
    nested = inner[0]
    for condition in reversed(conditions):
        assert condition is not None
        nested = (If(condition, nested),)
    return nested[0]


def _condition(part: syntax.Literal, words: Vocabulary) -> Condition | None:
    names = [quantity.name for quantity in words.quantities]
    if part.test.feature not in names:
        return None
    predicate = OBSERVATIONS[names.index(part.test.feature)]
    if predicate == "markersPresent" and part.negated:
        return Condition("noMarkersPresent")
    return Condition(predicate, part.negated)


def _fidelity(source: str, explanation: Explanation, task: KarelTask) -> tuple[float, float]:
    """Shares of fresh grids on which the source does what the policy does, and what the teacher does."""
    program, fresh = parse(source), explanation.fresh
    with_policy = with_teacher = 0
    for i in range(len(fresh)):
        run = execute(program, task.reset_options(fresh, i)["world"])
        done = run.actions
        teacher = fresh.actions[fresh.offsets[i] : fresh.offsets[i + 1]].tolist()
        with_teacher += run.outcome == Outcome.FINISHED and done == teacher
        with_policy += _same(done, run.outcome, _actions(explanation.checked, i))
    return with_policy / len(fresh), with_teacher / len(fresh)


def _actions(recording: Recording, index: int) -> list[int]:
    first, last = recording.offsets[index : index + 2]
    return [int(action) for action in recording.actions[first:last]]


def _same(done: list[int], outcome: Outcome, wanted: list[int]) -> bool:
    """Whether a run is the policy's episode: to its end, to the crash, or to where it was given up."""
    if wanted[-1] == END:
        return outcome == Outcome.FINISHED and done == wanted[:-1]
    if wanted[-1] == CUT:
        return done[: len(wanted) - 1] == wanted[:-1]
    return outcome == Outcome.CRASHED and done == wanted[:-1]
