"""Policies of procedures that are written down instead of learned: a Python function a procedure."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hvil.data.sources import Data
from hvil.data.traces import Traces
from hvil.domains.karel import ACTIONS
from hvil.learners.config import Config
from hvil.learners.hvil import HvilLearner
from hvil.learners.networks.runner import ProcedurePolicy
from hvil.learners.settings import HvilSettings
from hvil.machine.batched import Tops
from hvil.machine.callgraph import CallGraph, call_graph
from hvil.training.run import Run

RETURN = "return"
Procedure = Callable[[Mapping[str, bool], int, str | None], str]
"""From what is observed, the counter and the last step to the next step, by name."""

KAREL_NAMES = ("front", "left", "right", "markers")


class TablePolicy:
    """A policy whose procedures are functions of named observations and the frame."""

    def __init__(self, graph: CallGraph, names: tuple[str, ...], procedures: Mapping[str, Procedure]) -> None:
        self.graph, self.names, self.procedures = graph, names, procedures

    def choices(self, features: np.ndarray, tops: Tops) -> np.ndarray:
        return np.array([self._choice(row, *top) for row, *top in zip(features, *tops[:3], strict=True)])

    def _choice(self, row: np.ndarray, procedure: int, counter: int, last: int) -> int:
        graph = self.graph
        step_names = [*graph.action_names, RETURN, *(graph.procedures[callee] for callee in graph.calls[procedure])]
        observed: dict[str, Any] = {name: bool(value > 0.5) for name, value in zip(self.names, row, strict=True)}
        before = step_names[last] if last >= 0 else None
        return step_names.index(self.procedures[graph.procedures[procedure]](observed, int(counter), before))


def karel_policy(procedures: Mapping[str, Procedure], calls: Mapping[str, list[str]]) -> TablePolicy:
    """A policy for Karel; the first procedure is the root."""
    graph = call_graph({"procedures": {name: {"calls": calls.get(name, [])} for name in procedures}}, ACTIONS)
    return TablePolicy(graph, KAREL_NAMES, procedures)


def program_f(redundant: bool = False) -> TablePolicy:
    """Karel's program F in two procedures; `redundant`: the root calls a copy, or acts by itself, by its counter."""

    def root(observed: Mapping[str, bool], counter: int, last: str | None) -> str:
        if counter == 0:
            return "turnRight"
        if observed["markers"]:
            return RETURN
        if redundant and counter % 3 == 1:
            return decide(observed, 0, None)
        return "copy" if redundant and counter % 3 == 2 else "step"

    def decide(observed: Mapping[str, bool], counter: int, last: str | None) -> str:
        if counter:
            return RETURN
        return "move" if observed["front"] else "turnRight" if observed["right"] else "turnLeft"

    procedures = {"root": root, "step": decide, "copy": decide, "spare": decide}
    return karel_policy(procedures, {"root": ["step", "copy", "spare"]})


def flat_teacher(name: str) -> TablePolicy:
    """The programs of the paper in one procedure, by frame and observation."""

    def root(observed: Mapping[str, bool], counter: int, last: str | None) -> str:
        if counter == 0:
            return "turnRight"
        turned = {"A": "turnRight", "B": "turnLeft"}.get(name)
        if turned and last == "move" and observed["right" if name == "A" else "left"]:
            return turned
        if name == "C" and counter > 1 and last == "turnRight":
            return "move"
        if observed["markers"]:
            return RETURN
        if name == "C" and observed["right"]:
            return "turnRight"
        if name in "ABC" or observed["front"]:
            return "move"
        if name == "F":
            return "turnRight" if observed["right"] else "turnLeft"
        return "turnLeft" if name == "D" else "turnRight"

    return karel_policy({"root": root}, {})


class WrittenPolicy(ProcedurePolicy):
    """Of an untrained network, but its steps are those of a policy that is written down."""

    def __init__(self, learner: HvilLearner, written: TablePolicy) -> None:
        super().__init__(learner.policy_network)
        self.written = written

    def choices(self, observations: np.ndarray, tops: Tops) -> np.ndarray:
        return self.written.choices(observations, tops)


class WrittenLearner(HvilLearner):
    """Untrained, with a policy that is written down."""

    def __init__(self, config: Config, written: TablePolicy) -> None:
        super().__init__(config)
        self.written = written

    def policy(self) -> ProcedurePolicy:
        return WrittenPolicy(self, self.written)


def table_run(policy: TablePolicy, traces: Traces, test: Traces, directory: Path | None = None) -> Run:
    """A run with a policy that is written down: what it does is known without training."""
    config = Config.of(traces, policy.graph.to_mapping(), HvilSettings(hidden=4, context=4))
    run = Run(config, WrittenLearner(config, policy), directory)
    run.data = Data(traces, test, None)
    return run


def lamp_traces(count: int) -> Traces:
    """Push until the lamp is lit; what is observed: the lamp, and a number that means nothing."""
    rng = np.random.default_rng(0)
    observations, actions = [], []
    for _ in range(count):
        pushes = int(rng.integers(1, 6))
        lamp = np.array([0.0] * pushes + [1.0])
        observations.append(np.column_stack([lamp, rng.random(pushes + 1)]).astype(np.float32))
        actions.append(np.zeros(pushes, dtype=np.int32))
    names = ("push <it>", "wait")
    return Traces.from_episodes(observations, actions, action_names=names, observation_names=("lamp 'lit'", "noise"))


def lamp_policy(traces: Traces) -> TablePolicy:
    """Takes the first action until the lamp is lit."""
    graph = call_graph({"procedures": {"<b>root": {"calls": []}}}, traces.action_names)

    def root(observed: Mapping[str, bool], counter: int, last: str | None) -> str:
        return RETURN if counter and observed["lit"] else traces.action_names[0]

    return TablePolicy(graph, ("lit", "noise"), {"<b>root": root})
