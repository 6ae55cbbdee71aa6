"""Timing on a noisy machine: alternatives take turns within one run, and their medians are compared.

What disturbs the machine then disturbs all of them, so ratios of the medians hold although the times themselves vary.
"""

import gc
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch


def medians(
    alternatives: Mapping[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Median seconds of each alternative. They take turns, after one call each to warm up."""
    for run in alternatives.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in alternatives}
    gc.collect()
    for _ in range(repeats):
        for name, run in alternatives.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The slope of log seconds over log sizes: t ∝ size^slope."""
    slope, _ = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return float(slope)


def padded_lstm_floor(observations: np.ndarray, lengths: np.ndarray, inputs: int, units: int) -> Callable[[], object]:
    """The floor: `torch.nn.LSTM`, bidirectional, forward and backward over the padded batch, and nothing else."""
    times, count = int(lengths.max()), len(lengths)
    x = torch.zeros(times, count, inputs)
    row = 0
    for trace, length in enumerate(lengths):
        width = min(observations.shape[1], inputs)
        x[:length, trace, :width] = torch.from_numpy(observations[row : row + length, :width].copy())
        row += length
    network = torch.nn.LSTM(inputs, units, bidirectional=True)
    weight = torch.randn(times, count, 2 * units)

    def run() -> None:
        network.zero_grad(set_to_none=True)
        output, _ = network(x)
        (output * weight).sum().backward()

    return run
