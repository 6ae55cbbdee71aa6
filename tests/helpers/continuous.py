"""Small learners and traces with continuous actions, and sums over call structures in plain Python."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hvil.data.traces import ACT, Traces
from hvil.learners.config import Config
from hvil.learners.hvil import HvilLearner
from hvil.learners.naive import feature_rows, log_density, log_probs
from hvil.learners.settings import HvilSettings
from hvil.machine import reference
from hvil.machine.callgraph import CallGraph, call_graph

WIDTH = 3
NUMBERS = ("fx", "fy")

GRAPHS: dict[str, CallGraph] = {
    "tree": call_graph("tree:2x2", (ACT,)),
    "recursive": replace(call_graph("complete:2", (ACT,)), max_depth=3),
    "options": CallGraph(
        ("root", "left", "right", "mute"),
        (ACT,),
        calls=((1, 2, 3), (2,), (0, 1), ()),
        acts=((), (0,), (0,), ()),
        max_depth=3,
    ),
}
"""Trees and cycles; the last has a root that only calls, and a procedure that can do nothing."""


def vector_traces(lengths: Sequence[int], seed: int = 0, equal: bool = False, **changed: Any) -> Traces:
    """Random observations and vectors; `equal`: all observations are the same, so that only vectors differ."""
    rng = np.random.default_rng(seed)
    observations = [np.zeros((n + 1, WIDTH)) if equal else rng.normal(size=(n + 1, WIDTH)) for n in lengths]
    vectors = [rng.normal(size=(n, len(NUMBERS))) * [2.0, 0.3] + [5.0, 0.0] for n in lengths]
    traces = Traces.from_episodes(observations, vectors, NUMBERS)
    return replace(traces, **changed) if changed else traces


def vector_config(graph: CallGraph, traces: Traces, model: Any = None, **settings: Any) -> Config:
    """A configuration of a small learner."""
    return Config.of(traces, graph, model or HvilSettings(**{"hidden": 5, "context": 3, **settings}))


def vector_learner(graph: CallGraph, traces: Traces, seed: int = 0, **settings: Any) -> HvilLearner:
    """A small learner whose weights are large enough for distributions that are far from uniform."""
    torch.manual_seed(seed)
    learner = HvilLearner(vector_config(graph, traces, **settings))
    with torch.no_grad():
        for parameter in learner.parameters():
            parameter *= 2
        head = learner.policy_network.head
        assert head is not None
        head.log_excess += 0.3 * torch.randn_like(head.log_excess)
    return learner


def joint(learner: HvilLearner, trace: Traces, structure: Sequence[int]) -> Tensor:
    """Log p(z, x) of one structure, step by step, densities included."""
    graph, features = learner.config.graph, feature_rows(learner, trace)
    total = torch.zeros((), dtype=torch.float64)
    for (stack, time), choice in zip(
        reference.replay(graph, trace.actions.tolist(), structure), structure, strict=True
    ):
        bank, possible = learner.policy_network.bank, reference.policy_steps(graph, stack)
        total = total + log_probs(bank, learner, features[time], stack[-1], possible)[choice].double()
        if choice < graph.terminate:
            total = total + log_density(learner, features[time], stack[-1], trace, time).double()
    return total


def joints(learner: HvilLearner, trace: Traces) -> Tensor:
    """Log p(z, x) of every structure."""
    structures = reference.structures(learner.config.graph, trace.actions.tolist())
    return torch.stack([joint(learner, trace, structure) for structure in structures])
