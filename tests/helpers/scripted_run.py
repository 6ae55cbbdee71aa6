"""A run whose policy follows the teacher's own call structure, but for chosen mistakes: a report without training."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hvil.analysis.explain import Explanation
from hvil.analysis.explain.program import Program
from hvil.analysis.explain.vocabulary import vocabulary
from hvil.data.sources import Data, task_of
from hvil.data.tasks import Task, find_task
from hvil.data.traces import Traces
from hvil.learners.config import Config
from hvil.learners.hvil import HvilLearner
from hvil.learners.networks.runner import ProcedurePolicy
from hvil.learners.settings import HvilSettings
from hvil.machine import reference
from hvil.machine.batched import Tops
from hvil.training.run import Run

PTR1_RIGHT, SWAP = 1, 4


class ScriptedPolicy(ProcedurePolicy):
    """Takes the annotated steps of given traces, played side by side; where told so, it swaps instead and goes on."""

    def __init__(self, learner: HvilLearner, traces: Traces, mistakes: Sequence[int]) -> None:
        super().__init__(learner.policy_network)
        self._turns = self._schedule([self._script(trace, i in mistakes) for i, trace in enumerate(traces)])
        self._said: dict[tuple[Any, ...], int] = {}

    def _script(self, trace: Traces, mistaken: bool) -> list[list[int]]:
        """The steps of each time."""
        assert trace.annotations is not None
        names = [self.graph.procedures.index(name) for name in trace.annotations.procedures]
        rows = [[names[p] for p in row if p >= 0] for row in trace.annotations.stacks]
        kept = trace.annotations.kept.tolist()
        times: list[list[int]] = [[]]
        for choice in reference.structure_from_stacks(self.graph, trace.actions.tolist(), rows, kept):
            times[-1].append(SWAP if mistaken and choice == PTR1_RIGHT else choice)
            if choice < self.graph.terminate:
                times.append([])
        return times

    @staticmethod
    def _schedule(scripts: list[list[list[int]]]) -> Iterator[list[int]]:
        """The choices that are asked for together: of all episodes that still have a step to take at a time."""
        for time in range(max(map(len, scripts))):
            steps = [script[time] for script in scripts if time < len(script)]
            for turn in range(max(map(len, steps))):
                yield [each[turn] for each in steps if turn < len(each)]

    def choices(self, features: np.ndarray, tops: Tops) -> np.ndarray:
        choices = next(self._turns)
        for row, frame, choice in zip(features, zip(*tops, strict=True), choices, strict=True):
            self._said[row.tobytes(), frame] = choice
        return np.array(choices)

    def step_probabilities(self, features: np.ndarray, tops: Tops) -> np.ndarray:
        """0.9 for what was said last in the same situation; the rest is shared."""
        possible = self.network.possible(tops.procedure, tops.counter, tops.depth)
        shared = np.where(possible, 0.1 / np.maximum(1, possible.sum(axis=1, keepdims=True) - 1), np.nan)
        for i, (row, frame) in enumerate(zip(features, zip(*tops, strict=True), strict=True)):
            shared[i, self._said[row.tobytes(), frame]] = 0.9
        return shared


class ScriptedLearner(HvilLearner):
    """Untrained, with a scripted policy."""

    def __init__(self, config: Config, traces: Traces, mistakes: Sequence[int]) -> None:
        super().__init__(config)
        self.script = traces, mistakes

    def policy(self) -> ProcedurePolicy:
        return ScriptedPolicy(self, *self.script)


class ScriptedExplanation(Explanation):
    """A program that is written down instead of extracted."""

    text = ""


def scripted_explanation(
    text: str, config: Config, policy_agreement: float = 1.0, teacher_agreement: float = 1.0
) -> Explanation:
    """An explanation with this text and these agreements, in the words of a configuration."""
    task, graph = task_of(config.task), config.graph
    words = vocabulary(graph, task, config.observation_names, math.prod(config.observation_shape))
    explanation = ScriptedExplanation(
        policy_agreement=policy_agreement,
        teacher_agreement=teacher_agreement,
        episodes=1000,
        unused=(),
        task=None if task is None else task.name,
        program=Program(graph.root, graph.terminate, {graph.root: ()}),
        words=words,
        graph=graph,
    )
    explanation.__dict__["text"] = text
    return explanation


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
