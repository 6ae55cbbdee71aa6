"""From a source to a run: load the data, plan, train. `fit` does all of it; the command line calls its parts.

The parts are `prepare` (source to data and plan) and `carry_out` (data and plan to a run).
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from hvil.analysis.evaluation import held_out_score
from hvil.data import trace_files
from hvil.data.sources import Data, Source, load_data
from hvil.data.streaming import TraceStream
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.gate.files import remove_leftovers, write_json
from hvil.gate.settings import from_mapping
from hvil.learners import LEARNERS, build
from hvil.learners.config import Config
from hvil.learners.learner import Learner
from hvil.learners.settings import TrainingSettings
from hvil.machine.arrays import check_annotations
from hvil.training.checkpoints import Checkpoints
from hvil.training.loop import Hooks, Observer, find_device, seeded, train
from hvil.training.observers import MetricsFile, ProgressBar, TensorBoard
from hvil.training.plan import GraphSpec, Plan, make_plan, plan_data
from hvil.training.run import CONFIG, METRICS, MODEL, TEST, TRACES, VALIDATION, Run, fingerprint, read_config
from hvil.training.weights import save_weights

MEASURED = 500
"""Training traces on which the training error is measured during training, at most: more would slow it down."""
BASELINES = ("feedforward", "lstm")
"""What own data are compared with: a policy without memory and one with the usual memory."""


class Prepared(NamedTuple):
    """Data and what will be done with it."""

    data: Data
    plan: Plan


def fit(
    source: Source,
    call_graph: GraphSpec | None = None,
    *,
    test: Traces | None = None,
    validation: Traces | float | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    tensorboard: bool = False,
    progress: bool = False,
    **settings: Any,
) -> Run:
    """Learn from demonstrations, exactly as `hvil fit` does.

    Args:
        source: a path, a task's name, `Traces`, a data frame, a Minari data set, or a list of (observations, actions).
        call_graph: a spec such as `tree:5x2`, a file, a mapping or a `CallGraph`; by default the plan chooses one.
        test: traces to measure the error on; by default some are held out, or drawn afresh if there is a task.
        validation: traces to stop early by, or the share of the training traces to hold out for it; by default a
            tenth, if there is no task.
        out: a new directory for the run; None keeps it in memory.
        resume: go on with the run in `out`.
        tensorboard: also write TensorBoard's files into `out`.
        progress: show a progress bar on standard error.
        **settings: any field of `DataSettings`, of the learner's settings class or of `TrainingSettings`, and `model`,
            the learner's name. `run.plan` says why the others have their values.
    """
    if isinstance(validation, float):
        settings, validation = {**settings, "validation": validation}, None
    path = None if out is None else Path(out)
    earlier = earlier_config(path) if resume else None
    data, plan = prepare(source, settings, call_graph, test=test, validation=validation, earlier=earlier)
    return carry_out(plan, data, path, resume=resume, tensorboard=tensorboard, progress=progress)


def prepare(
    source: Source,
    given: Mapping[str, Any],
    call_graph: GraphSpec | None = None,
    *,
    test: Traces | None = None,
    validation: Traces | None = None,
    earlier: Config | None = None,
) -> Prepared:
    """Load the data of a source and plan a run on it; `fit` explains the arguments."""
    settings = plan_data(source, given, earlier)
    seed = {"seed": given["seed"]} if "seed" in given else {} if earlier is None else {"seed": earlier.training.seed}
    drawn_by = from_mapping(TrainingSettings, seed, "settings").seed
    data = load_data(source, settings, drawn_by, test=test, validation=validation)
    return Prepared(data, make_plan(data, given, call_graph, data_settings=settings, earlier=earlier))


def carry_out(
    plan: Plan,
    data: Data,
    out: Path | None = None,
    *,
    resume: bool = False,
    tensorboard: bool = False,
    progress: bool = False,
    observers: Sequence[Observer] = (),
    until: int | None = None,
) -> Run:
    """Train the planned learner, into a run directory if `out` names one.

    Raises:
        InputError: plan and data do not fit, or the directory cannot be used; nothing is written then.
    """
    config = plan.config
    _refuse_unfit(config, data)
    if out is None and (tensorboard or resume):
        raise InputError("TensorBoard's files and resuming need a run directory: name one with out")
    find_device(config.training.device)
    learner: Learner = seeded(config.training.seed, lambda: build(config))
    watching = [*observers] if out is None else [MetricsFile(out / METRICS), *observers]
    if tensorboard and out is not None:
        watching.append(TensorBoard(out / "tensorboard"))
    if progress:
        watching.append(ProgressBar(f"{config.learner} on {config.task or 'traces'}"))
    training = data.training if config.model.uses_annotations else replace(data.training, annotations=None)
    if out is not None:  # only now: bad input leaves no directory behind
        _open(out, config, data, resume)
    identity = {"configuration": config.digest, "data": fingerprint(training)}
    trained = train(
        learner,
        training,
        config.training,
        Hooks(
            evaluate=lambda current: _errors(current, data),
            checkpoints=None if out is None else Checkpoints(out / "checkpoint", identity),
            save=None if out is None else lambda update: save_weights(out / MODEL, learner, update),
            observers=watching,
        ),
        resume=resume,
        until=until,
        stream=None if data.stream is None else _Checked(data.stream, config),
    )
    if out is not None:
        save_weights(out / MODEL, learner, trained.updates)
    run = Run(config=config, learner=learner, path=out, updates=trained.updates, seconds=trained.seconds, plan=plan)
    run.data = data
    return run


def fit_baselines(
    run: Run, given: Mapping[str, Any], *, resume: bool = False, progress: bool = False
) -> dict[str, Run]:
    """Train the baselines on the traces of a run, with its training settings, into its directory.

    Args:
        run: what they are compared with.
        given: settings that the user gave; those that a baseline has are its own.
        resume: go on with the baselines that are there.
        progress: show a progress bar.
    """
    runs = {}
    for name in BASELINES:
        names = {entry.name for entry in fields(LEARNERS[name])}
        settings = {key: value for key, value in given.items() if key in names}
        settings |= asdict(run.config.training) | {"model": name, "network": run.config.model.network}
        plan = make_plan(run.data, settings, run.config.graph, data_settings=run.config.data)
        out = None if run.path is None else run.path / name
        runs[name] = carry_out(plan, run.data, out, resume=resume and out is not None, progress=progress)
    return runs


def earlier_config(path: Path | None) -> Config | None:
    """The configuration of a run that is to be resumed, if the directory holds one already."""
    return None if path is None or not (path / CONFIG).is_file() else read_config(path)


def refuse_existing(path: Path) -> None:
    """Refuse a directory that exists: a new run needs a new one."""
    if path.exists():
        raise InputError(f"{path}: exists already; choose another directory, or go on with that run (--resume)")


class _Checked:
    """A stream whose annotations are checked batch by batch: the plan has seen a part of the file only."""

    def __init__(self, stream: TraceStream, config: Config) -> None:
        self._stream, self._config = stream, config

    def batch(self, update: int, size: int) -> Traces:
        """The batch of an update; an `InputError` if its call structure does not fit the call graph."""
        traces = self._stream.batch(update, size)
        if self._config.model.uses_annotations:
            check_annotations(self._config.graph, traces)
        return traces


def _refuse_unfit(config: Config, data: Data) -> None:
    config.check(data.training)
    if data.test is not None:
        config.check(data.test, "the test traces")
    if config.training.patience and data.validation is None:
        raise InputError("early stopping (patience) needs held-out traces: at least five traces, some for validation")
    if config.model.uses_annotations and data.training.annotations is None:
        raise InputError("annotations are to be used, but these traces come without a call structure")


def _errors(learner: Learner, data: Data) -> dict[str, float]:
    """What is measured during training."""
    policy = learner.policy()
    sets = {"error": data.test, "training_error": data.training[:MEASURED]}
    errors = {name: float(policy.wrong(traces).mean()) for name, traces in sets.items() if traces is not None}
    if data.validation is not None:
        errors["held_out"] = held_out_score(learner, data.validation)
    return errors


def _open(path: Path, config: Config, data: Data, resume: bool) -> None:
    """Make the run directory, or make sure that the run in it can be resumed; then write what the run began with."""
    if not resume or not path.exists():
        refuse_existing(path)
        path.mkdir(parents=True)
    elif (path / CONFIG).is_file():
        difference = config.difference(read_config(path))
        if difference:
            raise InputError(f"{path}: cannot resume, the run has another configuration: {difference}")
    elif not path.is_dir() or any(not entry.name.startswith(".") for entry in path.iterdir()):
        raise InputError(f"{path}: not a run directory (it has no {CONFIG})")
    remove_leftovers(path)
    write_json(path / CONFIG, config.to_mapping())
    if not config.data.source:
        for name, traces in ((TRACES, data.training), (TEST, data.test), (VALIDATION, data.validation)):
            if traces is not None:
                _store(path / name, traces)


def _store(path: Path, traces: Traces) -> None:
    """Keep traces that came from Python, so that the run can be opened with them."""
    if not path.exists():
        trace_files.save(traces, path)
    elif fingerprint(trace_files.load(path)) != fingerprint(traces):
        raise InputError(f"{path}: cannot resume, the run was made with another data set")
