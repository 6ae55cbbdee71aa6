"""From a table to its figure: run what is missing, collect, draw, judge, write it down. `hvil reproduce` is this."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hvil.errors import InputError
from hvil.experiments.experiment import Experiment
from hvil.experiments.figures import draw
from hvil.experiments.local_engine import Engine, Failure, run_jobs
from hvil.experiments.results import RECORDS, Results, collect, restore, write_results
from hvil.experiments.sweep import read_record, sweep
from hvil.experiments.tables import page
from hvil.experiments.verdicts import Finding, judge
from hvil.files import write_text

PAGE = "README.md"
"""The name under which hosts of repositories show a directory."""


WRITE_SECONDS = 60.0
"""Between two writings of the collected records while a sweep runs."""


class Shown(NamedTuple):
    """What was made of the records."""

    findings: list[Finding]
    pictures: list[Path]
    page: Path


def run_experiment(
    experiment: Experiment,
    directory: Path,
    *,
    preset: str | None = None,
    source: str = "",
    workers: int | None = None,
    engine: Engine = run_jobs,
    on_progress: Callable[[float, int, int], None] = lambda share, done, total: None,
) -> tuple[Results, list[Failure]]:
    """Run the cells that have no record, and write all records.

    Args:
        experiment: with its preset already put in.
        directory: where the records are and go.
        preset: its name, to be told.
        source: what was asked for, to be told.
        workers: processes, by default one a processor.
        engine: who does the work.
        on_progress: told the share of the work that is done, and how many cells of how many have a record.
    """
    cells = experiment.cells()
    store = directory / "cells"
    restore(directory / RECORDS, store)

    def found() -> Results:
        records = {cell.key: read_record(store, cell.key) for cell in cells.values()}
        here = {key: record for key, record in records.items() if record is not None}
        return collect(experiment, cells, here, preset, source)

    total = len({cell.key for cell in cells.values()})

    written = time.monotonic()

    def progress(share: float) -> None:
        nonlocal written
        if time.monotonic() - written >= WRITE_SECONDS:  # so that what there is can be drawn, and kept, meanwhile
            write_results(found(), directory)
            written = time.monotonic()
        on_progress(share, sum(1 for _ in store.glob("[!.]*.json")), total)

    try:
        swept = sweep(list(cells.values()), directory, workers, progress, engine=engine)
    finally:  # also of an interrupted sweep: its records can be drawn
        if store.is_dir():
            write_results(found(), directory)
    return collect(experiment, cells, swept.records, preset, source), swept.failures


def show(results: Results, directory: Path) -> Shown:
    """Draw the figures and write the page; from the same records always the same bytes."""
    if not results.records:
        raise InputError(f"{results.experiment.name}: there are no records to show")
    findings = [finding for claim in results.experiment.claims for finding in judge(claim, results)]
    pictures = draw(results, directory)
    target = directory / PAGE
    write_text(target, page(results, findings, pictures))
    return Shown(findings, pictures, target)
