"""A run: a learner with its configuration, in memory or in a directory; `fit` makes one, `load` opens one.

The directory holds `config.json`, `model.safetensors`, `checkpoint/`, `metrics.jsonl`, `evaluation.json` and, if asked
for, `report.html`. A run whose traces came from Python also holds them (`traces.npz`).
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from hvil.data import trace_files as traces_io
from hvil.data.inputs import suitable_inputs
from hvil.data.sources import Data, load_data, split_validation, task_of
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.gate.files import read_json, remove_leftovers, write_json
from hvil.gate.settings import from_mapping
from hvil.learners import build
from hvil.learners.config import Config, DataSettings, ModelSettings, TrainingSettings
from hvil.learners.learner import Learner, Policy
from hvil.machine.callgraph import CallGraph
from hvil.training.checkpoints import Checkpoints
from hvil.training.defaults import default_call_graph
from hvil.training.loop import Observer, find_device, seeded, train
from hvil.training.observers import MetricsFile, ProgressBar, TensorBoard, read_metrics
from hvil.training.presets import preset
from hvil.training.weights import check_weights, load_weights, save_weights

if TYPE_CHECKING:
    from hvil.analysis.evaluation import Evaluation
    from hvil.analysis.explain import Explanation

MODEL, METRICS = "model.safetensors", "metrics.jsonl"

MEASURED = 500
"""Training traces on which the training error is measured, at most."""


@dataclass
class Run:
    """A learner and where it comes from."""

    config: Config
    learner: Learner
    path: Path | None = None
    """Its directory; None if it lives in memory alone."""
    updates: int = 0
    seconds: float = 0.0
    """Wall time of the training."""

    @property
    def policy(self) -> Policy:
        """The learned policy: `reset`, `act`, `wrong`."""
        return self.learner.policy()

    @cached_property
    def data(self) -> Data:
        """The traces it was trained and is tested on, found again by what the configuration says.

        Raises:
            InputError: they came from Python and were not kept, or their file is gone.
        """
        if self.config.data.source:
            return load_data(self.config.data, self.config.training.seed)
        if self.path is None or not (self.path / "traces.npz").is_file():
            raise InputError("this run does not know its traces: they were given from Python; name a source")
        return Data(traces_io.load(self.path / "traces.npz"), None, task_of(self.config.task))

    def evaluate(self, traces: Traces | None = None, rollouts: bool = True) -> "Evaluation":
        """Error rates, roll-outs and structure on test traces; by default on those of the run's own source."""
        from hvil.analysis.evaluation import evaluate

        if traces is None:
            traces = self.data.test
        if traces is None:
            raise InputError("this run has no test traces; name a source")
        self.config.check(traces)
        # Only traces with their initial states can be rolled out.
        task = task_of(traces.attributes.get("task")) if rollouts and traces.metadata else None
        training = self.data.training if self.knows_data else None
        return evaluate(self.learner, traces, training, task, self.config.graph.procedures)

    def explain(self, **options: Any) -> "Explanation":
        """What the policy learned, as a program (`hvil.analysis.explain.explain` has the options)."""
        from hvil.analysis.explain import explain

        return explain(self, **options)

    @property
    def knows_data(self) -> bool:
        """Whether the training traces can be found."""
        try:
            return bool(self.data)
        except InputError:
            return False

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a run that lives in memory to a new directory."""
        path = Path(path)
        _create(path)
        write_json(path / "config.json", self.config.to_mapping())
        if not self.config.data.source and "data" in self.__dict__:
            traces_io.save(self.data.training, path / "traces.npz")
        save_weights(path / MODEL, _module(self.learner), self.updates)
        self.path = path

    def __repr__(self) -> str:
        what = f"{self.config.model.model} of {self.config.task or 'traces'}, {self.updates} updates"
        return f"Run({what}{f', in {self.path}' if self.path else ''})"


def fit(
    traces: Traces,
    call_graph: str | Mapping[str, Any] | CallGraph | None = None,
    *,
    test: Traces | None = None,
    validation: Traces | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    tensorboard: bool = False,
    progress: bool = False,
    **settings: Any,
) -> Run:
    """Learn from traces.

    Args:
        traces: the training set.
        call_graph: a spec such as `tree:5x2`, a file, a mapping or a `CallGraph`; by default that of the traces' task.
        test: traces on which the error is measured during training.
        validation: traces whose likelihood decides when to stop, if a `patience` is set; by default a tenth of `traces`
            is held out for it.
        out: a new directory for the run; None keeps it in memory.
        resume: go on with the run in `out`.
        tensorboard: also write TensorBoard's files into `out`.
        progress: show a progress bar on standard error.
        **settings: any field of `ModelSettings` or `TrainingSettings` in `hvil.learners.config`; what is not given
            comes from the preset of the traces' task, then from the fields' defaults.
    """
    task = traces.attributes.get("task")
    known = task_of(task)
    chosen = preset(task, settings.get("model", "hvil")) | settings
    model, training = _settings(chosen, settings)
    if training.patience and validation is None:
        traces, validation = split_validation(traces, DataSettings.validation, training.seed)
    if call_graph is None:
        annotated = model.annotations == "use"
        call_graph = known.default_call_graph if known else default_call_graph(traces, annotated).graph
    config = Config.of(
        traces,
        call_graph,
        model,
        training,
        DataSettings(demos=len(traces), test_traces=0 if test is None else len(test)),
        inputs=None if known or model.network == "convnet" else suitable_inputs(traces),
    )
    return fit_config(
        config, Data(traces, test, known, validation), out, resume=resume, tensorboard=tensorboard, progress=progress
    )


def fit_config(
    config: Config,
    data: Data,
    out: str | os.PathLike[str] | None = None,
    *,
    resume: bool = False,
    tensorboard: bool = False,
    progress: bool = False,
    watchers: Sequence[Observer] = (),
) -> Run:
    """Train the configured learner; `fit` and the command line both end here."""
    config.check(data.training)
    if data.test is not None:
        config.check(data.test, "the test traces")
    if config.training.patience and data.validation is None:
        raise InputError("early stopping (patience) needs held-out traces: at least five traces, some for validation")
    if config.model.annotations == "use" and data.training.annotations is None:
        raise InputError("annotations are to be used, but these traces come without a call structure")
    path = None if out is None else Path(out)
    if path is None and (tensorboard or resume):
        raise InputError("TensorBoard's files and resuming need a run directory: name one with out")
    find_device(config.training.device)
    learner = cast(Learner, seeded(config.training.seed, lambda: build(config)))
    observers = [*watchers] if path is None else [MetricsFile(path / METRICS), *watchers]
    if tensorboard and path is not None:
        observers.append(TensorBoard(path / "tensorboard"))
    if progress:
        observers.append(ProgressBar(f"{config.model.model} on {config.task or 'traces'}"))
    if path is not None:  # only now: bad input leaves no directory behind
        _open(path, config, resume)
        if not config.data.source:
            _keep_traces(path / "traces.npz", data.training)
    used = data.training if config.model.annotations == "use" else replace(data.training, annotations=None)
    identity = {"configuration": config.digest, "data": fingerprint(used)}
    trained = train(
        learner,
        used,
        config.training,
        evaluate=lambda current: _errors(current, data),
        checkpoints=None if path is None else Checkpoints(path / "checkpoint", identity),
        save=None if path is None else lambda update: save_weights(path / MODEL, _module(learner), update),
        resume=resume,
        observers=observers,
        stream=data.stream,
    )
    if path is not None:
        save_weights(path / MODEL, _module(learner), trained.updates)
    run = Run(config, learner, path, *trained)
    run.data = data
    return run


def load(path: str | os.PathLike[str]) -> Run:
    """Open a run directory.

    Raises:
        InputError: it is none, or its model is missing, truncated, not finite or of another configuration.
    """
    path = Path(path)
    if not (path / "config.json").is_file():
        raise InputError(f"{path}: not a run directory (it has no config.json)")
    config = read_config(path)
    check_weights(path / MODEL, lambda: _module(build(config)))
    learner = cast(Learner, seeded(config.training.seed, lambda: build(config)))
    updates = load_weights(path / MODEL, _module(learner))
    seconds = next((line["seconds"] for line in reversed(read_metrics(path / METRICS)) if "seconds" in line), 0.0)
    return Run(config, learner, path, updates, float(seconds))


def read_config(path: Path) -> Config:
    """The configuration of a run directory."""
    return Config.from_mapping(read_json(path / "config.json"), str(path / "config.json"))


def fingerprint(traces: Traces) -> str:
    """A digest of all that a learner reads of a set of traces."""
    digest = hashlib.blake2b(digest_size=16)
    arrays = [traces.observations, traces.actions, traces.offsets]
    if traces.annotations is not None:
        arrays += [traces.annotations.stacks, traces.annotations.kept]
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def _errors(learner: Learner, data: Data) -> dict[str, float]:
    policy = learner.policy()
    sets = {"error": data.test, "training_error": data.training[:MEASURED]}
    errors = {name: float(policy.wrong(traces).mean()) for name, traces in sets.items() if traces is not None}
    if data.validation is not None:
        from hvil.analysis.evaluation import held_out_score

        errors["held_out"] = held_out_score(learner, data.validation)
    return errors


def _settings(chosen: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[ModelSettings, TrainingSettings]:
    names = [{field.name for field in fields(kind)} for kind in (ModelSettings, TrainingSettings)]
    unknown = sorted(set(given) - names[0] - names[1])
    if unknown:
        raise InputError(f"unknown setting {unknown[0]!r}; known: {', '.join(sorted(names[0] | names[1]))}")
    model, training = ({name: value for name, value in chosen.items() if name in known} for known in names)
    return from_mapping(ModelSettings, model, "settings"), from_mapping(TrainingSettings, training, "settings")


def _module(learner: Learner) -> torch.nn.Module:
    return cast(torch.nn.Module, learner)


def _keep_traces(path: Path, traces: Traces) -> None:
    if not path.exists():
        traces_io.save(traces, path)
    elif fingerprint(traces_io.load(path)) != fingerprint(traces):
        raise InputError(f"{path}: cannot resume, the run was made with another data set")


def refuse_existing(path: Path) -> None:
    """A new run needs a new directory."""
    if path.exists():
        raise InputError(f"{path}: exists already; choose another directory, or go on with that run (--resume)")


def _create(path: Path) -> None:
    refuse_existing(path)
    path.mkdir(parents=True)


def _open(path: Path, config: Config, resume: bool) -> None:
    """Make the run directory, or make sure that the one that is there can be gone on with."""
    if not resume or not path.exists():
        _create(path)
    elif (path / "config.json").is_file():
        difference = config.difference(read_config(path))
        if difference:
            raise InputError(f"{path}: cannot resume, the run has another configuration: {difference}")
    elif not path.is_dir() or any(not entry.name.startswith(".") for entry in path.iterdir()):
        raise InputError(f"{path}: not a run directory (it has no config.json)")
    remove_leftovers(path)
    write_json(path / "config.json", config.to_mapping())
