"""Verdicts on claims: reproduced, not reproduced, no difference, or undecided at this number of runs.

A verdict is about the mean over runs, and Student's interval decides it. Two learners are compared run by run, because
the same run has the same training set. They do not differ if the interval of the difference lies within the claim's
margin. A claim about several panels is judged in each panel, unless it is about their mean: it is reproduced if it is
reproduced in all of them, and not reproduced if it fails in one. A claim about some of the panels is reproduced if it
is reproduced in one; as it then has several chances, each panel is judged with a higher confidence (Bonferroni).
A run that lacks a record is left out, because the mean over its other records would be a mean over other sizes.

An experiment has many claims, and of many true null hypotheses some look false. `judge_all` makes the intervals of its
claims wider until all verdicts together are right with 95% (Holm's method).

Letters: M models, N runs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hvil.analysis.statistics import CONFIDENCE, Estimate, mean_estimate, share_estimate, shown, student_interval
from hvil.experiments.experiment import Claim, Position
from hvil.experiments.outcome.results import Results, measured_value

SMALLEST_DOUBT = 1e-6
"""An interval of confidence 1 − α is looked at down to this α: no experiment has more than a few dozen claims."""
BISECTIONS = 24
"""Steps to find the smallest α: its logarithm is then exact to a millionth."""


class Verdict(StrEnum):
    """What the records say of a claim."""

    REPRODUCED = "reproduced"
    NO_DIFFERENCE = "no difference"
    NOT_REPRODUCED = "not reproduced"
    UNDECIDED = "undecided at this number of runs"
    NO_RECORDS = "no records"


class Finding(NamedTuple):
    """The verdict on a claim."""

    claim: Claim
    panel: str
    """The panel that the verdict is about; empty for the claim as a whole."""
    verdict: Verdict
    measured: str
    """The numbers that decide, in words."""
    confidence: float = CONFIDENCE
    """Of the interval that decides."""


def judge_all(results: Results) -> list[Finding]:
    """The verdicts on all claims of an experiment, which hold together with 95%.

    Holm's method: the claims are taken in the order of the smallest doubt α at which each is decided. The first of m
    has to be decided at 0.05/m, the second at 0.05/(m − 1), and so on; after the first that is not, none is.
    """
    claims = results.experiment.claims
    doubts = {number: _doubt(claim, results) for number, claim in enumerate(claims)}
    levels: dict[int, float] = {}
    level, decided = 1 - CONFIDENCE, True
    for place, number in enumerate(sorted(doubts, key=lambda number: doubts[number])):
        if decided:
            level = (1 - CONFIDENCE) / (len(claims) - place)
            decided = doubts[number] <= level
        levels[number] = level
    return [finding for number, claim in enumerate(claims) for finding in judge(claim, results, 1 - levels[number])]


def _doubt(claim: Claim, results: Results) -> float:
    """The smallest α for which intervals of confidence 1 − α decide the claim; 1 if none does."""
    low, high = math.log(SMALLEST_DOUBT), 0.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        verdict = judge(claim, results, 1 - math.exp(middle))[0].verdict
        undecided = verdict in (Verdict.UNDECIDED, Verdict.NO_RECORDS)
        low, high = (middle, high) if undecided else (low, middle)
    return math.exp(high)


def judge(claim: Claim, results: Results, confidence: float = CONFIDENCE) -> list[Finding]:
    """The verdict on the claim as a whole and, if it is judged in several panels, on each of them."""
    panels = claim.panels or tuple(results.experiment.panels)
    if claim.pooled or len(panels) == 1:
        return [_finding(claim, results, "", panels, confidence)]
    in_each = 1 - (1 - confidence) / len(panels) if claim.some else confidence
    parts = [_finding(claim, results, panel, (panel,), in_each) for panel in panels]
    verdicts = [part.verdict for part in parts]
    counts = ", ".join(f"{name} in {verdicts.count(name)}" for name in Verdict if name in verdicts)
    whole = (disjunction if claim.some else conjunction)(verdicts)
    summary = Finding(
        claim=claim, panel="", verdict=whole, measured=f"{counts} of {len(panels)}", confidence=confidence
    )
    return [summary, *parts]


def _finding(claim: Claim, results: Results, panel: str, panels: Sequence[str], confidence: float) -> Finding:
    verdict, measured = _JUDGES[claim.kind](claim, results, panels, confidence)
    return Finding(claim=claim, panel=panel, verdict=verdict, measured=measured, confidence=confidence)


def conjunction(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on all of several statements."""
    for verdict in (Verdict.NOT_REPRODUCED, Verdict.NO_RECORDS, Verdict.UNDECIDED, Verdict.NO_DIFFERENCE):
        if verdict in verdicts:
            return verdict
    return Verdict.REPRODUCED


