"""From a table to its figure: run what is missing, collect, draw, judge, write it down. `hvil reproduce` is this."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hvil.experiments.engine.local import Engine, Failure, run_jobs
from hvil.experiments.engine.sweep import WORK, opened, read_store, run_missing
from hvil.experiments.experiment import Experiment
from hvil.experiments.outcome.figures import draw
from hvil.experiments.outcome.results import RECORDS, Results, check_same, collect, restore, write_results
from hvil.experiments.outcome.tables import page
from hvil.experiments.outcome.verdicts import Finding, judge
from hvil.gate.errors import InputError
from hvil.gate.files import write_text

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
    keys = {cell.key for cell in cells.values()}
    store = directory / "cells"

    def found() -> Results:
        return collect(experiment, cells, read_store(store, keys), preset, source)

    written = time.monotonic()

    def progress(share: float) -> None:
        nonlocal written
        if time.monotonic() - written >= WRITE_SECONDS:  # so that what there is can be drawn, and kept, meanwhile
            write_results(found(), directory)
            written = time.monotonic()
        on_progress(share, sum((store / f"{key}.json").exists() for key in keys), len(keys))

    check_same(directory, experiment, preset)
    with opened(list(cells.values()), directory):
        restore(directory / RECORDS, store)
        try:
            swept = run_missing(list(cells.values()), directory, workers, progress, WORK, engine)
        finally:  # also of an interrupted sweep: its records can be drawn
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
