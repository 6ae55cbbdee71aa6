"""Exact inference: what a trace costs with its gradient, and how that grows with its length and the procedures.

`update_ratio` is one update of the exact learner over one of HVIL, on the same batch. Everything runs on one thread and
is measured in processor time, which other programs on the machine do not change.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from hvil.data.tasks import find_task
from hvil.data.traces import Traces
from hvil.experiments.bench.timing import exponent, medians
from hvil.experiments.bench.updates import batch, learner, update
from hvil.learners.config import Config
from hvil.learners.exact import inference as exact
from hvil.learners.exact.cost import Limits
from hvil.learners.exact.objective import evaluated
from hvil.learners.exact.step_table import step_table
from hvil.learners.networks.policy import PolicyNetwork
from hvil.learners.settings import ExactSettings

ACTIONS = 5
"""As many as Karel has."""
LENGTH = 40
"""The length of the trace whose cost is given in seconds: about three times the mean length of Karel's program F."""
GRAPHS = {"tree:5x2": (40, 80, 160), "binary:6": (20, 40, 80), "complete:4": (10, 20, 40)}
"""Call graphs with one level of calls, with several, and with recursion to the maximum depth; lengths of the traces."""
PROCEDURES = (7, 15, 31, 63)
"""The sizes of full binary trees."""
LIMITS = Limits(longest_span=16, largest_counter=16)
"""With both limits the cost should grow linearly with the length."""


def measure_exact(repeats: int) -> dict[str, Any]:
    """Seconds of one trace of 40 actions under 6 procedures, exponents of growth, and updates over those of HVIL."""
    one = medians({"trace": _whole(_trace(LENGTH), "tree:5x2")}, max(repeats // 4, 3), time.process_time)
    few = max(repeats // 10, 2)
    by_length = {
        graph: _growth({length: _program(_trace(length), graph) for length in lengths}, few)
        for graph, lengths in GRAPHS.items()
    }
    limited = _growth({length: _program(_trace(length), "binary:6", LIMITS) for length in GRAPHS["tree:5x2"]}, few)
    procedures = _growth({n: _program(_trace(LENGTH), f"binary:{n}") for n in PROCEDURES}, few)
    return {
        "trace_40_seconds": one["trace"],
        "growth_length": {graph: growth[0] for graph, growth in by_length.items()},
        "growth_length_limited": limited[0],
        "growth_procedures": procedures[0],
        "length_ms": {graph: growth[1] for graph, growth in by_length.items()},
        "length_limited_ms": limited[1],
        "procedures_ms": procedures[1],
        "update_ratio": {program: _update_ratio(f"karel:{program}", few) for program in "ADF"},
    }


def _whole(traces: Traces, graph: str) -> Callable[[], object]:
    """Everything that an update of the exact learner does for a trace, except the step of Adam."""
    policy, config = _policy(traces, graph)

    def run() -> None:
        table, log_probs = evaluated(policy, traces, config)
        exact.log_likelihood(table, log_probs).sum().backward()  # type: ignore[no-untyped-call]

    return run


def _program(traces: Traces, graph: str, limits: Limits | None = None) -> Callable[[], object]:
    """The dynamic program alone: likelihood and expected counts, from a table that is made beforehand."""
    policy, config = _policy(traces, graph)
    table = step_table(config.graph, traces, limits)
    with torch.no_grad():
        log_probs = table.log_probs(policy, torch.tensor(traces.observations))
    return lambda: exact.posterior(table, log_probs)


def _policy(traces: Traces, graph: str) -> tuple[PolicyNetwork, Config]:
    torch.manual_seed(0)
    config = Config.of(traces, graph, ExactSettings(hidden=256))
    return PolicyNetwork(config), config


def _trace(length: int) -> Traces:
    """A random trace with the shapes of Karel; all observations differ, so that no rows are shared."""
    rng = np.random.default_rng(0)
    observations = rng.random((length + 1, 4), dtype=np.float32)
    return Traces.from_episodes([observations], [rng.integers(0, ACTIONS, length)], tuple("abcde"))


def _growth(runs: dict[int, Callable[[], object]], repeats: int) -> tuple[float, dict[int, float]]:
    seconds = medians({str(size): run for size, run in runs.items()}, repeats, time.process_time)
    milliseconds = {size: 1e3 * seconds[str(size)] for size in runs}
    return exponent(list(milliseconds), list(milliseconds.values())), milliseconds


def _update_ratio(spec: str, repeats: int) -> float:
    """One update of the exact learner over one of HVIL, 10 traces, six procedures."""
    source = find_task(spec)
    traces = batch(source, 10)
    seconds = medians(
        {
            name: update(learner(source, traces, "tree:5x2", {"hidden": 256, "model": name}), traces)
            for name in ("exact", "hvil")
        },
        repeats,
        time.process_time,
    )
    return seconds["exact"] / seconds["hvil"]


if __name__ == "__main__":
    import json

    torch.set_num_threads(1)
    print(json.dumps(measure_exact(20), indent=2))
