"""Makes the conditions of a program more exact, one at a time, as long as it then agrees with the policy more often.

The structure of the program stays as it is, and so does its number of lines.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from hvil.analysis.explain.conditions import learn_conditions
from hvil.analysis.explain.demands import last_feature
from hvil.analysis.explain.episodes import Recording
from hvil.analysis.explain.execution import Asked, Facts, Path, Program, Runner, Site, agreement
from hvil.analysis.explain.syntax import Block, Condition, If, While, bodies, with_bodies
from hvil.analysis.explain.synthesis import END
from hvil.analysis.explain.vocabulary import COUNTER

ROUNDS = 8
EPISODES = 600
"""Of each kind, agreeing and not, that are looked at in a round."""
WORTH = 0.001
"""A longer condition must make the program agree on this share of episodes more."""


class Refined(NamedTuple):
    """A program and how often it agrees."""

    program: Program
    agreement: float


def refine(program: Program, facts: Facts, recording: Recording, enough: float = 0.999) -> Refined:
    """Improve conditions until the program agrees often enough, or nothing helps."""
    agrees = agreement(program, facts, recording)
    given_up: set[Site] = set()
    for _ in range(ROUNDS):
        if agrees.mean() >= enough:
            break
        runner = Runner(program, facts)
        asked, weights = _sampled(runner, recording, agrees)
        site = _worst(runner, facts, asked, weights, given_up)
        if site is None:
            break
        chosen = [i for i, one in enumerate(asked) if runner.code.sites[one.site] == site]
        options = _conditions(facts, [asked[i] for i in chosen], weights[chosen])
        best = program, agrees
        for condition in options:
            candidate = _with_condition(program, site, condition)
            result = agreement(candidate, facts, recording)
            if result.mean() >= best[1].mean() + WORTH:
                best = candidate, result
        if best[0] is program:
            given_up.add(site)
        program, agrees = best
    return Refined(program, float(agrees.mean()))


def _sampled(
    runner: Runner, recording: Recording, agrees: Bool[np.ndarray, "N"]
) -> tuple[list[Asked], Float[np.ndarray, "E"]]:
    """What was asked in some episodes of each kind, weighted to stand for all."""
    found: list[Asked] = []
    weights: list[float] = []
    actions = recording.actions.tolist()
    for kind in (True, False):
        which = np.flatnonzero(agrees == kind)
        taken = which[:: max(1, -(-len(which) // EPISODES))]
        for i in taken.tolist():
            first, last = recording.offsets[i : i + 2].tolist()
            asked = runner.asked(first, actions[first:last])
            found += asked
            weights += [len(which) / len(taken)] * len(asked)
    return found, np.array(weights)


def _worst(
    runner: Runner, facts: Facts, asked: list[Asked], weights: Float[np.ndarray, "E"], given_up: set[Site]
) -> Site | None:
    """The condition that is most often wrong."""
    wrong: dict[Site, float] = {}
    for one, weight in zip(asked, weights.tolist(), strict=True):
        site = runner.code.sites[one.site]
        if site not in given_up and runner.conditions[one.site](one.row, one.counter, one.last) != one.right:
            wrong[site] = wrong.get(site, 0.0) + weight
    return max(wrong, key=lambda site: wrong[site]) if wrong else None


def _conditions(facts: Facts, asked: list[Asked], weights: Float[np.ndarray, "E"]) -> list[Condition]:
    rows = np.array([one.row for one in asked])
    counters = np.array([one.counter for one in asked], dtype=np.float64)
    columns: dict[str, np.ndarray] = {}
    for name, feature in facts.words.features.items():
        left = counters if feature.left == COUNTER else facts.values[feature.left][rows]
        columns[name] = left - feature.factor * facts.values[feature.right][rows] if feature.right else left
    lasts = np.array([one.last for one in asked])
    for last in np.unique(lasts):
        columns[last_feature(facts.words, int(last) if last >= 0 else END)] = (lasts == last).astype(np.float64)
    right = np.array([one.right for one in asked])
    return learn_conditions(list(columns), np.column_stack(list(columns.values())), right, weights)


def _with_condition(program: Program, site: Site, condition: Condition) -> Program:
    block = _replaced(program.blocks[site.procedure], site.path, condition)
    return replace(program, blocks={**program.blocks, site.procedure: block})


def _replaced(block: Block, path: Path, condition: Condition) -> Block:
    number, rest = path[0], path[1:]
    statement = block[number]
    if not rest:
        assert isinstance(statement, If | While)
        return (*block[:number], replace(statement, condition=condition), *block[number + 1 :])
    inner = list(bodies(statement))
    which = 0 if rest[0] < len(inner[0]) else 1
    shifted = (rest[0] - (len(inner[0]) if which else 0), *rest[1:])
    inner[which] = _replaced(inner[which], shifted, condition)
    return (*block[:number], with_bodies(statement, tuple(inner)), *block[number + 1 :])
