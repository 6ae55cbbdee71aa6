"""A sweep: runs the cells of an experiment, each exactly once, and stores their records, one JSON file a cell.

A sweep can be interrupted at any moment and started again: cells that have a record are not run again. An engine
(`local`, `ray`) does the work; `cells` says what the work is.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from hvil.experiments.engine.cells import Cell, run_cell
from hvil.gate.border import given_directory, has_file
from hvil.gate.engine.local import Engine, Failure, Job, run_jobs
from hvil.gate.errors import InputError
from hvil.gate.files import Locked, lock, read_json

WORK = "hvil.experiments.engine.sweep:work"

OnProgress = Callable[[float, int, int], None]
"""Called with the share of the work that is done, and with how many cells of how many have a record.

The work is what had to be done when the sweep began: cells that had a record before are not part of it.
"""


class Swept(NamedTuple):
    """What a sweep leaves behind."""

    records: dict[str, dict[str, Any]]
    """The record of each cell by its key; cells that failed are missing."""
    failures: list[Failure]


def work(cell: Mapping[str, Any], progress: Callable[[float], None], scratch: Path) -> dict[str, Any]:
    """Run one cell in a worker."""
    return run_cell(Cell.from_mapping(cell), progress, scratch)


def ignore_progress(share: float, done: int, total: int) -> None:
    """Tell nobody."""


def sweep(
    cells: Sequence[Cell],
    directory: Path,
    workers: int | None = None,
    on_progress: OnProgress = ignore_progress,
    work: str = WORK,
    engine: Engine = run_jobs,
) -> Swept:
    """Run the cells that have no record yet.

    Args:
        cells: what to run; a cell that occurs several times is run once.
        directory: where the records are stored (in `cells/`); it is made if it does not exist.
        workers: the number of processes, by default one for each processor.
        on_progress: called as the work advances.
        work: what the workers do with a cell, as `module:function`.
        engine: who does the work; by default processes on this machine.
    """
    with sweep_directory(cells, directory):
        return run_missing(cells, directory, workers, on_progress, work, engine)


@contextmanager
def sweep_directory(cells: Sequence[Cell], directory: Path) -> Iterator[None]:
    """Check the cells, make the directory, and lock it while the block runs.

    Cells that cannot be run are refused before anything is written. The lock stops a second sweep, which would run the
    same cells again; it ends with the process.
    """
    for cell in cells:
        cell.check()
    store = directory / "cells"
    try:
        store.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{store}: cannot be made ({error.strerror})") from error
    given_directory(directory)
    with ExitStack() as stack:
        try:
            stack.enter_context(lock(directory / ".lock", wait=0))
        except Locked as error:
            raise InputError(f"{directory}: another sweep is running there") from error
        yield


def run_missing(
    cells: Sequence[Cell],
    directory: Path,
    workers: int | None,
    on_progress: OnProgress,
    work: str,
    engine: Engine,
) -> Swept:
    """Do the work of `sweep`, in a directory that the caller has locked with `sweep_directory`."""
    unique = {cell.key: cell for cell in cells}
    store = directory / "cells"
    jobs = [
        Job(
            key=key,
            cell=cell.to_mapping(),
            target=store / f"{key}.json",
            scratch=directory / "unfinished" / key,
        )
        for key, cell in unique.items()
        if read_record(store, key) is None
    ]
    shares = dict.fromkeys((job.key for job in jobs), 0.0)
    done = len(unique) - len(jobs)

    def advance(key: str, share: float) -> None:
        shares[key] = share
        on_progress(sum(shares.values()) / len(shares), done, len(unique))

    def finish(key: str) -> None:
        nonlocal done
        done += 1
        advance(key, 1.0)

    processes = workers or os.cpu_count() or 1
    failures = engine(jobs, work, processes, directory / "workers.log", advance, finish)
    return Swept(records=read_store(store, unique), failures=failures)


def read_store(store: Path, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The records of those cells that have one, by key."""
    records = {key: read_record(store, key) for key in keys}
    return {key: record for key, record in records.items() if record is not None}


def read_record(store: Path, key: str) -> dict[str, Any] | None:
    """The record of a cell, None if there is none."""
    path = store / f"{key}.json"
    if not has_file(path):
        return None
    record = read_json(path)
    if not isinstance(record, dict):
        raise InputError(f"{path}: not a record; remove it to run the cell again")
    return record
