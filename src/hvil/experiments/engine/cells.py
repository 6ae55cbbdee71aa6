"""A cell: one learner, trained on one training set and tested. Every experiment consists of cells.

`sweep` runs many of them; which cells make a figure is the business of `experiment`.
"""

import hashlib
import json
import os
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch

from hvil import __version__
from hvil.data.settings import DataSettings
from hvil.data.sources import Data, load_data, names_task
from hvil.data.streams import independent_seed
from hvil.data.tasks import find_task
from hvil.experiments.engine.origins import origin
from hvil.experiments.engine.pools import pooled_data
from hvil.gate.engine.here import run_here
from hvil.gate.errors import InputError
from hvil.gate.files import remove_directory
from hvil.gate.settings import from_mapping, setting, setting_names, to_mapping
from hvil.learners import LEARNERS
from hvil.learners.config import Config
from hvil.learners.settings import TrainingSettings
from hvil.machine.callgraph import call_graph, graph_contents
from hvil.training.observers import ShareDone, read_metrics
from hvil.training.plan import ANNOTATED, check_settings, make_plan
from hvil.training.restarts import train_plan
from hvil.training.run_files import METRICS

Progress = Callable[[float], None]
"""A function to call now and then with the share of a cell's training that is done."""

NEVER = 1_000_000_000
"""Evaluations without improvement before a cell with validation traces stops: the best of all is chosen."""

CURVE = ("update", "error", "training_error")
"""What a record says of each evaluation during training."""


@dataclass(frozen=True)
class Cell:
    """Everything that determines a result: two cells with the same contents are the same cell."""

    task: str
    """A task, or files of one's own."""
    demos: int
    """The number of training traces."""
    run: int
    """The number of the run. It seeds the training set, the test set, the initial weights and the order of the data,
    so learners can be compared in pairs of runs with the same number."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """`model`, fields of the learner's settings and of `TrainingSettings`, and `call_graph`, where they differ from the
    fields' defaults."""
    test_traces: int = 100
    pool: int = 0
    """If it is not 0: training and test traces are drawn without replacement from this many demonstrations, which all
    runs share. If it is 0, each run has fresh demonstrations of its own."""
    percentile: int = 0
    """If it is not 0: training traces are shorter than this percentile of the pool's *different* lengths, and test
    traces are at least as long."""
    contents: str = ""
    """What the task's name does not say (`Origin.contents`), such as the text of a program's file."""
    validation: int = 0
    """If it is not 0: this many further traces choose among the evaluations during training. The weights that make them
    most likely are tested, as in the authors' program. If it is 0, the last weights are tested."""

    @property
    def learner(self) -> str:
        """The name of its learner."""
        return str(self.settings.get("model", "hvil"))

    @property
    def key(self) -> str:
        """The cell's name, also that of its file: readable, and different for different contents."""
        words = f"{self.task}-{self.learner}-{self.demos}-{self.run}"
        # Fields with their default values are left out: records stay valid when a field is added to the class.
        contents = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        contents["settings"] = relevant(self.settings)
        defaults = {entry.name: entry.default for entry in fields(self)}
        differing = {name: value for name, value in contents.items() if value != defaults[name]}
        digest = hashlib.sha256(json.dumps(differing, sort_keys=True).encode()).hexdigest()[:10]
        return re.sub(r"[^A-Za-z0-9.]+", "-", words) + f"-{digest}"

    def to_mapping(self) -> dict[str, Any]:
        """The form in a record."""
        return asdict(self)

    @staticmethod
    def from_mapping(value: Any) -> "Cell":
        """The inverse of `to_mapping`; what is wrong with the value is an `InputError`."""
        return from_mapping(Cell, value, "cell", noun="entry")

    def check(self) -> None:
        """Raise an `InputError` if the cell cannot be run."""
        if self.demos < 1 or self.test_traces < 1 or self.run < 0:
            raise InputError(f"{self.key}: needs at least one training trace, one test trace, and a run from 0")
        if not 0 <= self.percentile <= 100 or (self.percentile and not self.pool):
            raise InputError(f"{self.key}: a percentile is a number from 1 to 100, and needs a pool to be one of")
        needed = self.demos + self.test_traces + self.validation
        if self.pool and self.pool < needed:
            raise InputError(f"{self.key}: a pool of {self.pool} has not the {needed} traces that are wanted")
        if self.validation < 0:
            raise InputError(f"{self.key}: validation is a number of traces, and cannot be {self.validation}")
        check_settings(self.settings)
        if self.settings.get("patience"):
            raise InputError(f"{self.key}: a cell is trained to its last update, so there is no patience")
        if (self.pool or self.validation) and not names_task(self.task):
            raise InputError(f"{self.key}: a pool and validation traces are drawn from a task, not from files")
        graph = self.settings.get("call_graph")
        if names_task(self.task) or graph is not None:  # files are not read without need
            actions = origin(self.task).action_names
            if graph not in (None, ANNOTATED):
                call_graph(graph, actions)


@dataclass(frozen=True)
class _CurvePoint:
    """An evaluation during training, as a record has it."""

    update: int
    error: float | None = None
    training_error: float | None = None


