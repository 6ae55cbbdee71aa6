"""Where a SOURCE's traces come from: a task's teacher, a trace file, a Minari data set; training and test apart."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hvil.data import tasks
from hvil.data.segments import keep_annotations
from hvil.data.tasks import Task, UnknownTask, valid_tasks
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.config import DataSettings

if TYPE_CHECKING:
    from hvil.data.formats.tables import Columns
    from hvil.data.streaming import TraceStream

HELD_OUT = 0.2
FEWEST = 5
"""Fewer traces than this are all needed for training."""


class Data(NamedTuple):
    """A source's traces."""

    training: Traces
    test: Traces | None
    """Fresh from the task's test stream, or held out; None if there are none."""
    task: Task | None
    """Where a policy for these traces can be tried."""
    validation: Traces | None = None
    """Held out of the training set, for early stopping."""
    stream: "TraceStream | None" = None
    """Where batches come from if the data does not fit in memory; `training` is then a part of it."""


def is_file(source: str) -> bool:
    """Whether a SOURCE is a trace file or data set, as opposed to a task."""
    return source.startswith("minari:") or Path(source).suffix in (".npz", ".parquet", ".csv")


def find_task(source: str) -> Task:
    """The task that a SOURCE names."""
    try:
        return tasks.find_task(source)
    except UnknownTask as error:
        raise InputError(
            f"{source!r} is no task and no trace file; expected {valid_tasks()}, FILE.npz, FILE.parquet, FILE.csv "
            "or minari:ID"
        ) from error


def task_of(name: str | None) -> Task | None:
    """The task that a trace set says it is from, if it can be made here (a Karel program's file may be gone)."""
    if not name:
        return None
    try:
        return tasks.find_task(name)
    except InputError:
        return None


def load_data(settings: DataSettings, seed: int) -> Data:
    """The training and test traces of a source; the same settings and seed, the same traces.

    A task's test traces are drawn afresh, and so are those of a file that says which task it is from. Of any other
    file `test_traces`, but at most a fifth, are held out, chosen by the seed; or all but `demos` if that is given. The
    share `validation` of what is then left is for early stopping.
    """
    if is_file(settings.source):
        return _from_file(settings, seed)
    found = find_task(settings.source)
    if settings.demos < 1:
        raise InputError(f"--demos {settings.demos}: a task needs at least 1 demonstration to learn from")
    training = keep_annotations(drawn(found, settings.demos, seed), settings.annotated_fraction, seed)
    test = drawn(found, settings.test_traces, seed, test=True) if settings.test_traces else None
    return Data(training, test, found)


def drawn(found: Task, count: int, seed: int, test: bool = False) -> Traces:
    """A task's demonstrations, with a progress bar while they are drawn."""
    from hvil.gate.progress import progress_bar

    kind = "test traces" if test else "demonstrations"
    with progress_bar(f"{kind} of {found.name}", count) as progress:
        return (found.test_demonstrations if test else found.demonstrations)(count, seed, progress)


def _from_file(settings: DataSettings, seed: int) -> Data:
    from hvil.data.streaming import should_stream
    from hvil.data.trace_files import load

    if settings.stream == "yes" or (settings.stream == "auto" and should_stream(settings.source)):
        return _streamed(settings, seed)
    traces = load(settings.source, columns_of(settings))
    if settings.demos > len(traces):
        raise InputError(f"{settings.source}: --demos {settings.demos}, but there are only {len(traces)} traces")
    found = task_of(traces.attributes.get("task"))
    if found is not None and found.action_names == traces.action_names:
        training = traces[: settings.demos] if settings.demos else traces
        training = keep_annotations(training, settings.annotated_fraction, seed)
        test = drawn(found, settings.test_traces, seed, test=True) if settings.test_traces else None
        if test is None or test.observation_shape == traces.observation_shape:
            return Data(training, test, found)
    held = len(traces) - settings.demos if settings.demos else int(HELD_OUT * len(traces))
    held = min(settings.test_traces, held)
    order = np.random.default_rng([seed, 2]).permutation(len(traces))
    count = settings.demos or len(traces) - held
    test = traces[np.sort(order[count : count + held])] if held else None
    training, validation = split_validation(traces[np.sort(order[:count])], settings.validation, seed)
    return Data(keep_annotations(training, settings.annotated_fraction, seed), test, None, validation)


def _streamed(settings: DataSettings, seed: int) -> Data:
    """Held-out traces from the last row group, a part of the rest in memory, and all the rest as a stream."""
    from hvil.data.streaming import TraceStream, read_groups, trace_counts

    path = Path(settings.source)
    groups = np.arange(len(trace_counts(path)))
    if len(groups) < 2:
        raise InputError(f"{path}: has one row group and fits in memory; leave out --stream")
    if settings.demos or settings.annotated_fraction < 1:
        raise InputError("--demos and --annotated-fraction need the traces in memory; they do not go with --stream")
    part, held_out = read_groups(path, groups[:1]), read_groups(path, groups[-1:])
    test, validation = split_validation(held_out, 0.5, seed)
    return Data(
        part,
        test[: settings.test_traces] if settings.test_traces else None,
        task_of(part.attributes.get("task")),
        None if validation is None else validation[: max(settings.test_traces, 1)],
        TraceStream(path, groups[:-1], seed),
    )


def split_validation(traces: Traces, share: float, seed: int) -> tuple[Traces, Traces | None]:
    """Traces to train on, and some to stop early by: at least one if there are five; none if no share is wanted."""
    count = max(round(share * len(traces)), 1) if share and len(traces) >= FEWEST else 0
    if not count:
        return traces, None
    order = np.random.default_rng([seed, 4]).permutation(len(traces))
    return traces[np.sort(order[count:])], traces[np.sort(order[:count])]


def columns_of(settings: DataSettings) -> "Columns":
    """Which columns of a table mean what."""
    from hvil.data.formats.tables import Columns

    observations = tuple(name.strip() for name in settings.observation_columns.split(",") if name.strip())
    return Columns(
        settings.trace_column, settings.step_column, settings.action_column, observations, settings.annotation_column
    )


def short_name(source: str) -> str:
    """A SOURCE as part of a file name."""
    name = Path(source).stem if is_file(source) and not source.startswith("minari:") else source
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "run"
