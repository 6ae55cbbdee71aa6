"""Where the time of one HVIL update goes: the phases of the update, timed one by one on the bubble-sort batch.

These are milliseconds, not ratios; `updates` has the ratios of whole updates.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hvil.data.tasks import find_task
from hvil.experiments.bench.updates import DOMAINS, batch, learner
from hvil.learners.hvil import HvilLearner
from hvil.learners.networks.batch import Batch, prepare
from hvil.learners.networks.posterior import Evaluated
from hvil.learners.objective.compiled import compiled_objective
from hvil.machine.steps import Walk


def profile(repeats: int) -> dict[str, float]:
    """Median milliseconds of each phase, in the order they run."""
    spec, count, graph, settings = DOMAINS["bubblesort"]
    source = find_task(spec)
    traces = batch(source, count)
    hvil = learner(source, traces, graph, settings)
    assert isinstance(hvil, HvilLearner)
    optimiser = torch.optim.Adam(hvil.parameters(), weight_decay=1e-3, fused=True)
    rng = np.random.default_rng(0)
    seconds: dict[str, list[float]] = {}

    def timed(name: str, run: Callable[..., Any], *arguments: Any) -> Any:
        start = time.perf_counter()
        result = run(*arguments)
        seconds.setdefault(name, []).append(time.perf_counter() - start)
        return result

    def walked(inputs: Batch, context: Tensor) -> tuple[Walk, Evaluated]:
        uniforms = hvil.posterior.uniforms(inputs, rng)
        return hvil.posterior.walk_compiled(inputs, context, uniforms)

    def objective(inputs: Batch, context: Tensor, walk: Walk, evaluated: Evaluated) -> Tensor:
        networks = hvil.policy_network, hvil.posterior
        free = np.zeros(len(walk.steps.counter), dtype=np.float32)
        return compiled_objective(*networks, inputs, context, walk, evaluated, "rao-blackwell", 1.0, "none", free).loss

    for _ in range(repeats + 2):
        inputs = timed("prepare the batch", prepare, traces, hvil.config, hvil.device)
        context = timed("context (two LSTMs)", hvil.posterior.context, inputs)
        walk = timed("walk", walked, inputs, context)
        loss = timed("objective and its gradient to the context", objective, inputs, context, *walk)
        optimiser.zero_grad(set_to_none=True)
        timed("gradient through the LSTMs", loss.backward)
        timed("Adam", optimiser.step)
    return {name: 1e3 * float(np.median(values[2:])) for name, values in seconds.items()}
