"""A cell: one learner trained on one training set and tested. What an experiment consists of.

`sweep` runs many of them; which cells make a figure is up to each figure's own file.
"""

import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hvil.gate.errors import InputError
from hvil.gate.settings import from_mapping, to_mapping

if TYPE_CHECKING:
    from hvil.learners.config import ModelSettings, TrainingSettings

Progress = Callable[[float], None]
"""Called now and then with the share of a cell that is done."""

READ_BY_BASELINES = {"model", "network", "units", "layers", "last_action"}
"""The model settings that matter to an LSTM, a feed-forward policy or a Stack-RNN."""

CURVE = ("update", "error", "training_error")


@dataclass(frozen=True)
class Cell:
    """What determines a result: two cells with the same contents are the same cell."""

    task: str
    demos: int
    """Training traces."""
    run: int
    """Number of the run: it seeds the training set, the test set, the initial weights and the order of the data, so
    that learners with the same number can be compared in pairs."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `ModelSettings` and `TrainingSettings`, and `call_graph`, where they differ from the defaults."""
    test_traces: int = 100
    pool: int = 0
    """Training and test traces are drawn, without replacement, from this many demonstrations that all runs share; 0:
    they are fresh demonstrations of the run's own."""
    percentile: int = 0
    """Training traces are shorter than this percentile of the pool's *different* lengths, test traces at least as
    long; 0: of any length."""
    contents: str = ""
    """What the task's name leaves open (`Task.contents`)."""

    @property
    def key(self) -> str:
        """Its name, also of its file: readable, and different for different contents."""
        words = f"{self.task}-{self.settings.get('model', 'hvil')}-{self.demos}-{self.run}"
        # Fields at their defaults do not count, so that records stay valid when a field is added.
        contents = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        contents["settings"] = relevant(self.settings)
        defaults = {entry.name: entry.default for entry in fields(self)}
        told = {name: value for name, value in contents.items() if value != defaults[name]}
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:10]
        return re.sub(r"[^A-Za-z0-9.]+", "-", words) + f"-{digest}"

    def to_mapping(self) -> dict[str, Any]:
        """The form in a record."""
        return asdict(self)

    @staticmethod
    def from_mapping(value: Mapping[str, Any]) -> "Cell":
        """The inverse of `to_mapping`."""
        return Cell(**value)

    def check(self) -> None:
        """Raise an `InputError` if the cell cannot be run."""
        from hvil.data.tasks import find_task
        from hvil.machine.callgraph import call_graph

        if self.demos < 1 or self.test_traces < 1 or self.run < 0:
            raise InputError(f"{self.key}: needs at least one training trace, one test trace, and a run from 0")
        if not 0 <= self.percentile <= 100 or (self.percentile and not self.pool):
            raise InputError(f"{self.key}: a percentile is a number from 1 to 100, and needs a pool to be one of")
        if self.pool and self.pool < self.demos + self.test_traces:
            raise InputError(f"{self.key}: a pool of {self.pool} has not {self.demos} + {self.test_traces} traces")
        split = split_settings(self.settings)
        if split.training.patience:
            raise InputError(f"{self.key}: a cell has no held-out traces, so there is no early stopping (patience)")
        found = find_task(self.task)
        if split.call_graph is not None:
            call_graph(split.call_graph, found.action_names)


def self_contained(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with what is in a call graph's file in place of its name."""
    from hvil.machine.callgraph import graph_contents

    return {name: graph_contents(value) if name == "call_graph" else value for name, value in settings.items()}


def relevant(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that the learner reads: a baseline is the same whatever the procedures beside it look like."""
    from hvil.learners.config import ModelSettings

    if settings.get("model", "hvil") in ("hvil", "exact"):
        return dict(settings)
    others = {entry.name for entry in fields(ModelSettings)} - READ_BY_BASELINES | {"call_graph"}
    return {name: value for name, value in settings.items() if name not in others}


class SplitSettings(NamedTuple):
    """Settings by what they are for."""

    model: "ModelSettings"
    training: "TrainingSettings"
    call_graph: Any


def split_settings(settings: Mapping[str, Any]) -> SplitSettings:
    """Sort settings by their kind; an unknown one is an `InputError`."""
    from hvil.learners.config import ModelSettings, TrainingSettings

    names = [{entry.name for entry in fields(kind)} for kind in (ModelSettings, TrainingSettings)]
    unknown = sorted(set(settings) - names[0] - names[1] - {"call_graph"})
    if unknown:
        known = ", ".join(sorted({"call_graph"} | names[0] | names[1]))
        raise InputError(f"unknown setting {unknown[0]!r}; known: {known}")
    model, training = ({name: value for name, value in settings.items() if name in known} for known in names)
    return SplitSettings(
        from_mapping(ModelSettings, model, "settings"),
        from_mapping(TrainingSettings, training, "settings"),
        settings.get("call_graph"),
    )


def run_cell(cell: Cell, progress: Progress, scratch: Path) -> dict[str, Any]:
    """Train and test; the record holds the cell, what was measured, and the errors during training.

    Args:
        cell: what to do.
        progress: told how far the training is.
        scratch: a directory for the unfinished run; if it is there already, the run is gone on with.
    """
    from hvil import __version__
    from hvil.data.sources import load_data
    from hvil.experiments.engine.pools import pooled_data
    from hvil.learners.config import Config, DataSettings
    from hvil.training.observers import read_metrics
    from hvil.training.run import METRICS, fit_config

    model, training, graph = split_settings(cell.settings)
    source = DataSettings(cell.task, cell.demos, cell.test_traces)
    data = pooled_data(cell) if cell.pool else load_data(source, cell.run)
    assert data.task is not None
    if cell.contents and data.task.contents != cell.contents:
        raise InputError(f"{cell.task}: has changed since the sweep began; start it again")
    graph = data.task.default_call_graph if graph is None else graph
    config = Config.of(data.training, graph, model, replace(training, seed=cell.run), source)
    watchers = [_Watch(progress)]
    try:
        run = fit_config(config, data, scratch, resume=True, watchers=watchers)
    except InputError:
        # What an earlier version, or a crash, left there is of no use; without it, the error is a real one.
        shutil.rmtree(scratch, ignore_errors=True)
        run = fit_config(config, data, scratch, watchers=watchers)
    metrics = read_metrics(scratch / METRICS)
    return {
        "cell": cell.to_mapping(),
        **run.evaluate().to_mapping(),
        "training_error": float(run.policy.wrong(data.training).mean()),
        "curve": [{name: line[name] for name in CURVE} for line in metrics if "error" in line],
        "updates": run.updates,
        "settings": {**to_mapping(config.model), **to_mapping(config.training), "call_graph": graph},
        "seconds": round(run.seconds, 3),
        "version": __version__,
        "machine": machine(),
    }


def machine() -> dict[str, Any]:
    """Where a cell was run, as far as its speed or its last bits could depend on it; it names nobody's computer."""
    import torch

    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }


class _Watch:
    """Reports how far the training is."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.updates = 1

    def begin(self, update: int, updates: int) -> None:
        self.updates = max(updates, 1)

    def tick(self, update: int, loss: float, metrics: Mapping[str, float]) -> None:
        self.progress(update / self.updates)

    def record(self, values: Mapping[str, float]) -> None:
        pass

    def end(self) -> None:
        pass
