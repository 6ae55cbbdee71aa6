"""The few statistics that a comparison of learners needs: intervals over runs, over test traces, and of differences.

Small on purpose; the tests hold each function against SciPy. What is measured is `evaluation`'s business.

Letters: N runs (or pairs of runs).
"""

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Num

from hvil.gate.errors import InputError

CONFIDENCE = 0.95
RESAMPLES = 10_000
EXACT_PAIRS = 13
"""Up to this many pairs, all 2^N sign flips are tried; beyond it, `RESAMPLES` random ones."""


class Interval(NamedTuple):
    """A 95% interval."""

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
    """Two-sided, that signs of the differences are a matter of chance (sign-flip permutation test)."""
    first_lower: float
    """Share of the pairs in which the first is lower; ties count half."""


def mean_estimate(values: Num[np.ndarray, "N"]) -> Estimate:
    """The mean with its interval over runs."""
    values = _checked(values)
    return Estimate(float(values.mean()), student_interval(values), len(values))


def share_estimate(values: Num[np.ndarray, "N"]) -> Estimate:
    """The same for shares, such as errors: the interval is cut to what a share can be."""
    mean, interval, runs = mean_estimate(values)
    cut = interval and Interval(max(0.0, interval.low), min(1.0, interval.high))
    return Estimate(mean, cut, runs)


def shown(estimate: Estimate, sign: str = "", unit: str = "%") -> str:
    """In per cent: `12.3% [4.5, 20.1]`; `sign="+"` for differences."""
    text = f"{100 * estimate.mean:{sign}.1f}{unit}"
    if estimate.interval is None:
        return text
    low, high = estimate.interval
    return f"{text} [{100 * low:{sign}.1f}, {100 * high:{sign}.1f}]"


def student_interval(values: Num[np.ndarray, "N"]) -> Interval | None:
    """Student's interval of the mean: as wide as a few runs deserve, which a bootstrap of a few is not."""
    from scipy.stats import t

    values = _checked(values)
    if len(values) == 1:
        return None
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)))
    return Interval(float(values.mean()) - half, float(values.mean()) + half)


def interquartile_mean(values: Num[np.ndarray, "N"]) -> float:
    """The mean of the middle half: a quarter of the runs (rounded down) is left out at each end."""
    values = np.sort(_checked(values))
    cut = len(values) // 4
    return float(values[cut : len(values) - cut].mean())


def proportion_interval(successes: int, count: int) -> Interval:
    """Wilson's interval for a share of `count` independent trials, such as the error of one run over test traces."""
    if not 0 <= successes <= count or count < 1:
        raise InputError(f"{successes} of {count} is not a share")
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    share = successes / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    # At 0 and 1 the formula is exact up to rounding: do not let that show.
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == count else centre + half
    return Interval(low, high)


def paired(first: Num[np.ndarray, "N"], second: Num[np.ndarray, "M"], seed: int = 0) -> Paired:
    """Compare two learners run by run; entry i of both comes from the same training set."""
    if len(first) != len(second):
        raise InputError(f"a paired comparison needs as many runs of both: {len(first)} and {len(second)}")
    differences = _checked(np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64))
    lower = float((differences < 0).mean() + (differences == 0).mean() / 2)
    return Paired(mean_estimate(differences), sign_flip_p_value(differences, seed), lower)


def sign_flip_p_value(differences: Num[np.ndarray, "N"], seed: int = 0) -> float:
    """How often random signs give a mean difference at least this far from zero."""
    differences = _checked(differences)
    count = len(differences)
    if count <= EXACT_PAIRS:
        signs = 1 - 2 * (np.arange(2**count)[:, None] >> np.arange(count) & 1)
    else:
        signs = 1 - 2 * np.random.default_rng(seed).integers(0, 2, size=(RESAMPLES, count))
    means = np.abs((signs * differences).mean(axis=1))
    observed = abs(float(differences.mean()))
    extreme = int((means >= observed * (1 - 1e-12)).sum())
    return extreme / len(signs) if count <= EXACT_PAIRS else (extreme + 1) / (len(signs) + 1)


def _checked(values: Num[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
    values = np.asarray(values, dtype=np.float64)
    if not len(values) or not np.isfinite(values).all():
        raise InputError("statistics need at least one value, and only finite ones")
    return values
