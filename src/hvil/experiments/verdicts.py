"""Whether the records bear a claim out: reproduced, not reproduced, or undecided at this number of runs.

A verdict is one about the mean over runs, of which a 95% interval is known (Student's). Learners are compared in pairs:
the same run has the same training set. A claim about several panels, unless it is about their mean, is judged in each;
it is reproduced if it is in all of them and not reproduced if it fails in one.

Letters: N runs.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hvil.experiments.experiment import Claim
from hvil.experiments.results import Results, share_estimate
from hvil.statistics import Estimate, student_interval


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
    return [Finding(claim, "", conjunction(verdicts), f"{counts} of {len(panels)}"), *parts]


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
    estimate = _difference(claim, results, panels)
    if estimate is None:
        return Verdict.NO_RECORDS, ""
    text = f"{_shown(estimate, sign='+')} points"
    if estimate.interval is None:
        return Verdict.UNDECIDED, text
    if estimate.interval.high < 0:
        return Verdict.REPRODUCED, text
    return (Verdict.NOT_REPRODUCED if estimate.interval.low >= 0 else Verdict.UNDECIDED), text


def _not_lower(claim: Claim, results: Results, panels: Sequence[str]) -> Judged:
    verdict, text = _lower(claim, results, panels)
    return _negated(verdict), text


def _at_most(claim: Claim, results: Results, panels: Sequence[str]) -> Judged:
    values = _mean_by_run(claim, results, panels, claim.ours)
    if not len(values):
        return Verdict.NO_RECORDS, ""
    return is_at_most(values, claim.level), _shown(share_estimate(values))


def _above(claim: Claim, results: Results, panels: Sequence[str]) -> Judged:
    verdict, text = _at_most(claim, results, panels)
    return _negated(verdict), text


def _half_data(claim: Claim, results: Results, panels: Sequence[str]) -> Judged:
    """Some size at which ours is at most the level, while theirs, with at least twice as much, is still above it."""
    (panel,) = panels
    sizes = sorted(claim.sizes or results.experiment.sizes)
    best, texts = dict[int, Verdict](), dict[int, str]()
    for size in sizes:
        twice = next((larger for larger in sizes if larger >= 2 * size), None)
        if twice is None:
            continue
        ours = _array(results.values(panel, claim.ours, size, claim.measure))
        theirs = _array(results.values(panel, claim.theirs, twice, claim.measure))
        if not len(ours) or not len(theirs):
            best[size], texts[size] = Verdict.NO_RECORDS, ""
            continue
        best[size] = conjunction([is_at_most(ours, claim.level), _negated(is_at_most(theirs, claim.level))])
        texts[size] = (
            f"{_shown(share_estimate(ours))} with {size}, {claim.theirs} {_shown(share_estimate(theirs))} with {twice}"
        )
    verdict = disjunction(list(best.values())) if best else Verdict.NO_RECORDS
    # Show the pair that decides; where none holds, the first that speaks for the verdict.
    return verdict, next((texts[size] for size in best if best[size] is verdict), "")


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
    if level <= 0:
        return Verdict.REPRODUCED if values.max() <= 0 else Verdict.NOT_REPRODUCED
    interval = student_interval(values)
    if interval is None:
        return Verdict.UNDECIDED
    if interval.high <= level:
        return Verdict.REPRODUCED
    return Verdict.NOT_REPRODUCED if interval.low > level else Verdict.UNDECIDED


def _negated(verdict: Verdict) -> Verdict:
    opposite = {Verdict.REPRODUCED: Verdict.NOT_REPRODUCED, Verdict.NOT_REPRODUCED: Verdict.REPRODUCED}
    return opposite.get(verdict, verdict)


def _difference(claim: Claim, results: Results, panels: Sequence[str]) -> Estimate | None:
    """Ours minus theirs: for each run the mean over panels and sizes where both have a record, then over runs."""
    by_run: dict[int, list[float]] = {}
    for panel in panels:
        for size in claim.sizes or results.experiment.sizes:
            ours = results.values(panel, claim.ours, size, claim.measure)
            theirs = results.values(panel, claim.theirs, size, claim.measure)
            for run in ours.keys() & theirs.keys():
                by_run.setdefault(run, []).append(ours[run] - theirs[run])
    if not by_run:
        return None
    means = np.array([np.mean(by_run[run]) for run in sorted(by_run)])
    return Estimate(float(means.mean()), student_interval(means), len(means))


def _mean_by_run(claim: Claim, results: Results, panels: Sequence[str], model: str) -> Float[np.ndarray, "N"]:
    by_run: dict[int, list[float]] = {}
    for panel in panels:
        for size in claim.sizes or results.experiment.sizes:
            for run, value in results.values(panel, model, size, claim.measure).items():
                by_run.setdefault(run, []).append(value)
    return np.array([np.mean(values) for _, values in sorted(by_run.items())])


def _array(values: dict[int, float]) -> Float[np.ndarray, "N"]:
    return np.array(list(values.values()), dtype=np.float64)


def _shown(estimate: Estimate, sign: str = "") -> str:
    text = f"{100 * estimate.mean:{sign}.1f}{'' if sign else '%'}"
    if estimate.interval is None:
        return f"{text} (1 run)"
    low, high = estimate.interval
    return f"{text} [{100 * low:{sign}.1f}, {100 * high:{sign}.1f}]"
