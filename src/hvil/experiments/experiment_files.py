"""Finds experiments: a figure of the paper by its name, a user's own in a Python or TOML file."""

import importlib.util
import re
import tomllib
from importlib import import_module
from pathlib import Path

from hvil.experiments.experiment import Experiment
from hvil.gate.errors import InputError

FIGURES = ("acausal", "bubblesort", "karel-data", "karel-length")


def find_experiment(name: str) -> Experiment:
    """The figure of that name, or the experiment in the file of that name.

    Raises:
        InputError: there is neither, or the file holds no experiment.
    """
    if name in FIGURES:
        figure: Experiment = import_module(f"hvil.experiments.figures.{name.replace('-', '_')}").EXPERIMENT
        return figure
    path = Path(name)
    if path.suffix not in (".py", ".toml"):
        raise InputError(f"{name!r}: no such figure; expected {', '.join(FIGURES)}, or a .py or .toml file of your own")
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    experiment = _from_python(path) if path.suffix == ".py" else _from_toml(path)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", experiment.name):
        raise InputError(f"{path}: name {experiment.name!r} cannot be a file's; use letters, digits, . _ -")
    return experiment


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


def _from_toml(path: Path) -> Experiment:
    try:
        value = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: cannot be read as TOML ({error})") from error
    return Experiment.from_mapping({"name": path.stem, "title": path.stem, **value}, str(path))
