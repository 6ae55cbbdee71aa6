"""From a source to data: a task's teacher, a trace file, a Minari data set or objects from Python become traces.

`load_data` sets training, validation and test traces apart, in the same way for every kind of source. File formats are
in `formats`; `hvil.training.plan` decides what is done with the data.
"""

import glob
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hvil.data import tasks
from hvil.data.file_names import COMPRESSED, READ, SEVERAL, ending
from hvil.data.formats.minari import fetch, traces_from_minari
from hvil.data.formats.nested import flattened
from hvil.data.formats.recognition import Columns
from hvil.data.formats.tables import traces_from_table
from hvil.data.reading import Reading
from hvil.data.segments import keep_annotations
from hvil.data.settings import DataSettings
from hvil.data.streaming import TraceStream, read_groups, should_stream, trace_counts
from hvil.data.streams import Stream
from hvil.data.tasks import Task, UnknownTask, valid_tasks
from hvil.data.trace_files import load
from hvil.data.traces import Traces, is_vectors
from hvil.gate.border import confined
from hvil.gate.errors import InputError
from hvil.gate.progress import progress_bar
from hvil.gate.settings import from_mapping

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
    """Whether a source names trace files or a Minari data set, as opposed to a task or an object from Python."""
    if isinstance(source, os.PathLike):
        return True
    if not isinstance(source, str) or source.partition(":")[0] in tasks.DOMAINS.names():
        return False
    return source.startswith("minari:") or SEVERAL in source or ending(source) in READ or os.path.isdir(source)


def names_task(source: Source) -> bool:
    """Whether a source is meant to name a task: any text that does not name a file."""
    return isinstance(source, str) and not is_file(source)


def task_from_source(source: str) -> Task:
    """The task that a source names; if it names none, the error lists all kinds of sources."""
    try:
        return tasks.find_task(source)
    except UnknownTask as error:
        raise InputError(
            f"{source!r} is no task and no trace file; expected {valid_tasks()}, minari:ID, a directory of trace "
            f"files, or a file that ends in {', '.join(READ)}"
        ) from error


def task_of(name: str | None, directory: str | os.PathLike[str] | None = None, *, named: bool = False) -> Task | None:
    """The task that a trace set says it is from, if it can be made here (a Karel program's file may be gone).

    Args:
        name: the task's name, out of a file.
        directory: where that file is: a task's own file must be there too; by default in the working directory.
        named: the user has named the task, so its file may be anywhere.
    """
    if not name:
        return None
    try:
        with nullcontext() if named else confined(directory or os.curdir):
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
    reading: Reading | None = None,
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
        reading: how the columns of a table are to be read, as a run has recorded it; None: find out.

    Raises:
        InputError: the source does not exist, or its traces cannot be used.
    """
    if names_task(source):
        data = _from_task(task_from_source(source), settings, seed)
    elif is_file(source) and (settings.stream == "yes" or (settings.stream == "auto" and should_stream(source))):
        data = _streamed(Path(source), settings, seed)
    else:
        traces = traces_from(source, settings, reading)
        return _split(traces, settings, seed, address(source) or "the traces", test, validation)
    return data._replace(
        test=data.test if test is None else test, validation=data.validation if validation is None else validation
    )


def load_traces(source: Source, **settings: Any) -> Traces:
    """Read traces: from files, a directory, `minari:ID`, a data frame or anything else that `fit` takes but tasks.

    Args:
        source: where they are.
        **settings: the fields of `DataSettings` that say how to read them, such as `trace_column="episode"`.
    """
    return traces_from(source, from_mapping(DataSettings, settings, "settings"))


def traces_from(source: Source, settings: DataSettings, reading: Reading | None = None) -> Traces:
    """Traces from a path or an object; what cannot be traces is an `InputError` that says what can."""
    if isinstance(source, Traces):
        return source
    columns = columns_of(settings)
    if is_file(source):
        if settings.download:
            fetch(str(source))
        return load(source, columns, reading)
    if hasattr(source, "iterate_episodes"):
        return traces_from_minari(source, reading)
    if hasattr(source, "__arrow_c_stream__"):
        return traces_from_table(flattened(pa.table(source)), columns, reading)
    if isinstance(source, list | tuple) and all(_is_pair(entry) for entry in source):
        if source and all(isinstance(row, Mapping) for seen, _ in source for row in seen):
            return traces_from_table(flattened(pa.Table.from_pylist(_rows(source))), columns, reading)
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


def traces_to_test(
    source: str, settings: DataSettings, count: int | None, default: int, seed: int, reading: Reading | None = None
) -> Traces:
    """The first traces of a file, or fresh ones of a task.

    Args:
        source: a TASK string, a path or `minari:ID`.
        settings: which columns of a table mean what.
        count: how many traces; None: all of a file, `default` of a task.
        default: how many traces of a task.
        seed: of a task's traces.
        reading: how the columns of a table are to be read, as a run has recorded it.
    """
    if is_file(source):
        return traces_from(source, settings, reading)[:count]
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
        elapsed=settings.elapsed,
    )


def short_name(source: Source) -> str:
    """A source as part of a file's name."""
    text = address(source) or "traces"
    name = text.partition(SEVERAL)[0]
    if is_file(source) and not text.startswith("minari:"):
        first = Path(name)
        one_file = SEVERAL not in text and not glob.has_magic(text) and not first.is_dir()
        stem = first.name.removesuffix(first.suffix) if first.suffix in COMPRESSED else first.name
        name = Path(stem).stem if one_file else (first if first.is_dir() else first.parent).resolve().name
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "run"


