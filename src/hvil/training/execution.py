"""From a plan to a run: train the planned learner, into a run directory or in memory.

`plan` decides the settings, `loop` makes the updates, and `run` is what comes out.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from hvil.analysis.evaluation import held_out_score
from hvil.data.sources import Data
from hvil.data.streaming import TraceStream
from hvil.data.traces import Traces
from hvil.gate.border import given_directory, has_file
from hvil.gate.errors import InputError
from hvil.gate.files import Locked, lock, remove_leftovers, write_json
from hvil.learners import build
from hvil.learners.config import Config
from hvil.learners.learner import Finishes, Learner
from hvil.machine.arrays import check_annotations
from hvil.training.checkpoints import Checkpoints
from hvil.training.loggers import logger
from hvil.training.loop import Hooks, Observer, alone_in_process, find_device, seeded, train
from hvil.training.observers import MetricsFile, shown_progress
from hvil.training.plan import Plan
from hvil.training.run import Run, fingerprint, read_config, store_data
from hvil.training.run_files import CONFIG, METRICS, MODEL
from hvil.training.source_notes import write_note
from hvil.training.weights import save_weights

LOCK_SECONDS = 5.0
"""How long to wait for another process that trains in a directory: one that is ending gives it up at once."""
MEASURED = 500
"""Training traces by which a run is measured, pruned and judged, at most: more would take long."""


def carry_out(
    plan: Plan,
    data: Data,
    out: Path | None = None,
    *,
    resume: bool = False,
    log: str | None = None,
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
        log: who else gets the numbers: a name of `LOGGERS`.
        progress: show how far the training is, on standard error.
        observers: who else watches.
        until: pause after this update.
        keep_data: store traces that came from Python in the directory.

    Raises:
        InputError: plan and data do not fit, or the directory cannot be used; nothing is written then.
    """
    config = plan.config
    _refuse_unfit(config, data)
    if out is None and (log or resume):
        raise InputError("a log and resuming need a run directory: name one with out")
    find_device(config.training.device)  # refuses a device that is not there
    learner: Learner = seeded(config.training.weights_seed, lambda: build(config))
    watching = [*observers] if out is None else [MetricsFile(out / METRICS), *observers]
    if log is not None and out is not None:
        watching.append(logger(log, out, config))
    if progress:
        watching.append(shown_progress(f"{config.learner} on {config.task or 'traces'}"))
    training = data.training if config.model.uses_annotations else replace(data.training, annotations=None)
    identity = {"configuration": config.digest, "data": fingerprint(training)}
    with ExitStack() as held:
        if out is not None:  # only now: bad input leaves no directory behind
            held.enter_context(_opened(out, config, resume))
            if keep_data and not config.data.source:
                store_data(out, data)
        held.enter_context(alone_in_process())
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
        if isinstance(learner, Finishes) and (until is None or until >= config.training.updates):
            learner.finish(data.training[:MEASURED])
        if out is not None:  # also if there was no update, and so no checkpoint
            save_weights(out / MODEL, learner, trained.updates)
    run = Run(config=config, learner=learner, path=out, updates=trained.updates, seconds=trained.seconds, plan=plan)
    run.data = data  # else the run would load it again
    return run


def earlier_config(path: Path | None) -> Config | None:
    """The configuration of a run that is to be resumed, if the directory holds one already."""
    return None if path is None or not has_file(path / CONFIG) else read_config(path)


def refuse_existing(path: Path) -> None:
    """Refuse a directory that exists: a new run needs a new one."""
    if os.path.lexists(path):
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


@contextmanager
def _opened(path: Path, config: Config, resume: bool) -> Iterator[None]:
    """Make the run directory, or make sure that the run in it can be resumed; nobody else trains there meanwhile."""
    if not resume or not path.exists():
        make_run_directory(path)
    else:
        given_directory(path)
    with locked_run(path):
        if has_file(path / CONFIG):
            difference = config.difference(read_config(path))
            if difference:
                raise InputError(f"{path}: cannot resume, the run has another configuration: {difference}")
        elif any(not entry.name.startswith(".") for entry in path.iterdir()):
            raise InputError(f"{path}: not a run directory (it has no {CONFIG})")
        remove_leftovers(path)
        write_json(path / CONFIG, config.to_mapping())
        write_note(path, config.data.source)
        yield


def make_run_directory(path: Path) -> None:
    """Make the directory of a new run."""
    refuse_existing(path)
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        refuse_existing(path)  # another process has just made it
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot be made ({error.strerror})") from error


@contextmanager
def locked_run(path: Path) -> Iterator[None]:
    """Keep other processes from training in a run directory while the block runs."""
    with ExitStack() as held:
        try:
            held.enter_context(lock(path / ".lock", wait=LOCK_SECONDS))
        except Locked as error:
            raise InputError(f"{path}: another process is training there") from error
        yield
