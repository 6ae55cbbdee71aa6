"""Whether the records bear a claim out: reproduced, not reproduced, or undecided at this number of runs.

A verdict is one about the mean over runs, of which a 95% interval is known (Student's). Learners are compared in pairs:
the same run has the same training set. A claim about several panels, unless it is about their mean, is judged in each;
it is reproduced if it is in all of them and not reproduced if it fails in one; a claim about some of the panels is
reproduced if it is in one. Runs that lack a record are left out: the mean of what there is would be one of other sizes.

Letters: M models, N runs.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hvil.analysis.statistics import Estimate, mean_estimate, share_estimate, shown, student_interval
from hvil.experiments.experiment import Claim, Place
from hvil.experiments.outcome.results import Results, measured_value


class Verdict(StrEnum):
    """What the records say of a claim."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    UNDECIDED = "undecided at this number of runs"
    NO_RECORDS = "no records"


class Finding(NamedTuple):
    """A claim judged."""

    claim: Claim
    panel: str
    """Where; empty for the claim as a whole."""
    verdict: Verdict
    measured: str
    """Our numbers, in words."""


def judge(claim: Claim, results: Results) -> list[Finding]:
    """The claim as a whole and, if it is judged in several panels, each of them."""
    panels = claim.panels or tuple(results.experiment.panels)
    if claim.pooled or len(panels) == 1:
        return [Finding(claim, "", *_JUDGES[claim.kind](claim, results, panels))]
    parts = [Finding(claim, panel, *_JUDGES[claim.kind](claim, results, (panel,))) for panel in panels]
    verdicts = [part.verdict for part in parts]
    counts = ", ".join(f"{name} in {verdicts.count(name)}" for name in Verdict if name in verdicts)
    whole = (disjunction if claim.some else conjunction)(verdicts)
    return [Finding(claim, "", whole, f"{counts} of {len(panels)}"), *parts]