def address(source: Source) -> str:
    """The name or path by which a source can be loaded again; empty for objects from Python."""
    return str(source) if isinstance(source, str | os.PathLike) else ""


def lasting_address(source: Source) -> str:
    """The address of a source that is also right in another directory: files by their whole paths."""
    text = address(source)
    if not is_file(source) or text.startswith("minari:"):
        return text
    return SEVERAL.join(os.path.abspath(part) for part in text.split(SEVERAL))


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
    task = task_of(traces.attributes.get("task"), _directory(name))
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
        task=task_of(in_memory.attributes.get("task"), path.parent),
        # Each evaluation scores all validation traces: there are no more of them than test traces.
        validation=None if validation is None else validation[: max(settings.test_traces, 1)],
        stream=TraceStream(path, groups[:-1], seed),
    )


def _directory(name: str) -> Path | None:
    """The directory of a trace file; None for other sources."""
    return Path(name).parent if is_file(name) and not name.startswith("minari:") else None


def _is_pair(entry: Any) -> bool:
    return isinstance(entry, Sequence) and len(entry) == 2


def _rows(pairs: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """The rows of a table, from pairs whose observations have values by name; the last of a trace has no action."""
    rows = []
    for trace, (observations, actions) in enumerate(pairs):
        if len(observations) != len(actions) + 1:
            raise InputError(
                f"trace {trace}: {len(actions)} actions need {len(actions) + 1} observations, found {len(observations)}"
            )
        for step, (seen, action) in enumerate(zip(observations, [*np.asarray(actions).tolist(), None], strict=True)):
            named = {f"observation.{name}": _plain(value) for name, value in seen.items()}
            rows.append({"trace": trace, "step": step, **named, "action": action})
    return rows


def _plain(value: Any) -> Any:
    """A value of an observation as plain Python: numbers for NumPy's, lists for arrays and tuples."""
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _from_pairs(pairs: Sequence[Sequence[Any]]) -> Traces:
    """Traces from (observations, actions) pairs; actions are numbers, names in any order, or vectors of fractions."""
    actions = [np.asarray(pair[1]) for pair in pairs]
    if actions and all(is_vectors(array) for array in actions):
        return Traces.from_episodes([np.asarray(pair[0]) for pair in pairs], actions, ())
    names: tuple[str, ...]
    if actions and all(array.dtype.kind in "US" for array in actions):
        names = tuple(sorted({str(name) for array in actions for name in array}))
        numbers = {name: number for number, name in enumerate(names)}
        actions = [np.array([numbers[str(name)] for name in array], dtype=np.int64) for array in actions]
    else:
        if not all(array.dtype.kind in "iu" for array in actions):
            raise InputError("actions must be whole numbers or names, or rows of fractions: one vector a step")
        names = tuple(str(number) for number in range(max((int(a.max(initial=0)) for a in actions), default=0) + 1))
    return Traces.from_episodes([np.asarray(pair[0]) for pair in pairs], actions, names)
