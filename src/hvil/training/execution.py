"""From a plan to a run: train the planned learner, into a run directory or in memory.

`plan` decides the settings, `loop` makes the updates, and `run` is what comes out.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hvil.analysis.evaluation import held_out_score
from hvil.data.sources import Data
from hvil.data.streaming import TraceStream
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.gate.files import remove_leftovers, write_json
from hvil.learners import build
from hvil.learners.config import Config
from hvil.learners.learner import Finishes, Learner
from hvil.machine.arrays import check_annotations
from hvil.training.checkpoints import Checkpoints
from hvil.training.loop import Hooks, Observer, find_device, seeded, train
from hvil.training.observers import MetricsFile, ProgressBar, TensorBoard
from hvil.training.plan import Plan
from hvil.training.run import Run, fingerprint, read_config, store_data
from hvil.training.run_files import CONFIG, METRICS, MODEL
from hvil.training.weights import save_weights

MEASURED = 500
"""Training traces by which a run is measured, pruned and judged, at most: more would take long."""


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
    keep_data: bool = True,
) -> Run:
    """Train the planned learner, into a run directory if `out` names one.

    Args:
        plan: the settings.
        data: the traces.
        out: the run directory; None keeps the run in memory.
        resume: go on with the run in `out`.
        tensorboard: also write TensorBoard's files.
        progress: show a progress bar.
        observers: who else watches.
        until: pause after this update.
        keep_data: store traces that came from Python in the directory.

    Raises:
        InputError: plan and data do not fit, or the directory cannot be used; nothing is written then.
    """
    config = plan.config
    _refuse_unfit(config, data)
    if out is None and (tensorboard or resume):
        raise InputError("TensorBoard's files and resuming need a run directory: name one with out")
    find_device(config.training.device)  # refuses a device that is not there
    learner: Learner = seeded(config.training.weights_seed, lambda: build(config))
    watching = [*observers] if out is None else [MetricsFile(out / METRICS), *observers]
    if tensorboard and out is not None:
        watching.append(TensorBoard(out / "tensorboard"))
    if progress:
        watching.append(ProgressBar(f"{config.learner} on {config.task or 'traces'}"))
    training = data.training if config.model.uses_annotations else replace(data.training, annotations=None)
    if out is not None:  # only now: bad input leaves no directory behind
        _open(out, config, resume)
        if keep_data and not config.data.source:
            store_data(out, data)
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
    if isinstance(learner, Finishes) and (until is None or trained.updates >= config.training.updates):
        learner.finish(data.training[:MEASURED])
    if out is not None:  # also if there was no update, and so no checkpoint
        save_weights(out / MODEL, learner, trained.updates)
    run = Run(config=config, learner=learner, path=out, updates=trained.updates, seconds=trained.seconds, plan=plan)
    run.data = data  # else the run would load it again
    return run


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
    """Refuse data that the planned learner cannot be trained, stopped or tested with."""
    config.check(data.training)
    for traces, where in ((data.test, "the test traces"), (data.validation, "the validation traces")):
        if traces is not None:
            config.check(traces, where)
    if config.training.patience and data.validation is None:
        raise InputError("early stopping (patience) needs held-out traces: at least five traces, some for validation")
    if config.model.uses_annotations and data.training.annotations is None:
        raise InputError("annotations are to be used, but these traces come without a call structure")


def _errors(learner: Learner, data: Data) -> dict[str, float]:
    """The errors on test and training traces, and `held_out`, the score of the validation traces."""
    policy = learner.policy()
    sets = {"error": data.test, "training_error": data.training[:MEASURED]}
    errors = {name: float(policy.wrong(traces).mean()) for name, traces in sets.items() if traces is not None}
    if data.validation is not None:
        errors["held_out"] = held_out_score(learner, data.validation)
    return errors


def _open(path: Path, config: Config, resume: bool) -> None:
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
