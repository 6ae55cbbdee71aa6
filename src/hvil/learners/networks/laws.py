"""First laws of continuous actions: linear laws that take turns, fitted to traces before any network is trained.

Gradient descent on a mixture of linear laws, begun at random, often ends with laws that each mix several of the true
ones. EM is quick enough to be begun many times, and the best of its ends is a good beginning for the procedures.

The model is a hidden Markov chain: at each step one law acts, a ~ N(x·w + b, σ²); the next step has the same law with
probability `STAY`, else any other one. Who takes turns with whom, and when, is left for the procedures to learn.

Letters: N traces, T times, S steps of all traces, D features, A numbers of an action, K laws.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

STAY = 0.9
"""Probability that the law of a step is also that of the next step."""
STARTS = 20
"""How many times EM is begun."""
WINDOW = 5
"""Steps that a first law is fitted to: few enough that mostly one true law is behind them all."""
SHORT_ROUNDS, LONG_ROUNDS = 20, 60
"""Rounds of EM from each beginning, and further ones from the best of them."""
MOST_STEPS = 10_000
"""Traces are left out beyond so many steps: a few thousand say enough of linear laws."""
RIDGE, WINDOW_RIDGE = 1e-3, 0.1
"""Weight of the squared coefficients, in steps, in a law of many steps and of a window's: it decides what is unseen."""


class Laws(NamedTuple):
    """Linear laws with Gaussian noise."""

    weight: Float[np.ndarray, "K D A"]
    bias: Float[np.ndarray, "K A"]
    deviation: Float[np.ndarray, "K A"]


class Turns(NamedTuple):
    """Which law acted when, as far as the actions tell."""

    shares: Float[np.ndarray, "S K"]
    """The probability of each law at each step, given the whole trace."""
    log_likelihood: float
    """Of all traces."""


def fitted_laws(
    features: Float[np.ndarray, "S D"],
    vectors: Float[np.ndarray, "S A"],
    lengths: Int[np.ndarray, "N"],
    count: int,
    floor: float,
    rng: np.random.Generator,
) -> Laws:
    """The most likely laws that EM finds in several attempts.

    Args:
        features: what the procedures see at each step, the steps of all traces one after another.
        vectors: the action at each step.
        lengths: of the traces, in steps.
        count: how many laws.
        floor: the smallest deviation.
        rng: decides where the attempts begin.
    """
    kept = max(1, int(np.searchsorted(np.cumsum(lengths), MOST_STEPS, side="right")))
    lengths = lengths[:kept]
    inputs = np.insert(features[: lengths.sum()].astype(np.float64), features.shape[1], 1.0, axis=1)
    outputs = vectors[: lengths.sum()].astype(np.float64)
    attempts = (
        _improved(inputs, outputs, lengths, first_turns(inputs, outputs, lengths, count, rng), floor, SHORT_ROUNDS)
        for _ in range(STARTS if count > 1 else 1)
    )
    best = max(attempts, key=lambda turns: turns.log_likelihood)
    turns = _improved(inputs, outputs, lengths, best.shares, floor, LONG_ROUNDS)
    return weighted_laws(inputs, outputs, turns.shares, floor)