@dataclass(frozen=True)
class _Record:
    """What everybody who reads a record relies on; it holds more, which is shown and not computed with."""

    cell: Cell
    error: float = setting(0.0, "share of the test traces", low=0, high=1)
    error_unseen: float | None = setting(None, "the same of unseen traces", low=0, high=1)
    training_error: float | None = setting(None, "share of the training traces", low=0, high=1)
    rollout_success: float | None = setting(None, "share of the roll-outs", low=0, high=1)
    curve: tuple[_CurvePoint, ...] = ()
    seconds: float = setting(0.0, "wall time", low=0)
    version: str = ""


def check_record(record: Any, where: str) -> dict[str, Any]:
    """A record, if it holds what everybody relies on; it may come from another machine, or from a file.

    Raises:
        InputError: it does not.
    """
    if not isinstance(record, Mapping):
        raise InputError(f"{where}: not a record")
    missing = [name for name in ("cell", "error", "seconds", "version", "curve") if name not in record]
    if missing:
        raise InputError(f"{where}: not a record, {', '.join(missing)} is missing")
    known = {entry.name for entry in fields(_Record)}
    from_mapping(_Record, {name: value for name, value in record.items() if name in known}, where, noun="entry")
    return dict(record)


def self_contained(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the contents of a call graph's file in place of the file's name."""
    return {name: graph_contents(value) if name == "call_graph" else value for name, value in settings.items()}


def relevant(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that the learner reads: a baseline is the same whatever the procedures beside it look like."""
    kind = LEARNERS[settings.get("model", "hvil")]
    if kind().has_procedures:
        return dict(settings)
    others = setting_names(*(LEARNERS[name] for name in LEARNERS.own)) - setting_names(kind) | {"call_graph"}
    return {name: value for name, value in settings.items() if name not in others}


def run_cell(cell: Cell, progress: Progress, scratch: Path) -> dict[str, Any]:
    """Train and test. The record holds the cell, what was measured, and the errors during training.

    Args:
        cell: what to train and test.
        progress: called as the training advances.
        scratch: a directory for the unfinished run. If it exists, the run continues from what is there.
    """
    source = DataSettings(source=cell.task, demos=cell.demos, test_traces=cell.test_traces)
    own_traces = bool(cell.pool or cell.validation)
    if own_traces:
        source = replace(source, source="")  # a run must not load its traces again: the task would make others
    elif not names_task(cell.task):
        source = replace(source, validation=0.0)  # as for a task, all training traces are learned from
    data = _data(cell, source)
    if cell.contents and origin(cell.task).contents != cell.contents:
        raise InputError(f"{cell.task}: has changed since the sweep began; start it again")
    read = {"model"} | setting_names(LEARNERS[cell.learner], TrainingSettings)
    settings = {name: value for name, value in cell.settings.items() if name in read}
    if cell.validation:
        settings["patience"] = NEVER
    graph = cell.settings.get("call_graph")
    plan = make_plan(data, settings | {"seed": cell.run}, graph, data_settings=source, defaults="fields")
    watchers = [ShareDone(progress)]
    try:
        run = train_plan(plan, data, scratch, resume=True, observers=watchers, engine=run_here)
    except InputError:
        # What an earlier version or a crash left may be unusable: start afresh. If the cell itself is at fault, the
        # same error comes again.
        remove_directory(scratch)
        run = train_plan(plan, data, scratch, observers=watchers, engine=run_here)
    if own_traces:
        run.source = cell.task  # named by the user: a task's own file may be read, wherever it is
    metrics = read_metrics(scratch / METRICS)
    config = run.config  # of the restart that was kept
    return {
        "cell": cell.to_mapping(),
        **run.evaluate().to_mapping(),
        "training_error": float(run.policy.wrong(data.training).mean()),
        "curve": [{name: line[name] for name in CURVE} for line in metrics if "error" in line],
        "updates": run.updates,
        "settings": {
            "model": config.learner,
            **to_mapping(config.model),
            **to_mapping(config.training),
            "call_graph": _default_graph(data, config) if graph is None else graph,
        },
        "seconds": round(run.seconds, 3),
        "version": __version__,
        "machine": machine(),
    }


def _default_graph(data: Data, config: Config) -> Any:
    """The call graph of a cell that names none."""
    return config.graph.to_mapping() if data.task is None else data.task.default_call_graph


def _data(cell: Cell, source: DataSettings) -> Data:
    """The traces of a cell."""
    if cell.pool:
        return pooled_data(
            cell.task,
            cell.pool,
            demos=cell.demos,
            test_traces=cell.test_traces,
            percentile=cell.percentile,
            run=cell.run,
            validation=cell.validation,
        )
    data = load_data(cell.task, source, cell.run)
    if not cell.validation:
        return data
    # Any seed that is neither the training set's nor the test set's will do: this is the test set's of the test set's.
    seed = independent_seed(independent_seed(cell.run))
    return data._replace(validation=find_task(cell.task).demonstrations(cell.validation, seed))


def machine() -> dict[str, Any]:
    """What a cell's speed and the last bits of its numbers may depend on; it names nobody's computer."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }
