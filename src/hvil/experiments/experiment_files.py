"""Finds experiments: a figure of the paper by its name, a user's own in a TOML or Python file.

A TOML file is data: what it names stays in its directory. A Python file is a program, and is run only if the user says
that it is to be trusted.
"""

import importlib.util
from importlib import import_module
from pathlib import Path

from hvil.experiments.engine.cells import self_contained
from hvil.experiments.engine.origins import origin
from hvil.experiments.experiment import Experiment
from hvil.gate.border import Outside, confined, regular_file
from hvil.gate.errors import InputError
from hvil.gate.files import read_toml

FIGURES = ("acausal", "bubblesort", "karel-data", "karel-length", "ablations-bubblesort", "ablations-karel")


def find_experiment(name: str, trust: bool = False) -> Experiment:
    """The figure of that name, or the experiment in the file of that name.

    Args:
        name: of a figure or a file.
        trust: run a Python file, and let a TOML file name files outside its directory.

    Raises:
        InputError: there is neither, the file holds no experiment, or it is not to be trusted.
    """
    if name in FIGURES:
        figure: Experiment = import_module(f"hvil.experiments.figures.{name.replace('-', '_')}").EXPERIMENT
        return figure
    path = Path(name)
    if path.suffix not in (".py", ".toml"):
        raise InputError(f"{name!r}: no such figure; expected {', '.join(FIGURES)}, or a .py or .toml file of your own")
    regular_file(path)
    if path.suffix == ".toml":
        return _from_toml(path, trust)
    if not trust:
        raise InputError(f"{path}: is a program, which can do anything; if you trust it, run it with --trust")
    return _from_python(path)


def _from_python(path: Path) -> Experiment:
    specification = importlib.util.spec_from_file_location(f"hvil_experiment_{path.stem}", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    try:
        specification.loader.exec_module(module)
    except InputError:
        raise
    except Exception as error:  # anything can be wrong with a user's program: say where
        raise InputError(f"{path}: {type(error).__name__}: {error}") from error
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, Experiment):
        raise InputError(f"{path}: expected EXPERIMENT = Experiment(…), from hvil.experiments.experiment")
    return experiment


def _from_toml(path: Path, trust: bool) -> Experiment:
    contents = {"name": path.stem, "title": path.stem, **read_toml(path)}
    experiment = Experiment.from_mapping(contents, str(path))
    if not trust:
        try:
            with confined(path.parent):
                _read_named_files(experiment)
        except Outside as error:
            raise InputError(f"{path}: {error}, or trust the experiment with --trust") from error
    return experiment


def _read_named_files(experiment: Experiment) -> None:
    """Read whatever an experiment names: the programs of tasks, files of traces, and call graphs."""
    for task in experiment.panels.values():
        if task.startswith("minari:"):
            raise Outside(f"{task}: a Minari data set is not in the directory of the experiment")
        origin(task)
    for settings in (
        experiment.settings,
        *experiment.models.values(),
        *(p.settings for p in experiment.presets.values()),
    ):
        self_contained(settings)
