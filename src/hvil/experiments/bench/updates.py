"""The time of one update on each domain, and how it grows with trace length and procedures.

`floor_ratio` is the time of HVIL's update over that of its floor, a bare padded biLSTM forward and backward; below 1
HVIL is faster. `naive_ratio` is the time of the naive twin's update over that of HVIL's: what the compiled code gains.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from hvil.data.tasks import Task, find_task
from hvil.data.traces import Traces
from hvil.experiments.bench.timing import exponent, medians, padded_lstm_floor
from hvil.learners import build, settings_for
from hvil.learners.config import Config
from hvil.learners.hvil import HvilLearner
from hvil.learners.learner import Learner
from hvil.learners.naive import naive_loss

DOMAINS: dict[str, tuple[str, int, str | None, dict[str, Any]]] = {
    "bubblesort": ("bubblesort", 10, None, {"hidden": 100, "layers": 4}),
    "karel": ("karel:F", 10, "tree:5x3", {"hidden": 256, "layers": 2}),
    "mnist_parity": ("mnist-parity:0.7", 20, None, {"hidden": 64, "layers": 1, "network": "convnet"}),
}
"""For each domain: the task, the traces in the batch, the call graph (None: the task's own), the settings."""

LENGTHS = (32, 64, 128, 256, 512)
PROCEDURES = {1: "tree:5x1", 6: "tree:5x2", 31: "tree:5x3", 156: "tree:5x4"}


def update(learner: Learner, traces: Traces, loss: Callable[..., Any] | None = None) -> Callable[[], object]:
    """One whole update as the trainer does it: loss, gradient, Adam."""
    assert isinstance(learner, torch.nn.Module)
    optimiser = torch.optim.Adam(learner.parameters(), weight_decay=1e-3, fused=True)
    rng = np.random.default_rng(0)
    evaluate = learner.loss if loss is None else lambda *arguments: loss(learner, *arguments)

    def run() -> None:
        optimiser.zero_grad(set_to_none=True)
        evaluate(traces, rng, 0).total.backward()
        optimiser.step()

    return run


def domain_updates(name: str, repeats: int) -> dict[str, float]:
    """Milliseconds of all alternatives on one domain, and their ratios."""
    spec, count, graph, settings = DOMAINS[name]
    source = find_task(spec)
    traces = batch(source, count)
    hvil = learner(source, traces, graph, settings)
    assert isinstance(hvil, HvilLearner)
    inputs = hvil.posterior.past.input_size
    rows = traces.observations.reshape(len(traces.observations), -1).astype(np.float32)
    floor = padded_lstm_floor(rows, traces.lengths + 1, inputs, hvil.config.model.context)
    fast = medians(
        {
            "update": update(hvil, traces),
            "floor": floor,
            "lstm": update(learner(source, traces, graph, settings | {"model": "lstm"}), traces),
        },
        repeats,
    )
    naive = medians({"update": update(hvil, traces), "naive": update(hvil, traces, naive_loss)}, max(repeats // 20, 1))
    return {
        "update_ms": 1e3 * fast["update"],
        "floor_ms": 1e3 * fast["floor"],
        "floor_ratio": fast["update"] / fast["floor"],
        "naive_ms": 1e3 * naive["naive"],
        "naive_ratio": naive["naive"] / naive["update"],
        "lstm_update_ms": 1e3 * fast["lstm"],
        "actions": float(len(traces.actions)),
    }


def growth_with_length(repeats: int) -> tuple[float, dict[int, float]]:
    """Exponent of the update's time over the length of the traces, and milliseconds at each length."""
    source = find_task("bubblesort")
    rng = np.random.default_rng(0)
    runs = {}
    for length in LENGTHS:
        observations = [rng.random((length + 1, len(source.observation_names)), dtype=np.float32) for _ in range(10)]
        actions = [rng.integers(0, len(source.action_names), length) for _ in range(10)]
        traces = Traces.from_episodes(observations, actions, source.action_names)
        runs[str(length)] = update(learner(source, traces, None, {"hidden": 100}), traces)
    seconds = medians(runs, repeats)
    milliseconds = {length: 1e3 * seconds[str(length)] for length in LENGTHS}
    return exponent(LENGTHS, list(milliseconds.values())), milliseconds


def growth_with_procedures(repeats: int) -> tuple[float, dict[int, float]]:
    """Exponent of the update's time over the number of procedures, and milliseconds at each."""
    source = find_task("karel:F")
    traces = batch(source, 10)
    runs = {str(n): update(learner(source, traces, g, {"hidden": 256}), traces) for n, g in PROCEDURES.items()}
    seconds = medians(runs, repeats)
    milliseconds = {count: 1e3 * seconds[str(count)] for count in PROCEDURES}
    return exponent(list(milliseconds), list(milliseconds.values())), milliseconds


def batch(source: Task, count: int) -> Traces:
    """A batch as the trainer cuts it: without metadata and annotations."""
    return replace(source.demonstrations(count, seed=0), metadata={}, annotations=None)


def learner(source: Task, traces: Traces, graph: str | None, settings: dict[str, Any]) -> Learner:
    """A new learner for a batch; settings that it does not have are left out."""
    model = settings_for(settings.get("model", "hvil"), settings)
    made: Learner = build(Config.of(traces, graph or source.default_call_graph, model))
    return made
