"""From a source to data: a task's teacher, a trace file, a Minari data set or objects from Python become traces.

`load_data` sets training, validation and test traces apart, in the same way for every kind of source. File formats are
in `formats`; `hvil.training.plan` decides what is done with the data.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hvil.data import tasks
from hvil.data.formats.minari import traces_from_minari
from hvil.data.formats.tables import Columns, traces_from_table
from hvil.data.segments import keep_annotations
from hvil.data.settings import DataSettings
from hvil.data.streaming import TraceStream, read_groups, should_stream, trace_counts
from hvil.data.streams import Stream
from hvil.data.tasks import Task, UnknownTask, valid_tasks
from hvil.data.trace_files import READ, load
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.gate.progress import progress_bar

Source = Any
"""A TASK string, a path, `minari:ID`, `Traces`, a data frame (pandas, polars or anything else that Arrow can read), a
Minari data set, or a list of (observations, actions), one pair a trace."""

TEST_SHARE = 0.2
"""The largest share of a file's traces that is held out for the test."""
FEWEST_TO_SPLIT = 5
"""Fewer traces than this are all needed for training: none is held out for early stopping."""


class Data(NamedTuple):
    """The traces of a source, set apart by what they are for."""

    training: Traces
    test: Traces | None
    """Fresh from the task's teacher, or held out; None if there are none."""
    task: Task | None
    """Where a policy for these traces can be tried."""
    validation: Traces | None = None
    """Held out of the training set, for early stopping."""
    stream: TraceStream | None = None
    """Where batches come from if the data do not fit in memory; `training` is then the part that is in memory."""


def is_file(source: Source) -> bool:
    """Whether a source names a trace file or a Minari data set, as opposed to a task or an object from Python."""
    return isinstance(source, os.PathLike) or (
        isinstance(source, str) and (source.startswith("minari:") or Path(source).suffix in READ)
    )


def names_task(source: Source) -> bool:
    """Whether a source is meant to name a task: any text that does not name a file."""
    return isinstance(source, str) and not is_file(source)


def task_from_source(source: str) -> Task:
    """The task that a source names; if it names none, the error lists all kinds of sources."""
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


def load_data(
    source: Source,
    settings: DataSettings,
    seed: int,
    *,
    test: Traces | None = None,
    validation: Traces | None = None,
) -> Data:
    """The traces of a source; the same source, settings and seed give the same traces.

    A task's teacher makes fresh test traces. It also makes them for traces that say which task they are from. From any
    other set of traces, `settings.test_traces` are held out for the test, but at most a fifth of the set, or at most
    what `settings.demos` leaves if it is given. The share `settings.validation` of the rest is held out for early
    stopping. The seed decides which traces are held out.

    Args:
        source: where the traces come from.
        settings: how many traces, which columns.
        seed: decides which traces are drawn or held out.
        test: traces to test on, instead of fresh or held-out ones.
        validation: traces for early stopping, instead of held-out ones.

    Raises:
        InputError: the source does not exist, or its traces cannot be used.
    """
    if names_task(source):
        data = _from_task(task_from_source(source), settings, seed)
    elif is_file(source) and (settings.stream == "yes" or (settings.stream == "auto" and should_stream(source))):
        data = _streamed(Path(source), settings, seed)
    else:
        traces = traces_from(source, columns_of(settings))
        return _split(traces, settings, seed, address(source) or "the traces", test, validation)
    return data._replace(
        test=data.test if test is None else test, validation=data.validation if validation is None else validation
    )


def traces_from(source: Source, columns: Columns) -> Traces:
    """Traces from a path or an object; what cannot be traces is an `InputError` that says what can."""
    if isinstance(source, Traces):
        return source
    if is_file(source):
        return load(source, columns)
    if hasattr(source, "iterate_episodes"):
        return traces_from_minari(source)
    if hasattr(source, "__arrow_c_stream__"):
        return traces_from_table(pa.table(source), columns)
    if isinstance(source, list | tuple) and all(_is_pair(entry) for entry in source):
        return _from_pairs(source)
    raise InputError(
        f"traces cannot be made from {type(source).__name__}; expected a path, a task's name, Traces, a data frame, a "
        "Minari data set or a list of (observations, actions)"
    )


def drawn(task: Task, count: int, seed: int, test: bool = False) -> Traces:
    """Demonstrations of a task, with a progress bar while they are drawn."""
    kind = "test traces" if test else "demonstrations"
    with progress_bar(f"{kind} of {task.name}", count) as progress:
        return (task.test_demonstrations if test else task.demonstrations)(count, seed, progress)


def traces_to_test(source: str, settings: DataSettings, count: int | None, default: int, seed: int) -> Traces:
    """The first traces of a file, or fresh ones of a task.

    Args:
        source: a TASK string, a path or `minari:ID`.
        settings: which columns of a table mean what.
        count: how many traces; None: all of a file, `default` of a task.
        default: how many traces of a task.
        seed: of a task's traces.
    """
    if is_file(source):
        return load(source, columns_of(settings))[:count]
    return drawn(task_from_source(source), count or default, seed, test=True)


