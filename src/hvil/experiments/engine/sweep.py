"""Runs the cells of an experiment, each exactly once, and keeps their records: one JSON file a cell.

A sweep can be interrupted at any moment and started again: cells that have a record are not run again. Who does the
work is the engine's business (`local_engine`), what the work is, `cells`'.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from hvil.experiments.engine.cells import Cell, run_cell
from hvil.experiments.engine.local import Engine, Failure, Job, run_jobs
from hvil.gate.errors import InputError
from hvil.gate.files import read_json

WORK = "hvil.experiments.engine.sweep:work"


class Swept(NamedTuple):
    """What a sweep left behind."""

    records: dict[str, dict[str, Any]]
    """The record of each cell by its key; cells that failed are missing."""
    failures: list[Failure]


def work(cell: Mapping[str, Any], progress: Callable[[float], None], scratch: Path) -> dict[str, Any]:
    """What a worker does with a cell."""
    return run_cell(Cell.from_mapping(cell), progress, scratch)


def sweep(
    cells: Sequence[Cell],
    directory: Path,
    workers: int | None = None,
    on_progress: Callable[[float], None] = lambda share: None,
    work: str = WORK,
    engine: Engine = run_jobs,
) -> Swept:
    """Run the cells that have no record yet.

    Args:
        cells: what to run; the same cell may stand in it several times.
        directory: where the records are kept (in `cells/`); made if it is not there.
        workers: processes, by default one for each processor.
        on_progress: told the share of the work that is done, of what was to do when the sweep began.
        work: what the workers do with a cell, as `module:function`.
        engine: who does the work; by default processes on this machine.
    """
    with opened(cells, directory):
        return run_missing(cells, directory, workers, on_progress, work, engine)


@contextmanager
def opened(cells: Sequence[Cell], directory: Path) -> Iterator[None]:
    """Have the directory for oneself; cells that cannot be run are refused before anything is written there."""
    for cell in cells:
        cell.check()
    _make(directory / "cells")
    with _alone(directory):
        yield


def run_missing(
    cells: Sequence[Cell],
    directory: Path,
    workers: int | None,
    on_progress: Callable[[float], None],
    work: str,
    engine: Engine,
) -> Swept:
    """What `sweep` does in a directory that is `opened`."""
    unique = {cell.key: cell for cell in cells}
    store = directory / "cells"
    jobs = [
        Job(key, cell.to_mapping(), store / f"{key}.json", directory / "unfinished" / key)
        for key, cell in unique.items()
        if read_record(store, key) is None
    ]
    shares = dict.fromkeys((job.key for job in jobs), 0.0)

    def progress(key: str, share: float) -> None:
        shares[key] = share
        on_progress(sum(shares.values()) / len(shares))

    failures = engine(
        jobs,
        work,
        workers or os.cpu_count() or 1,
        directory / "workers.log",
        progress,
        lambda key: progress(key, 1.0),
    )
    return Swept(read_store(store, unique), failures)


def read_store(store: Path, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The records of those cells that have one, by key."""
    found = {key: read_record(store, key) for key in keys}
    return {key: record for key, record in found.items() if record is not None}


def read_record(store: Path, key: str) -> dict[str, Any] | None:
    """The record of a cell, None if there is none."""
    path = store / f"{key}.json"
    if not path.exists():
        return None
    record = read_json(path)
    if not isinstance(record, dict):
        raise InputError(f"{path}: not a record; remove it to run the cell again")
    return record


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{directory}: cannot be made ({error.strerror})") from error


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One sweep at a time in a directory, so that no cell is run twice; the lock ends with the process."""
    with (directory / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(f"{directory}: another sweep is running there") from error
        yield
