"""How long `policy.act` takes: one observation on one core, and a batch for a vector environment.

    python -m benchmarks.latency [--calls 2000] [--limit 1.0]

Prints the median and the 99th percentile in microseconds of processor time for each model; exit code 1 if the median of
hvil's policy for one observation is above the limit in milliseconds.
"""

import argparse
import sys
import time

import numpy as np
import torch

from hvil.data.inputs import suitable_inputs
from hvil.data.traces import Traces
from hvil.learners import build, settings_for
from hvil.learners.config import Config

BATCH = 64


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=2_000)
    parser.add_argument("--limit", type=float, default=1.0, help="milliseconds")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    observations = [np.c_[rng.normal(size=(9, 8)), rng.integers(0, 2, size=(9, 12))] for _ in range(20)]
    traces = Traces.from_episodes(observations, [rng.integers(0, 6, size=8) for _ in range(20)], tuple("abcdef"))
    print("microseconds of one act: median, 99th percentile; of one environment in a batch of 64")
    slowest = 0.0
    for model in ("hvil", "lstm", "feedforward"):
        settings = settings_for(model, {})
        policy = build(Config.of(traces, "tree:5x2", settings, inputs=suitable_inputs(traces))).policy()
        single = measured(policy, traces.observations, None, args.calls)
        batch = measured(policy, traces.observations, BATCH, max(args.calls // 20, 10)) / BATCH
        print(f"{model:12} {np.median(single):8.1f} {np.percentile(single, 99):8.1f} {np.median(batch):8.2f}")
        slowest = max(slowest, float(np.median(single))) if model == "hvil" else slowest
    return 0 if slowest < 1000 * args.limit else 1


def measured(policy: object, rows: np.ndarray, count: int | None, calls: int) -> np.ndarray:
    """Microseconds of each call, a new episode every twenty; the first calls, which compile, are not counted."""
    times = []
    for call in range(calls + 20):
        if call % 20 == 0:
            policy.reset(count)  # type: ignore[attr-defined]
        observation = rows[call % len(rows)] if count is None else rows[np.arange(call, call + count) % len(rows)]
        started = time.process_time()
        policy.act(observation)  # type: ignore[attr-defined]
        times.append(1e6 * (time.process_time() - started))
    return np.array(times[20:])


if __name__ == "__main__":
    sys.exit(main())
