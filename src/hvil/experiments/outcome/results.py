"""Records of an experiment by their place in the figure, in memory and as JSON lines; means with intervals of them.

Letters: N runs.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hvil.analysis.statistics import Estimate, share_estimate
from hvil.experiments.engine.cells import Cell
from hvil.experiments.experiment import Experiment, Place
from hvil.gate.errors import InputError
from hvil.gate.files import read_json, write_json, write_text

RECORDS, EXPERIMENT = "records.jsonl", "experiment.json"


@dataclass(frozen=True)
class Results:
    """An experiment and what came of it so far."""

    experiment: Experiment
    records: Mapping[Place, Mapping[str, Any]]
    preset: str | None = None
    source: str = ""
    """What `hvil reproduce` was given: a figure's name or a file."""

    @cached_property
    def _runs(self) -> dict[tuple[str, str, int], dict[int, Mapping[str, Any]]]:
        found: dict[tuple[str, str, int], dict[int, Mapping[str, Any]]] = {}
        for (panel, model, size, run), record in self.records.items():
            found.setdefault((panel, model, size), {})[run] = record
        return found

    def values(self, panel: str, model: str, size: int, measure: str = "error") -> dict[int, float]:
        """What was measured, by run; runs in which it could not be are left out."""
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
        experiment = self.experiment
        return len(experiment.panels) * len(experiment.models) * len(experiment.sizes) * experiment.runs


def measured_value(record: Mapping[str, Any], measure: str) -> float | None:
    """A measure of one record; None if it has none (no test trace was unseen, say)."""
    if measure == "error_best":
        return min([float(line["error"]) for line in record["curve"]] + [float(record["error"])])
    value = record.get(measure)
    return None if value is None else float(value)


def collect(
    experiment: Experiment,
    cells: Mapping[Place, Cell],
    records: Mapping[str, Any],
    preset: str | None = None,
    source: str = "",
) -> Results:
    """Put the records of a sweep (by the key of their cell) in their places."""
    places = {place: records[cell.key] for place, cell in cells.items() if cell.key in records}
    return Results(experiment, places, preset, source)


def write_results(results: Results, directory: Path) -> None:
    """The records as JSON lines, in the order of the table, and the table itself."""
    head = {"source": results.source, "preset": results.preset, "experiment": results.experiment.to_mapping()}
    write_json(directory / EXPERIMENT, head)
    lines = [{**place._asdict(), "record": record} for place, record in results.records.items()]
    text = "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines)
    write_text(directory / RECORDS, text)


def read_results(directory: Path) -> Results:
    """What `write_results` wrote."""
    if not (directory / EXPERIMENT).is_file():
        raise InputError(f"{directory}: has no {EXPERIMENT}; expected a directory that hvil reproduce has written")
    head = _read_head(directory)
    experiment = Experiment.from_mapping(head["experiment"], str(directory / EXPERIMENT))
    return Results(experiment, read_records(directory / RECORDS), head["preset"], str(head.get("source")))


def check_same(directory: Path, experiment: Experiment, preset: str | None) -> None:
    """Refuse a directory with the results of something else: they would be replaced."""
    if not (directory / EXPERIMENT).is_file():
        return
    head = _read_head(directory)
    there, here = (head["experiment"].get("name"), head["preset"]), (experiment.name, preset)
    if there != here:
        told = [name + (f", preset {chosen}" if chosen else "") for name, chosen in (there, here)]
        raise InputError(f"{directory}: holds the results of {told[0]}; {told[1]} needs another --out")


def _read_head(directory: Path) -> dict[str, Any]:
    head = read_json(directory / EXPERIMENT)
    known = isinstance(head, dict) and isinstance(head.get("experiment"), dict)
    if not known or not isinstance(head.get("preset"), str | None):
        raise InputError(f"{directory / EXPERIMENT}: not what hvil reproduce writes")
    return dict(head)


def read_records(path: Path) -> dict[Place, dict[str, Any]]:
    """The records of a file of JSON lines; none if there is no file."""
    found: dict[Place, dict[str, Any]] = {}
    if not path.exists():
        return found
    for number, text in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), 1):
        if not text:
            continue
        try:
            line = json.loads(text)
            place = Place(str(line["panel"]), str(line["model"]), int(line["size"]), int(line["run"]))
            record = line["record"]
            float(record["error"]), Cell.from_mapping(record["cell"])
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path}, line {number}: not a record ({type(error).__name__}: {error})") from error
        found[place] = record
    return found


def restore(path: Path, store: Path) -> None:
    """Give a sweep the records that came with the repository, so that it does not run their cells again."""
    for record in read_records(path).values():
        target = store / f"{Cell.from_mapping(record['cell']).key}.json"
        if not target.exists():
            store.mkdir(parents=True, exist_ok=True)
            write_json(target, record)
