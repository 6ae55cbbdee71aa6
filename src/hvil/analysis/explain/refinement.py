"""Makes the conditions of a program more exact, one at a time, as long as the program then agrees more often.

The structure of the program and its number of lines stay as they are.

Letters: N episodes, E questions to conditions.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from hvil.analysis.explain.conditions import learn_conditions
from hvil.analysis.explain.evidence import Recording
from hvil.analysis.explain.execution import Path, Question, Runner, Site, agreement
from hvil.analysis.explain.facts import Facts, Moments
from hvil.analysis.explain.program import Block, Condition, If, Program, While, bodies, with_bodies

ROUNDS = 8
"""Conditions that are made exact, at most; more rounds did not help on bubble sort (docs/explain.md)."""
SAMPLED_EPISODES = 600
"""Episodes of each kind, agreeing and not, that a round looks at: enough to see what happens once in a hundred."""
WORTHWHILE = 0.001
"""A longer condition must raise the share of episodes that agree by this much: two of the usual 2,000."""
ENOUGH_AGREEMENT = 0.999
"""Agreement beyond which there is no worthwhile gain left."""


def refine(program: Program, facts: Facts, recording: Recording) -> Program:
    """Improve conditions until the program agrees often enough, or no change of one condition helps."""
    agrees = agreement(program, facts, recording)
    given_up: set[Site] = set()
    for _ in range(ROUNDS):
        if agrees.mean() >= ENOUGH_AGREEMENT:
            break
        runner = Runner(program, facts)
        questions = _questions(runner, recording, agrees)
        site = _worst_site(runner, questions, given_up)
        if site is None:
            break
        improved, improved_agrees = program, agrees
        for condition in _conditions(facts, questions.at(runner, site)):
            candidate = _with_condition(program, site, condition)
            wanted = float(improved_agrees.mean()) + WORTHWHILE
            candidate_agrees = agreement(candidate, facts, recording, wanted)
            if candidate_agrees.mean() >= wanted:
                improved, improved_agrees = candidate, candidate_agrees
        if improved is program:
            given_up.add(site)
        program, agrees = improved, improved_agrees
    return program


class _Questions(NamedTuple):
    """Questions to conditions, with their weights."""

    asked: list[Question]
    weights: list[float]
    """The number of episodes that are represented by the question's episode, which is one of a sample."""

    def at(self, runner: Runner, site: Site) -> "_Questions":
        """The questions to one condition."""
        here = [i for i, question in enumerate(self.asked) if runner.code.sites[question.condition] == site]
        return _Questions([self.asked[i] for i in here], [self.weights[i] for i in here])


def _questions(runner: Runner, recording: Recording, agrees: Bool[np.ndarray, "N"]) -> _Questions:
    """What is asked in some of the episodes on which the program agrees, and in some of the others."""
    result = _Questions([], [])
    actions = recording.emitted.tolist()
    for episodes in (np.flatnonzero(agrees), np.flatnonzero(~agrees)):
        sample = episodes[:: max(1, -(-len(episodes) // SAMPLED_EPISODES))]
        for i in sample.tolist():
            first, end = recording.row_offsets[i : i + 2].tolist()
            asked = runner.questions(first, actions[first:end])
            result.asked.extend(asked)
            result.weights.extend([len(episodes) / len(sample)] * len(asked))
    return result


def _worst_site(runner: Runner, questions: _Questions, given_up: set[Site]) -> Site | None:
    """The condition with the most wrong answers among those not given up; None if no answer is wrong."""
    wrong: dict[Site, float] = {}
    for question, weight in zip(questions.asked, questions.weights, strict=True):
        site = runner.code.sites[question.condition]
        if site in given_up:
            continue
        if runner.conditions[question.condition](question.row, question.counter, question.last) != question.answer:
            wrong[site] = wrong.get(site, 0.0) + weight
    return max(wrong, key=lambda site: wrong[site]) if wrong else None


def _conditions(facts: Facts, questions: _Questions) -> list[Condition]:
    """Conditions for these questions, each longer than the one before it, with fewer wrong answers."""
    moments = Moments(
        rows=np.array([question.row for question in questions.asked], dtype=np.int64),
        counters=np.array([question.counter for question in questions.asked], dtype=np.int64),
        lasts=np.array([question.last for question in questions.asked], dtype=np.int64),
    )
    columns = facts.columns(moments)
    answers = np.array([question.answer for question in questions.asked], dtype=bool)
    weights: Float[np.ndarray, "E"] = np.array(questions.weights)
    return learn_conditions(list(columns), np.column_stack(list(columns.values())), answers, weights)


def _with_condition(program: Program, site: Site, condition: Condition) -> Program:
    block = _replaced(program.blocks[site.procedure], site.path, condition)
    return replace(program, blocks={**program.blocks, site.procedure: block})


def _replaced(block: Block, path: Path, condition: Condition) -> Block:
    """The block with another condition at a path."""
    number, rest = path[0], path[1:]
    statement = block[number]
    if not rest:
        assert isinstance(statement, If | While)
        return (*block[:number], replace(statement, condition=condition), *block[number + 1 :])
    inner = list(bodies(statement))
    # A path counts the statements of `else` after those of `then`.
    which = 0 if rest[0] < len(inner[0]) else 1
    shifted = (rest[0] - (len(inner[0]) if which else 0), *rest[1:])
    inner[which] = _replaced(inner[which], shifted, condition)
    return (*block[:number], with_bodies(statement, tuple(inner)), *block[number + 1 :])