def conjunction(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on all of several statements."""
    for verdict in (Verdict.NOT_REPRODUCED, Verdict.NO_RECORDS, Verdict.UNDECIDED):
        if verdict in verdicts:
            return verdict
    return Verdict.REPRODUCED


def disjunction(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on at least one of several statements."""
    for verdict in (Verdict.REPRODUCED, Verdict.UNDECIDED, Verdict.NO_RECORDS):
        if verdict in verdicts:
            return verdict
    return Verdict.NOT_REPRODUCED


Judged = tuple[Verdict, str]


def _lower(claim: Claim, results: Results, panels: Sequence[str]) -> Judged:
    ours, theirs = _by_run(claim, results, panels, (claim.ours, claim.theirs))
    if not len(ours):
        return Verdict.NO_RECORDS, ""
    estimate = mean_estimate(ours - theirs)
    text = f"{shown(estimate, sign='+', unit='')} points{_of_runs(estimate, results)}"
    if estimate.interval is None:
        return Verdict.UNDECIDED, text
    if estimate.interval.high < 0:
        return Verdict.REPRODUCED, text
    return (Verdict.NOT_REPRODUCED if estimate.interval.low >= 0 else Verdict.UNDECIDED), text


def _not_lower(claim: Claim, results: Results, panels: Sequence[str]) -> Judged:
    verdict, text = _lower(claim, results, panels)
    return _negated(verdict), text


def _at_most(claim: Claim, results: Results, panels: Sequence[str]) -> Judged:
    (values,) = _by_run(claim, results, panels, (claim.ours,))
    if not len(values):
        return Verdict.NO_RECORDS, ""
    estimate = share_estimate(values)
    return is_at_most(values, claim.level), shown(estimate) + _of_runs(estimate, results)


def _above(claim: Claim, results: Results, panels: Sequence[str]) -> Judged:
    verdict, text = _at_most(claim, results, panels)
    return _negated(verdict), text


def _half_data(claim: Claim, results: Results, panels: Sequence[str]) -> Judged:
    """Some size at which ours is at most the level, while theirs is above it with anything up to twice as much."""
    (panel,) = panels
    sizes = sorted(claim.sizes or results.experiment.sizes)
    judged: list[tuple[Verdict, float, str]] = []  # at each size: the verdict, our error, the numbers in words
    for size in sizes:
        twice = next((larger for larger in sizes if larger >= 2 * size), None)
        if twice is None:
            continue
        ours = _array(results.values(panel, claim.ours, size, claim.measure))
        theirs = [_array(results.values(panel, claim.theirs, s, claim.measure)) for s in sizes if s <= twice]
        if not len(ours) or not all(len(values) for values in theirs):
            judged.append((Verdict.NO_RECORDS, 0.0, ""))
            continue
        above = [_negated(is_at_most(values, claim.level)) for values in theirs]
        mine, other = (shown(share_estimate(values)) for values in (ours, theirs[-1]))
        text = f"{mine} with {size}, {claim.theirs} {other} with {twice}"
        judged.append((conjunction([is_at_most(ours, claim.level), *above]), float(ours.mean()), text))
    verdict = disjunction([each for each, _, _ in judged]) if judged else Verdict.NO_RECORDS
    # Show, of the pairs that speak for the verdict, the one in which ours comes closest.
    speaking = [(error, text) for each, error, text in judged if each is verdict]
    return verdict, min(speaking, key=lambda pair: pair[0])[1] if speaking else ""


_JUDGES: dict[str, Callable[[Claim, Results, Sequence[str]], Judged]] = {
    "lower": _lower,
    "not-lower": _not_lower,
    "at-most": _at_most,
    "above": _above,
    "half-data": _half_data,
}


def is_at_most(values: Float[np.ndarray, "N"], level: float) -> Verdict:
    """Whether the mean error is at most the level.

    Errors cannot be negative: at level 0, a single one decides, and no error in any run is what can be asked for.
    """
    if level <= 0 and values.max() > 0:
        return Verdict.NOT_REPRODUCED
    interval = student_interval(values)
    if interval is None:
        return Verdict.UNDECIDED
    if interval.high <= level:
        return Verdict.REPRODUCED
    return Verdict.NOT_REPRODUCED if interval.low > level else Verdict.UNDECIDED


def _negated(verdict: Verdict) -> Verdict:
    opposite = {Verdict.REPRODUCED: Verdict.NOT_REPRODUCED, Verdict.NOT_REPRODUCED: Verdict.REPRODUCED}
    return opposite.get(verdict, verdict)


def _by_run(claim: Claim, results: Results, panels: Sequence[str], models: Sequence[str]) -> Float[np.ndarray, "M N"]:
    """For each model and each complete run, the mean over the panels and sizes that all of them have a value for."""
    places = [(panel, size) for panel in panels for size in claim.sizes or results.experiment.sizes]
    records = results.records
    runs = [
        run
        for run in range(results.experiment.runs)
        if all(Place(panel, model, size, run) in records for panel, size in places for model in models)
    ]
    values = [
        [
            [measured_value(records[Place(panel, model, size, run)], claim.measure) for run in runs]
            for panel, size in places
        ]
        for model in models
    ]
    errors = np.array(values, dtype=np.float64)
    # Where all test traces were seen in training there is no value: leave the place out in all runs.
    measured = ~np.isnan(errors).any(axis=(0, 2))
    return errors[:, measured].mean(axis=1) if measured.any() else np.empty((len(models), 0))


def _of_runs(estimate: Estimate, results: Results) -> str:
    """A remark, if runs were left out or there is but one."""
    runs = results.experiment.runs
    if estimate.runs == 1:
        return " (1 run)"
    return "" if estimate.runs == runs else f" ({estimate.runs} of {runs} runs)"


def _array(values: dict[int, float]) -> Float[np.ndarray, "N"]:
    return np.array(list(values.values()), dtype=np.float64)
