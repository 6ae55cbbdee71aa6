"""A run: a learner with its configuration, in memory or in a directory. `fit` makes runs, `load` opens them.

The training writes `config.json`, `run.toml` (`recipe`), `model.safetensors`, `checkpoint/`, `metrics.jsonl` and, if
asked for, `tensorboard/`. `Run.explain` writes `explanation.json`, `Run.report` writes `report.html`. The command line
adds `evaluation.json`; for data of one's own also `baselines.json` and a run directory for each baseline. `card` writes
`README.md`. A run whose traces came from Python holds these too (`traces.npz`, `test.npz`, `validation.npz`).
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hvil.analysis.episodes import ChoosesSteps
from hvil.analysis.evaluation import Evaluation, evaluate
from hvil.analysis.explain import EPISODES, FRESH, Explanation, ProgramPolicy, explain, explanation_file
from hvil.data import trace_files
from hvil.data.reading import NO_READING
from hvil.data.sources import Data, Source, load_data, task_of, traces_from
from hvil.data.tasks import Task
from hvil.data.traces import Traces
from hvil.gate.border import Outside, given_directory, has_file
from hvil.gate.errors import InputError
from hvil.gate.files import read_json, write_json
from hvil.learners import build
from hvil.learners.config import Config
from hvil.learners.learner import Learner, Policy
from hvil.training.loop import seeded
from hvil.training.observers import read_metrics
from hvil.training.plan import Plan
from hvil.training.run_files import CONFIG, EXPLANATION, METRICS, MODEL, TEST, TRACES, VALIDATION
from hvil.training.source_notes import limits_of, noted_source, task_of_run, write_note
from hvil.training.weights import (
    check_weights,
    copy_weights,
    load_weights,
    read_weights,
    save_weights,
    weights_digest,
)

if TYPE_CHECKING:
    from hvil.analysis.report import Report


class _Ground(NamedTuple):
    """Where a policy is run to explain it: in a task's environment, or along traces."""

    task: Task | None
    traces: Traces | None = None
    measure: Traces | None = None