def split_validation(traces: Traces, share: float, seed: int) -> tuple[Traces, Traces | None]:
    """The traces to train on, and the share that is held out for early stopping.

    At least one trace is held out. None is, if the share is 0 or there are fewer than `FEWEST_TO_SPLIT` traces.
    """
    count = max(round(share * len(traces)), 1) if share and len(traces) >= FEWEST_TO_SPLIT else 0
    if not count:
        return traces, None
    order = Stream.VALIDATION.generator(seed).permutation(len(traces))
    return traces[np.sort(order[count:])], traces[np.sort(order[:count])]


def columns_of(settings: DataSettings) -> Columns:
    """Which columns of a table mean what."""
    observations = tuple(name.strip() for name in settings.observation_columns.split(",") if name.strip())
    return Columns(
        trace=settings.trace_column,
        step=settings.step_column,
        action=settings.action_column,
        observations=observations,
        annotation=settings.annotation_column,
    )


def short_name(source: Source) -> str:
    """A source as part of a file's name."""
    text = address(source) or "traces"
    name = Path(text).stem if is_file(source) and not text.startswith("minari:") else text
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "run"


def address(source: Source) -> str:
    """The name or path by which a source can be loaded again; empty for objects from Python."""
    return str(source) if isinstance(source, str | os.PathLike) else ""


def _from_task(task: Task, settings: DataSettings, seed: int) -> Data:
    if settings.demos < 1:
        raise InputError(f"--demos {settings.demos}: a task needs at least 1 demonstration to learn from")
    training = keep_annotations(drawn(task, settings.demos, seed), settings.annotated_fraction, seed)
    test = drawn(task, settings.test_traces, seed, test=True) if settings.test_traces else None
    return Data(training=training, test=test, task=task)


def _split(
    traces: Traces, settings: DataSettings, seed: int, name: str, test: Traces | None, validation: Traces | None
) -> Data:
    """Divide traces by what they are for. Test and validation traces that the caller brings are taken as they are."""
    if settings.demos > len(traces):
        raise InputError(f"{name}: --demos {settings.demos}, but there are only {len(traces)} traces")
    task = task_of(traces.attributes.get("task"))
    if task is not None and task.action_names == traces.action_names:
        training = traces[: settings.demos] if settings.demos else traces
        training = keep_annotations(training, settings.annotated_fraction, seed)
        to_test = drawn(task, settings.test_traces, seed, test=True) if settings.test_traces and test is None else test
        if to_test is None or to_test.observation_shape == traces.observation_shape:
            return Data(training=training, test=to_test, task=task, validation=validation)
    most = len(traces) - settings.demos if settings.demos else int(TEST_SHARE * len(traces))
    held_out = min(settings.test_traces, most) if test is None else 0
    count = settings.demos or len(traces) - held_out
    order = Stream.HELD_OUT.generator(seed).permutation(len(traces))
    if held_out:
        test = traces[np.sort(order[count : count + held_out])]
    training = traces[np.sort(order[:count])]
    if validation is None:
        training, validation = split_validation(training, settings.validation, seed)
    training = keep_annotations(training, settings.annotated_fraction, seed)
    return Data(training=training, test=test, task=None, validation=validation)


def _streamed(path: Path, settings: DataSettings, seed: int) -> Data:
    """Hold the last row group out for test and validation, and stream the others; the first is also in memory."""
    groups = np.arange(len(trace_counts(path)))
    if len(groups) < 2:
        raise InputError(f"{path}: has one row group and fits in memory; leave out --stream")
    if settings.demos or settings.annotated_fraction < 1:
        raise InputError("--demos and --annotated-fraction need the traces in memory; they do not go with --stream")
    in_memory, held_out = read_groups(path, groups[:1]), read_groups(path, groups[-1:])
    test, validation = split_validation(held_out, 0.5, seed)
    return Data(
        training=in_memory,
        test=test[: settings.test_traces] if settings.test_traces else None,
        task=task_of(in_memory.attributes.get("task")),
        # Each evaluation scores all validation traces: there are no more of them than test traces.
        validation=None if validation is None else validation[: max(settings.test_traces, 1)],
        stream=TraceStream(path, groups[:-1], seed),
    )


def _is_pair(entry: Any) -> bool:
    return isinstance(entry, Sequence) and len(entry) == 2


def _from_pairs(pairs: Sequence[Sequence[Any]]) -> Traces:
    """Traces from (observations, actions) pairs; actions are numbers, or names in any order."""
    actions = [np.asarray(pair[1]) for pair in pairs]
    names: tuple[str, ...]
    if actions and all(array.dtype.kind in "US" for array in actions):
        names = tuple(sorted({str(name) for array in actions for name in array}))
        numbers = {name: number for number, name in enumerate(names)}
        actions = [np.array([numbers[str(name)] for name in array], dtype=np.int64) for array in actions]
    else:
        if not all(array.dtype.kind in "iu" for array in actions):
            raise InputError("actions must be whole numbers or names")
        names = tuple(str(number) for number in range(max((int(a.max(initial=0)) for a in actions), default=0) + 1))
    return Traces.from_episodes([np.asarray(pair[0]) for pair in pairs], actions, names)
