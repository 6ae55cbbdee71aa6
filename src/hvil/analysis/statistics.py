"""The statistics that a comparison of learners needs: intervals over runs, over test traces, and of differences.

SciPy computes them; here stand the choices among its methods. What is measured is the business of `evaluation`.

`scipy.stats` takes half a second to import, so it is imported where it is needed: most commands do without it.

Letters: N runs (or pairs of runs), M runs of another learner.
"""

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Num

from hvil.gate.errors import InputError

CONFIDENCE = 0.95
RESAMPLES = 10_000
"""Sign flips that a permutation test tries: all of them for up to 13 pairs (2^13 = 8192), random ones beyond. A p-value
of 0.05 is then exact to about 0.002."""


class Interval(NamedTuple):
    """An interval of confidence, of 95% unless it is said to be another."""

    low: float
    high: float


class Estimate(NamedTuple):
    """A mean over runs."""

    mean: float
    interval: Interval | None
    """None for a single run: it says nothing about others."""
    runs: int


class Paired(NamedTuple):
    """Two learners on the same training sets: `first − second`, so that of errors a negative one favours the first."""

    difference: Estimate
    p_value: float
    """Two-sided: how likely differences this large are if their signs are a matter of chance."""
    first_lower: float
    """Share of the pairs in which the first is lower; ties count half."""


def mean_estimate(values: Num[np.ndarray, "N"], confidence: float = CONFIDENCE) -> Estimate:
    """The mean with its interval over runs."""
    values = _checked(values)
    return Estimate(float(values.mean()), student_interval(values, confidence), len(values))


def share_estimate(values: Num[np.ndarray, "N"], confidence: float = CONFIDENCE) -> Estimate:
    """The mean of shares, such as errors; its interval is cut to what a share can be."""
    mean, interval, runs = mean_estimate(values, confidence)
    cut = interval and Interval(max(0.0, interval.low), min(1.0, interval.high))
    return Estimate(mean, cut, runs)


def shown(estimate: Estimate, sign: str = "", unit: str = "%") -> str:
    """An estimate in per cent, such as `12.3% [4.5, 20.1]`; `sign="+"` for differences."""
    text = f"{100 * estimate.mean:{sign}.1f}{unit}"
    if estimate.interval is None:
        return text
    low, high = estimate.interval
    return f"{text} [{100 * low:{sign}.1f}, {100 * high:{sign}.1f}]"


def student_interval(values: Num[np.ndarray, "N"], confidence: float = CONFIDENCE) -> Interval | None:
    """Student's interval of the mean. It is as wide as a few runs deserve; a bootstrap of a few runs is too narrow."""
    from scipy.stats import sem, t

    values = _checked(values)
    if len(values) == 1:
        return None
    half = float(t.ppf((1 + confidence) / 2, len(values) - 1) * sem(values))
    return Interval(low=float(values.mean()) - half, high=float(values.mean()) + half)


def interquartile_mean(values: Num[np.ndarray, "N"]) -> float:
    """The mean of the middle half: a quarter of the runs (rounded down) is left out at each end."""
    from scipy.stats import trim_mean

    return float(trim_mean(_checked(values), 0.25))


def proportion_interval(successes: int, count: int) -> Interval:
    """Wilson's interval for a share of `count` independent trials, such as the error of one run over test traces.

    It is SciPy's `binomtest(successes, count).proportion_ci(method="wilson")` without the import of `scipy.stats`,
    because every `hvil fit` and `hvil evaluate` needs this interval.
    """
    if not 0 <= successes <= count or count < 1:
        raise InputError(f"{successes} of {count} is not a share")
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    share = successes / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    # At 0 and 1 the formula gives the bound itself up to rounding; the rounding must not show.
    return Interval(
        low=0.0 if successes == 0 else centre - half,
        high=1.0 if successes == count else centre + half,
    )


def paired(first: Num[np.ndarray, "N"], second: Num[np.ndarray, "M"], seed: int = 0) -> Paired:
    """Compare two learners run by run; entry i of both comes from the same training set."""
    if len(first) != len(second):
        raise InputError(f"a paired comparison needs as many runs of both: {len(first)} and {len(second)}")
    differences = _checked(np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64))
    lower = float((differences < 0).mean() + (differences == 0).mean() / 2)
    return Paired(mean_estimate(differences), sign_flip_p_value(differences, seed), lower)


def sign_flip_p_value(differences: Num[np.ndarray, "N"], seed: int = 0) -> float:
    """How often random signs give a mean difference at least this far from zero (a permutation test)."""
    from scipy.stats import permutation_test

    differences = _checked(differences)
    if len(differences) == 1:
        return 1.0  # both signs are equally far from zero

    def rounded_mean(values: np.ndarray, axis: int) -> Any:
        # Errors are shares, so many sign flips give equal means: they must not differ by the rounding of their sums.
        return np.mean(values, axis=axis).round(12)

    result = permutation_test(
        (differences,),
        rounded_mean,
        permutation_type="samples",
        n_resamples=RESAMPLES,
        random_state=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def _checked(values: Num[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
    values = np.asarray(values, dtype=np.float64)
    if not len(values) or not np.isfinite(values).all():
        raise InputError("statistics need at least one value, and only finite ones")
    return values
