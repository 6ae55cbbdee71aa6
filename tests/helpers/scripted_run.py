"""A run whose policy follows the teacher's own call structure, but for chosen mistakes: a report without training."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hvil.data.sources import Data
from hvil.data.tasks import Task, find_task
from hvil.data.traces import Traces
from hvil.learners.config import Config
from hvil.learners.hvil import HvilLearner
from hvil.learners.networks.runner import PhpStep, ProcedurePolicy
from hvil.learners.settings import HvilSettings
from hvil.machine import reference
from hvil.training.run import Run


class ScriptedPolicy(ProcedurePolicy):
    """Takes the annotated steps of one trace after another; where told so, it swaps instead and goes on."""

    def __init__(self, learner: HvilLearner, traces: Traces, mistakes: Sequence[int]) -> None:
        self.traces, self.mistakes, self.episode = traces, mistakes, -1
        super().__init__(learner.policy_network)

    def reset(self, count: int | None = None, seed: int = 0) -> None:
        super().reset(count, seed)
        # The constructor resets too, before the first episode.
        self.episode = min(self.episode + 1, len(self.traces))
        self.script: list[int] = []
        self.now = reference.start(self.graph)
        if self.episode:
            trace = self.traces[self.episode - 1 : self.episode]
            assert trace.annotations is not None
            stacks, kept = trace.annotations.stacks, trace.annotations.kept
            names = [self.graph.procedures.index(name) for name in trace.annotations.procedures]
            rows = [[names[p] for p in row if p >= 0] for row in stacks]
            self.script = list(reference.structure_from_stacks(self.graph, trace.actions.tolist(), rows, kept.tolist()))

    def watch(self, observation: np.ndarray) -> list[PhpStep]:
        steps: list[PhpStep] = []
        while self.script and not (steps and steps[-1].choice < self.graph.terminate):
            choice = self.script.pop(0)
            possible = reference.policy_steps(self.graph, self.now)
            if choice == 1 and self.episode - 1 in self.mistakes:
                choice = 4
            probabilities = np.full(self.graph.step_count, np.nan)
            probabilities[possible] = 0.1 / max(1, len(possible) - 1)
            probabilities[choice] = 0.9
            steps.append(PhpStep(self.now[-1], len(self.now), choice, probabilities))
            self.now = reference.step(self.graph, self.now, choice)
        return steps


class ScriptedLearner(HvilLearner):
    """Untrained, with a scripted policy."""

    def __init__(self, config: Config, traces: Traces, mistakes: Sequence[int]) -> None:
        super().__init__(config)
        self.script = traces, mistakes

    def policy(self) -> ProcedurePolicy:
        return ScriptedPolicy(self, *self.script)


def scripted_run(
    directory: Path | None, count: int = 6, mistakes: Sequence[int] = (1, 3), lengths: str = "3-5"
) -> tuple[Run, Task]:
    """A bubble-sort run in which the traces of `mistakes` fail and the others succeed."""
    known = find_task(f"bubblesort:{lengths}")
    traces = known.demonstrations(count, seed=3)
    config = Config.of(traces, known.default_call_graph, HvilSettings(hidden=8, context=4))
    run = Run(config, ScriptedLearner(config, traces, mistakes), directory, updates=7, seconds=1.5)
    run.data = Data(traces, traces, known)
    return run, known


def hostile_traces(name: str) -> Traces:
    """Traces from nowhere, all of whose names are the given text and a number."""
    rng = np.random.default_rng(0)
    traces: list[Any] = [rng.integers(0, 2, size=length) for length in (2, 3, 4, 5, 4, 3, 2, 6)]
    return Traces.from_episodes(
        [np.eye(2, dtype=np.float32)[[*actions, 0]] for actions in traces],
        traces,
        action_names=[f"{name} a", f"{name} b"],
        observation_names=[f"{name} o", f"{name} p"],
        attributes={"task": name},
    )


def without_task(traces: Traces) -> Traces:
    """The same traces, from no known environment."""
    return replace(traces, attributes={}, metadata={})