def first_turns(
    inputs: Float[np.ndarray, "S D_plus_1"],
    outputs: Float[np.ndarray, "S A"],
    lengths: Int[np.ndarray, "N"],
    count: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, "S K"]:
    """A segmentation to begin with, as shares of 0 and 1: each step has the law of a window that fits it best.

    The windows are short and lie in one trace each. The first is anywhere; each further one is round a step that the
    laws so far explain badly, with a probability in proportion to their squared error, at most 1 (as in k-means++).
    """
    ends = np.cumsum(lengths)
    errors = np.empty((len(inputs), count))
    chances = np.ones(len(inputs))
    for law in range(count):
        place = int(rng.choice(len(inputs), p=chances / chances.sum()))
        trace = int(np.searchsorted(ends, place, side="right"))
        begin, end = int(ends[trace] - lengths[trace]), int(ends[trace])
        first = max(begin, min(place - WINDOW // 2, end - WINDOW))
        window = slice(first, min(end, first + WINDOW))
        coefficients = _least_squares(inputs[window], inputs[window], outputs[window], WINDOW_RIDGE)
        errors[:, law] = ((outputs - inputs @ coefficients) ** 2).sum(axis=1)
        chances = np.minimum(errors[:, : law + 1].min(axis=1), 1) + 1e-12
    shares: Float[np.ndarray, "S K"] = np.eye(count)[errors.argmin(axis=1)]
    return shares


def weighted_laws(
    inputs: Float[np.ndarray, "S D_plus_1"],
    outputs: Float[np.ndarray, "S A"],
    shares: Float[np.ndarray, "S K"],
    floor: float,
) -> Laws:
    """The law of each column of `shares`: least squares with these weights; the last input is 1."""
    width = inputs.shape[1]
    coefficients = np.empty((shares.shape[1], width, outputs.shape[1]))
    deviation = np.empty((shares.shape[1], outputs.shape[1]))
    for law, share in enumerate(shares.T):
        weighted = inputs * share[:, None]
        coefficients[law] = _least_squares(weighted, inputs, outputs, RIDGE)
        residuals = outputs - inputs @ coefficients[law]
        deviation[law] = np.sqrt(share @ residuals**2 / max(float(share.sum()), 1e-9))
    return Laws(coefficients[:, :-1], coefficients[:, -1], np.maximum(deviation, floor))


def _least_squares(
    weighted: Float[np.ndarray, "S I"],
    inputs: Float[np.ndarray, "S I"],
    outputs: Float[np.ndarray, "S A"],
    ridge: float,
) -> Float[np.ndarray, "I A"]:
    return np.linalg.solve(weighted.T @ inputs + ridge * np.eye(inputs.shape[1]), weighted.T @ outputs)


def turns_of(log_densities: Float[np.ndarray, "S K"], lengths: Int[np.ndarray, "N"]) -> Turns:
    """Which law acts when, by sums forwards and backwards along all traces at once."""
    laws, longest = log_densities.shape[1], int(lengths.max())
    switch = np.full((laws, laws), (1 - STAY) / max(laws - 1, 1))
    np.fill_diagonal(switch, STAY if laws > 1 else 1.0)
    inside = np.arange(longest) < lengths[:, None]
    peaks = log_densities.max(axis=1)
    densities = np.ones((len(lengths), longest, laws))  # after its end, a trace goes on with what says nothing
    densities[inside] = np.exp(log_densities - peaks[:, None])
    forwards, scales = np.empty_like(densities), np.empty((longest, len(lengths), 1))
    state = np.full((len(lengths), laws), 1 / laws)
    for time in range(longest):
        state = densities[:, time] * (state if time == 0 else state @ switch)
        scales[time] = state.sum(axis=1, keepdims=True)
        state = forwards[:, time] = state / scales[time]
    rest = np.ones_like(state)
    shares = np.empty_like(densities)
    for time in reversed(range(longest)):
        shares[:, time] = forwards[:, time] * rest
        rest = (densities[:, time] * rest / scales[time]) @ switch.T
    return Turns(shares=shares[inside], log_likelihood=float(peaks.sum() + np.log(scales).sum()))


def _improved(
    inputs: Float[np.ndarray, "S D_plus_1"],
    outputs: Float[np.ndarray, "S A"],
    lengths: Int[np.ndarray, "N"],
    shares: Float[np.ndarray, "S K"],
    floor: float,
    rounds: int,
) -> Turns:
    """The turns after some rounds of EM."""
    turns = Turns(shares, -np.inf)
    for _ in range(rounds):
        laws = weighted_laws(inputs, outputs, turns.shares, floor)
        turns = turns_of(_log_densities(inputs, outputs, laws), lengths)
    return turns


def _log_densities(
    inputs: Float[np.ndarray, "S D_plus_1"], outputs: Float[np.ndarray, "S A"], laws: Laws
) -> Float[np.ndarray, "S K"]:
    columns = []
    for weight, bias, deviation in zip(*laws, strict=True):
        standard = (outputs - inputs[:, :-1] @ weight - bias) / deviation
        columns.append(-(0.5 * standard**2 + np.log(deviation) + 0.5 * np.log(2 * np.pi)).sum(axis=1))
    return np.stack(columns, axis=1)
