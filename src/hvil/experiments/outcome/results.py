"""The records of an experiment by their position in the figure, in memory and as JSON lines, and means over runs.

What the numbers say of the claims is the business of `verdicts`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hvil.analysis.statistics import Estimate, share_estimate
from hvil.experiments.engine.cells import Cell, check_record
from hvil.experiments.experiment import Experiment, Position
from hvil.gate.border import given_directory, has_file
from hvil.gate.errors import InputError
from hvil.gate.files import json_line, read_json, read_json_lines, write_json, write_text
from hvil.gate.settings import from_mapping

RECORDS, EXPERIMENT = "records.jsonl", "experiment.json"


@dataclass(frozen=True)
class Results:
    """An experiment and the records that it has so far."""

    experiment: Experiment
    records: Mapping[Position, Mapping[str, Any]]
    preset: str | None = None
    source: str = ""
    """What `hvil reproduce` was given: a figure's name or a file."""

    @cached_property
    def _runs(self) -> dict[tuple[str, str, int], dict[int, Mapping[str, Any]]]:
        """The records of each panel, model and size, by run."""
        runs: dict[tuple[str, str, int], dict[int, Mapping[str, Any]]] = {}
        for (panel, model, size, run), record in self.records.items():
            runs.setdefault((panel, model, size), {})[run] = record
        return runs

    def values(self, panel: str, model: str, size: int, measure: str = "error") -> dict[int, float]:
        """The values of a measure by run; runs that have none are left out."""
        runs = self._runs.get((panel, model, size), {})
        measured = {run: measured_value(record, measure) for run, record in sorted(runs.items())}
        return {run: value for run, value in measured.items() if value is not None}

    def estimate(self, panel: str, model: str, size: int, measure: str = "error") -> Estimate | None:
        """The mean over runs with its 95% interval; None if there is no run."""
        values = np.array(list(self.values(panel, model, size, measure).values()))
        return share_estimate(values) if len(values) else None

    @property
    def expected(self) -> int:
        """How many records a complete set has."""
        return self.experiment.size


def measured_value(record: Mapping[str, Any], measure: str) -> float | None:
    """A measure of one record; None if it has none (for example, if no test trace was unseen)."""
    if measure == "error_best":
        errors = [line.get("error") for line in record["curve"]]
        return min([float(error) for error in errors if error is not None] + [float(record["error"])])
    value = record.get(measure)
    return None if value is None else float(value)


def collect(
    experiment: Experiment,
    cells: Mapping[Position, Cell],
    records: Mapping[str, Any],
    preset: str | None = None,
    source: str = "",
) -> Results:
    """Sort the records of a sweep, which come by the key of their cell, by position."""
    sorted_records = {position: records[cell.key] for position, cell in cells.items() if cell.key in records}
    return Results(experiment=experiment, records=sorted_records, preset=preset, source=source)


@dataclass(frozen=True)
class _Head:
    """The contents of `experiment.json`."""

    source: str
    preset: str | None
    experiment: Experiment


@dataclass(frozen=True)
class _Line:
    """A line of `records.jsonl`."""

    panel: str
    model: str
    size: int
    run: int
    record: Mapping[str, Any]


def write_results(results: Results, directory: Path) -> None:
    """Write the table, and the records as JSON lines in the order of the table."""
    head = {"source": results.source, "preset": results.preset, "experiment": results.experiment.to_mapping()}
    write_json(directory / EXPERIMENT, head)
    lines = [{**position._asdict(), "record": record} for position, record in results.records.items()]
    write_text(directory / RECORDS, "".join(map(json_line, lines)))


def read_results(directory: Path) -> Results:
    """Read what `write_results` wrote."""
    if not has_file(given_directory(directory) / EXPERIMENT):
        raise InputError(f"{directory}: has no {EXPERIMENT}; expected a directory that hvil reproduce has written")
    head = _read_head(directory)
    return Results(
        experiment=head.experiment,
        records=read_records(directory / RECORDS),
        preset=head.preset,
        source=head.source,
    )


def check_same(directory: Path, experiment: Experiment, preset: str | None) -> None:
    """Refuse a directory with the results of another experiment, which would be replaced."""
    if not has_file(directory / EXPERIMENT):
        return
    head = _read_head(directory)
    there, here = _full_name(head.experiment, head.preset), _full_name(experiment, preset)
    if there != here:
        raise InputError(f"{directory}: holds the results of {there}; {here} needs another --out")


def _full_name(experiment: Experiment, preset: str | None) -> str:
    return f"{experiment.name}, preset {preset}" if preset else experiment.name


def _read_head(directory: Path) -> _Head:
    path = directory / EXPERIMENT
    return from_mapping(_Head, read_json(path), str(path), noun="entry")


def read_records(path: Path) -> dict[Position, dict[str, Any]]:
    """Read the records of a file of JSON lines; there are none if there is no file."""
    records: dict[Position, dict[str, Any]] = {}
    if not has_file(path):
        return records
    for where, value in read_json_lines(path):
        line = from_mapping(_Line, value, where, noun="entry")
        position = Position(panel=line.panel, model=line.model, size=line.size, run=line.run)
        records[position] = check_record(line.record, where)
    return records


def restore(path: Path, store: Path) -> None:
    """Write the records of a file of JSON lines to the store of a sweep, which then does not run their cells again."""
    for record in read_records(path).values():
        target = store / f"{Cell.from_mapping(record['cell']).key}.json"
        if not target.exists():
            write_json(target, record)