def disjunction(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on at least one of several statements."""
    for verdict in (Verdict.REPRODUCED, Verdict.UNDECIDED, Verdict.NO_RECORDS, Verdict.NO_DIFFERENCE):
        if verdict in verdicts:
            return verdict
    return Verdict.NOT_REPRODUCED


Judged = tuple[Verdict, str]
"""A verdict, and the numbers that decide it in words."""


def _lower(claim: Claim, results: Results, panels: Sequence[str], confidence: float) -> Judged:
    models = (claim.ours, claim.theirs)
    ours, theirs = _by_run(claim, results, panels, models)
    if not len(ours):
        return Verdict.NO_RECORDS, ""
    estimate = mean_estimate(ours - theirs, confidence)
    text = f"{shown(estimate, sign='+', unit='')} points{_of_runs(estimate, claim, results, panels, models)}"
    if estimate.interval is None:
        return Verdict.UNDECIDED, text
    low, high = estimate.interval
    if high < 0:
        return Verdict.REPRODUCED, text
    if -claim.margin <= low <= 0 and high <= claim.margin:
        return Verdict.NO_DIFFERENCE, f"{text}, within ±{100 * claim.margin:g}"
    return (Verdict.NOT_REPRODUCED if low > 0 else Verdict.UNDECIDED), text


def _not_lower(claim: Claim, results: Results, panels: Sequence[str], confidence: float) -> Judged:
    verdict, text = _lower(claim, results, panels, confidence)
    return (Verdict.REPRODUCED if verdict is Verdict.NO_DIFFERENCE else _negated(verdict)), text


def _at_most(claim: Claim, results: Results, panels: Sequence[str], confidence: float) -> Judged:
    models = (claim.ours,)
    (values,) = _by_run(claim, results, panels, models)
    if not len(values):
        return Verdict.NO_RECORDS, ""
    estimate = share_estimate(values, confidence)
    text = shown(estimate) + _of_runs(estimate, claim, results, panels, models)
    return is_at_most(values, claim.level, confidence), text


def _above(claim: Claim, results: Results, panels: Sequence[str], confidence: float) -> Judged:
    verdict, text = _at_most(claim, results, panels, confidence)
    return _negated(verdict), text


def _half_data(claim: Claim, results: Results, panels: Sequence[str], confidence: float) -> Judged:
    """Whether our error is at most the level with less than half the data that theirs needs for it.

    There has to be a size at which our error is at most the level, while theirs is above the level at every size up to
    the first one that is at least twice as large. Errors are means over the panels.
    """
    sizes = sorted(claim.sizes or results.experiment.sizes)
    judged: list[tuple[Verdict, float, str]] = []  # for each size: the verdict, our error, the numbers in words
    for size in sizes:
        twice = next((larger for larger in sizes if larger >= 2 * size), None)
        if twice is None:
            continue
        (ours,) = _by_run(replace(claim, sizes=(size,)), results, panels, (claim.ours,))
        theirs = [_by_run(replace(claim, sizes=(s,)), results, panels, (claim.theirs,))[0] for s in sizes if s <= twice]
        if not len(ours) or not all(len(values) for values in theirs):
            judged.append((Verdict.NO_RECORDS, 0.0, ""))
            continue
        above = [_negated(is_at_most(values, claim.level, confidence)) for values in theirs]
        mine, other = (shown(share_estimate(values, confidence)) for values in (ours, theirs[-1]))
        text = f"{mine} with {size}, {claim.theirs} {other} with {twice}"
        judged.append((conjunction([is_at_most(ours, claim.level, confidence), *above]), float(ours.mean()), text))
    verdict = disjunction([each for each, _, _ in judged]) if judged else Verdict.NO_RECORDS
    # Several sizes may have this verdict: show the one with our lowest error.
    deciding = [(error, text) for each, error, text in judged if each is verdict]
    return verdict, min(deciding, key=lambda pair: pair[0])[1] if deciding else ""


_JUDGES: dict[str, Callable[[Claim, Results, Sequence[str], float], Judged]] = {
    "lower": _lower,
    "not-lower": _not_lower,
    "at-most": _at_most,
    "above": _above,
    "half-data": _half_data,
}


def is_at_most(values: Float[np.ndarray, "N"], level: float, confidence: float = CONFIDENCE) -> Verdict:
    """Whether the mean error is at most the level.

    At level 0 the mean is at most the level only if no run has an error, so a single error decides.
    """
    if level <= 0 and values.max() > 0:
        return Verdict.NOT_REPRODUCED
    interval = student_interval(values, confidence)
    if interval is None:
        return Verdict.UNDECIDED
    if interval.high <= level:
        return Verdict.REPRODUCED
    return Verdict.NOT_REPRODUCED if interval.low > level else Verdict.UNDECIDED


def _negated(verdict: Verdict) -> Verdict:
    opposite = {Verdict.REPRODUCED: Verdict.NOT_REPRODUCED, Verdict.NOT_REPRODUCED: Verdict.REPRODUCED}
    return opposite.get(verdict, verdict)


def _by_run(claim: Claim, results: Results, panels: Sequence[str], models: Sequence[str]) -> Float[np.ndarray, "M N"]:
    """For each model and each complete run, the mean over the panels and sizes that have a value in all runs."""
    points = _points(claim, results, panels)
    records = results.records
    runs = [
        run
        for run in results.experiment.run_numbers
        if all(Position(panel, model, size, run) in records for panel, size in points for model in models)
    ]
    values = [
        [
            [measured_value(records[Position(panel, model, size, run)], claim.measure) for run in runs]
            for panel, size in points
        ]
        for model in models
    ]
    errors = np.array(values, dtype=np.float64)
    # Where all test traces of a run were seen in training there is no value: leave that point out in all runs.
    measured = ~np.isnan(errors).any(axis=(0, 2))
    return errors[:, measured].mean(axis=1) if measured.any() else np.empty((len(models), 0))


def _points(claim: Claim, results: Results, panels: Sequence[str]) -> list[tuple[str, int]]:
    """The panels and sizes that a claim takes the mean over."""
    return [(panel, size) for panel in panels for size in claim.sizes or results.experiment.sizes]


def _of_runs(estimate: Estimate, claim: Claim, results: Results, panels: Sequence[str], models: Sequence[str]) -> str:
    """The number of runs behind an estimate, and that of all runs that the table has there, if some are missing."""
    if estimate.runs == 1:
        return " (1 run)"
    runs_of = results.experiment.runs_of
    planned = min(runs_of(panel, model, size) for panel, size in _points(claim, results, panels) for model in models)
    return f" ({estimate.runs} runs)" if estimate.runs == planned else f" ({estimate.runs} of {planned} runs)"
