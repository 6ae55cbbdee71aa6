"""From a table to its page: run the cells that have no record, draw the figure, judge the claims, write the page.

`hvil reproduce` does nothing else.
"""

import time
from pathlib import Path
from typing import NamedTuple

from hvil.experiments.engine.cells import check_record
from hvil.experiments.engine.sweep import WORK, OnProgress, ignore_progress, read_store, run_missing, sweep_directory
from hvil.experiments.experiment import EVERYTHING, Experiment, Part
from hvil.experiments.outcome.plots import draw
from hvil.experiments.outcome.results import RECORDS, Results, check_same, collect, restore, write_results
from hvil.experiments.outcome.tables import page
from hvil.experiments.outcome.verdicts import Finding, judge_all
from hvil.gate.engine.local import Engine, Failure, run_jobs
from hvil.gate.errors import InputError
from hvil.gate.files import write_text

PAGE = "README.md"
"""Hosts of repositories show the file of this name when a directory is opened."""

WRITE_SECONDS = 60.0
"""The time between two writings of the collected records while a sweep runs. The largest figure's records are a
megabyte, so writing them takes no noticeable part of a minute."""


class Shown(NamedTuple):
    """What `show` has written, and the verdicts in it."""

    findings: list[Finding]
    pictures: list[Path]
    page: Path


def default_directory(experiment: Experiment, preset: str | None) -> Path:
    """Where the results of an experiment go, unless the user says otherwise."""
    return Path("results", experiment.name + (f"-{preset}" if preset and preset != "ours" else ""))


def run_experiment(
    experiment: Experiment,
    directory: Path,
    *,
    preset: str | None = None,
    source: str = "",
    part: Part = EVERYTHING,
    workers: int | None = None,
    engine: Engine = run_jobs,
    on_progress: OnProgress = ignore_progress,
) -> tuple[Results, list[Failure]]:
    """Run the cells that have no record, and write all records.

    Args:
        experiment: the table, in the size of the preset.
        directory: where the records are read and written.
        preset: the name of the preset, for the results.
        source: the figure's name or the file, for the results.
        part: what to run; the records of other cells stay as they are.
        workers: the number of processes, by default one for each processor.
        engine: who does the work.
        on_progress: called as the work advances.
    """
    experiment.check_part(part)
    cells = experiment.cells()
    wanted = [cell for position, cell in cells.items() if part.covers(position)]
    keys = {cell.key for cell in cells.values()}
    store = directory / "cells"

    def write() -> None:
        write_results(collect(experiment, cells, read_store(store, keys), preset, source), directory)

    written = time.monotonic()

    def progress(share: float, done: int, total: int) -> None:
        nonlocal written
        if time.monotonic() - written >= WRITE_SECONDS:  # the records so far can be drawn while the sweep goes on
            write()
            written = time.monotonic()
        on_progress(share, done, total)

    check_same(directory, experiment, preset)
    with sweep_directory(list(cells.values()), directory):
        restore(directory / RECORDS, store)
        try:
            swept = run_missing(wanted, directory, workers, progress, WORK, engine)
        finally:  # the records of an interrupted sweep can be drawn, too
            write()
    records = {key: check_record(record, f"the record {key}") for key, record in read_store(store, keys).items()}
    return collect(experiment, cells, records, preset, source), swept.failures


def show(results: Results, directory: Path) -> Shown:
    """Draw the figures and write the page. The same records always give the same bytes."""
    if not results.records:
        raise InputError(f"{results.experiment.name}: there are no records to show")
    findings = judge_all(results)
    pictures = draw(results, directory)
    target = directory / PAGE
    write_text(target, page(results, findings, pictures))
    return Shown(findings=findings, pictures=pictures, page=target)
