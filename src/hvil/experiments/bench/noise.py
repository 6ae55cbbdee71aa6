"""How noisy the gradient of the posterior is: each estimator with each baseline, at three points of a training run.

The batch stays the same, so all spread comes from the sampled call structures. `noise_to_signal` is the root of the
gradient's total variance over the norm of its mean; `variance_ratio` is the variance without a baseline over that with
leave-one-out, both with two walks of each trace.

Letters: G gradients, P parameters of the posterior.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from hvil.data.tasks import find_task
from hvil.data.traces import Traces
from hvil.experiments.bench.updates import batch, learner
from hvil.learners.hvil import HvilLearner
from hvil.training.loop import seeded

POINTS = (0, 250, 1_000)
"""Updates after which the noise is measured: at the start, while structure forms, and when a structure has formed."""
SAMPLES = 2
DRAWS = 40
"""Gradients for each measurement: enough for a standard error of the variance of about a fifth."""
ESTIMATORS = ("score", "analytic", "rao-blackwell")
BASELINES = ("none", "others", "leave-one-out")


def gradient_noise() -> dict[str, Any]:
    """Noise to signal by update, estimator and baseline, on a batch of bubble sort with entropy weight 1."""
    source = find_task("bubblesort")
    traces = batch(source, 10)
    settings = {"hidden": 100, "samples": SAMPLES, "baseline": "leave-one-out"}
    trained = seeded(0, lambda: learner(source, traces, None, settings))
    assert isinstance(trained, HvilLearner)
    optimiser = torch.optim.Adam(trained.parameters(), weight_decay=1e-3, fused=True)
    rng = np.random.default_rng(0)
    result: dict[str, Any] = {"noise_to_signal": {}, "variance_ratio": {}}
    for update in range(max(POINTS) + 1):
        if update in POINTS:
            drawn = {(e, b): _gradients(trained, traces, e, b) for e in ESTIMATORS for b in BASELINES}
            signal = np.linalg.norm(drawn["rao-blackwell", "leave-one-out"].mean(axis=0))
            variance = {key: float(gradients.var(axis=0, ddof=1).sum()) for key, gradients in drawn.items()}
            result["noise_to_signal"][str(update)] = {
                estimator: {b: float(np.sqrt(variance[estimator, b]) / signal) for b in BASELINES}
                for estimator in ESTIMATORS
            }
            quiet = variance["rao-blackwell", "leave-one-out"]
            result["variance_ratio"][str(update)] = variance["rao-blackwell", "none"] / quiet
        optimiser.zero_grad(set_to_none=True)
        trained.loss(traces, rng, update).total.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return result


def _gradients(trained: HvilLearner, traces: Traces, estimator: str, baseline: str) -> Float[np.ndarray, "G P"]:
    """Gradients of the posterior's parameters, each from new samples of the same traces."""
    config, rng = trained.config, np.random.default_rng(1)
    trained.config = replace(config, model=replace(config.model, estimator=estimator, baseline=baseline))
    parameters = list(trained.posterior.parameters())
    try:
        parts = [torch.autograd.grad(trained.loss(traces, rng, 0).total, parameters) for _ in range(DRAWS)]
    finally:
        trained.config = config
    return np.stack([torch.cat([part.flatten() for part in gradient]).double().numpy() for gradient in parts])