@dataclass
class Run:
    """A learner and where it comes from."""

    config: Config
    learner: Learner
    path: Path | None = None
    """The run directory; None if the run is in memory only."""
    updates: int = 0
    seconds: float = 0.0
    """Wall time of the training."""
    plan: Plan | None = None
    """Why the settings are what they are; None for a run that was opened from its directory."""
    source: str | None = None
    """The source of its traces, if the user named it to open a run that somebody else trained."""

    @property
    def policy(self) -> Policy:
        """The learned policy: `reset`, `act`, `wrong`."""
        return self.learner.policy()

    @cached_property
    def program(self) -> ProgramPolicy:
        """The learned policy as a program that acts: `reset`, `act`, `wrong`.

        It is the program of the explanation that the directory keeps. Where there is none of these weights, it is
        found now.

        Raises:
            InputError: the policy has no procedures, or there is nothing to run it on.
        """
        return (self._kept_explanation() or self.explain()).policy(self.config.reader)

    @property
    def kept_explanation(self) -> Explanation | None:
        """The explanation of these weights that the directory keeps; None if there is none yet."""
        return self._kept_explanation()

    @property
    def task(self) -> Task | None:
        """The task that the run is about, if it can be made here."""
        source = self.config.data.source
        return (
            task_of(self.config.task, named=True) if self.source else task_of_run(self.path, source, self.config.task)
        )

    @cached_property
    def data(self) -> Data:
        """The traces that the run was trained and is tested on, loaded again as the configuration says.

        Raises:
            InputError: they came from Python and were not stored, or their file is gone.
        """
        return stored_data(self.path, self.config, self.source)

    @property
    def knows_data(self) -> bool:
        """Whether the traces can be loaded; it loads them to find out."""
        try:
            _ = self.data
        except InputError:
            return False
        return True

    def at_depth(self, depth: int) -> "Run":
        """The same run with the same weights, whose stack may be `depth` procedures high.

        No network sees the maximum depth. A program that calls itself can therefore go deeper than in its training:
        the policy of the new run, its evaluation and its explanation are those of the deeper stack.

        Raises:
            InputError: the run has no call stack, or the stack of its call graph can never be so high.
        """
        if not isinstance(self.policy, ChoosesSteps):
            raise InputError(f"depth {depth}: a run of {self.config.learner} has no call stack")
        config = replace(self.config, graph=self.config.graph.at_depth(depth))
        learner = seeded(config.training.seed, lambda: build(config))
        copy_weights(self.learner, learner)
        run = replace(self, config=config, learner=learner)
        if "data" in self.__dict__:
            run.data = self.data  # traces from Python cannot be loaded again
        return run

    def evaluate(
        self,
        traces: Source = None,
        rollouts: bool = True,
        *,
        depth: int | None = None,
        program: bool = False,
    ) -> Evaluation:
        """Error rates, roll-outs and structure on test traces.

        Args:
            traces: what to test on: traces, or a source such as a file or a data frame, which is read as the run reads
                its own; by default the test traces of the run's own source.
            rollouts: whether to roll out in the task's environment.
            depth: how high the stack may be, if it is not as in training (`at_depth`).
            program: evaluate the program in place of the network; it has errors and roll-outs alone.
        """
        if depth is not None:
            return self.at_depth(depth).evaluate(traces, rollouts, program=program)
        if traces is None:
            traces = self.data.test
        if traces is None:
            raise InputError("this run has no test traces; name a source")
        if not isinstance(traces, Traces):
            traces = traces_from(traces, self.config.data, self.config.reading or NO_READING)
        traces = self.config.matched(traces)
        # Only traces with their initial states can be rolled out.
        task = self._task_of(traces) if rollouts and traces.metadata else None
        training = self.data.training if self.knows_data else None
        if program:
            return replace(evaluate(self.program, traces, training, task), policy="program")
        return evaluate(self.learner, traces, training, task, self.config.graph.procedures)

    def _task_of(self, traces: Traces) -> Task | None:
        """The task that traces say they are from; the run's own task is already known."""
        name = traces.attributes.get("task")
        return self.task if name == self.config.task else task_of(name)

    def explain(
        self,
        task: Task | None = None,
        traces: Traces | None = None,
        *,
        inline: bool = False,
        faithful: bool = False,
        karel: bool = False,
        episodes: int = EPISODES,
        fresh: int = FRESH,
        seed: int = 0,
        again: bool = False,
        progress: Callable[[float], None] | None = None,
    ) -> Explanation:
        """What the policy learned, as a program.

        A run in a directory keeps its explanation there (`explanation.json`). The same weights and options are not
        rolled out a second time.

        Args:
            task: where to roll the policy out; by default in the run's own task.
            traces: without a task, what to run the policy along; by default the run's own training traces, with its
                test traces to measure on.
            inline: write procedures that are called at one point only, or take a single step, where they are called.
            faithful: keep what no training trace asks for, so that the program says all that the policy does.
            karel: also give the program in the Karel language.
            episodes: roll-outs to extract from.
            fresh: other roll-outs to measure on.
            seed: of the roll-outs' initial states.
            again: explain anew even if the directory has the explanation.
            progress: called now and then with the share of the work that is done.
        """
        ground = self._ground() if task is None and traces is None else _Ground(task, traces)
        options: dict[str, Any] = {
            "inline": inline,
            "faithful": faithful,
            "episodes": episodes,
            "fresh": fresh,
            "seed": seed,
        }
        stored = None if again else self._kept_explanation(ground, options)
        if stored is not None and (stored.karel is not None or not karel):
            return stored
        explanation = explain(
            self.policy,
            **ground._asdict(),
            training=self._fitting_training_traces(),
            observation_names=self.config.observation_names,
            reading=self.config.reading,
            karel=karel,
            progress=progress,
            **options,
        )
        if self.path is not None:
            explanation_file.save(self.path / EXPLANATION, explanation, self._subject(ground), options)
        return explanation

    def _fitting_training_traces(self) -> Traces | None:
        """The training traces, if the run has them, and they are still those of its configuration."""
        try:
            self.config.check(self.data.training)
        except InputError:
            return None
        return self.data.training

    def _ground(self) -> "_Ground":
        """Where the policy is run to explain it, if the caller does not say so."""
        task = self.task
        return _Ground(task) if task else _Ground(None, self.data.training, self.data.test)

    def _kept_explanation(
        self, ground: "_Ground | None" = None, options: Mapping[str, Any] | None = None
    ) -> Explanation | None:
        """The explanation of these weights in the directory; with these options, or with any."""
        file = None if self.path is None else self.path / EXPLANATION
        if file is None or not file.is_file():
            return None
        ground = ground or self._ground()
        subject, names = self._subject(ground), self.config.observation_names
        return explanation_file.load(file, subject, options, self.config.graph, ground.task, names, self.config.reading)

    def _subject(self, ground: "_Ground") -> dict[str, Any]:
        """What an explanation is of, as JSON."""
        task, *traces = ground
        return {
            "configuration": self.config.digest,
            "weights": weights_digest(self.learner),
            "task": None if task is None else [task.name, task.contents],
            "traces": [None if each is None else fingerprint(each) for each in traces],
        }

    def report(self, out: str | os.PathLike[str] | None = None, *, episodes: int = 12) -> "tuple[Path, Report]":
        """Write one HTML page about the run, by default as `report.html` into its directory.

        Args:
            out: where to write.
            episodes: how many episodes the page's player offers, at most.

        Raises:
            InputError: no traces are there to play from, or a file of the run cannot be read.
        """
        from hvil.training.report import write_report  # for start-up speed: it draws pictures and reads assets

        return write_report(self, out, episodes=episodes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a run that is in memory to a new directory."""
        path = Path(path)
        if path.exists():
            raise InputError(f"{path}: exists already; choose another directory")
        path.mkdir(parents=True)
        write_json(path / CONFIG, self.config.to_mapping())
        write_note(path, self.config.data.source)
        if not self.config.data.source and "data" in self.__dict__:
            store_data(path, self.data)
        save_weights(path / MODEL, self.learner, self.updates)
        self.path = path

    def __repr__(self) -> str:
        what = f"{self.config.learner} of {self.config.task or 'traces'}, {self.updates} updates"
        return f"Run({what}{f', in {self.path}' if self.path else ''})"


def load(path: str | os.PathLike[str], source: str | None = None) -> Run:
    """Open a run directory.

    Args:
        path: the directory.
        source: where its traces are. A run that you trained knows it; for somebody else's run whose traces are in a
            file of yours, name it.

    Raises:
        InputError: it is none, or its model is missing, truncated, not finite or of another configuration.
    """
    path = Path(path)
    if not os.path.lexists(path / CONFIG):
        raise InputError(f"{path}: not a run directory (it has no {CONFIG})")
    given_directory(path)
    config = read_config(path)
    check_weights(path / MODEL, read_weights(path / MODEL), lambda: build(config))
    learner = seeded(config.training.seed, lambda: build(config))
    updates = load_weights(path / MODEL, learner)
    times = [line["seconds"] for line in read_metrics(path / METRICS) if line.get("seconds") is not None]
    return Run(config, learner, path, updates=updates, seconds=float(times[-1]) if times else 0.0, source=source)


def stored_data(path: Path | None, config: Config, named: str | None = None) -> Data:
    """The traces of a configuration: from its source or, if they came from Python, from the files of a directory.

    Args:
        path: the run directory.
        config: the run's.
        named: the source, if the user or our own process names it; else the run's own note counts.

    Raises:
        InputError: the source is gone, or elsewhere and never named by this user; or there are no traces.
    """
    source = config.data.source
    if named or source:
        found = named or noted_source(path, source) or source
        try:
            with nullcontext() if named else limits_of(path, source):
                reading = config.reading or NO_READING
                return load_data(found, config.data, config.training.seed, reading=reading)
        except Outside as error:
            raise InputError(
                f"{path}: the traces of this run are elsewhere, in {source}; to have them read, name them: --source "
                f"{source} (in Python: hvil.load({str(path)!r}, source={source!r}))"
            ) from error
    if path is None or not has_file(path / TRACES):
        raise InputError("this run does not know its traces: they were given from Python; name a source")
    training, test, validation = (_load_if_there(path / name) for name in (TRACES, TEST, VALIDATION))
    assert training is not None
    return Data(training=training, test=test, task=task_of(config.task, path), validation=validation)


def store_data(path: Path, data: Data) -> None:
    """Store traces that came from Python in a directory, so that the run can be opened with them."""
    for name, traces in ((TRACES, data.training), (TEST, data.test), (VALIDATION, data.validation)):
        if traces is not None:
            _store(path / name, traces)


def read_config(path: Path) -> Config:
    """The configuration of a run directory."""
    return Config.from_mapping(read_json(path / CONFIG), str(path / CONFIG))


def fingerprint(traces: Traces) -> str:
    """A digest of all that a learner reads of a set of traces."""
    digest = hashlib.blake2b(digest_size=16)
    arrays = [traces.observations, traces.actions, traces.offsets]
    if traces.vectors is not None:
        arrays.append(traces.vectors)
    if traces.annotations is not None:
        arrays += [traces.annotations.stacks, traces.annotations.kept]
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def _load_if_there(path: Path) -> Traces | None:
    return trace_files.load(path) if has_file(path) else None


def _store(path: Path, traces: Traces) -> None:
    if not path.exists():
        trace_files.save(traces, path)
    elif fingerprint(trace_files.load(path)) != fingerprint(traces):
        raise InputError(f"{path}: cannot resume, the run was made with another data set")
