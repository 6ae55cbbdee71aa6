"""Recipes: every setting of a run as one TOML file, `run.toml`. `hvil fit --config run.toml` does the same again.

A recipe has the names of the flags with underscores: `source`, `model`, `call_graph` and all settings. One written by
hand may leave settings out; the planner then decides them.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hvil.gate.border import has_file
from hvil.gate.errors import InputError
from hvil.gate.files import read_toml, write_text
from hvil.training.plan import GraphSpec, Plan
from hvil.training.run_files import RECIPE

_KEYS = ("source", "call_graph")
"""What a recipe has beside settings."""


class Recipe(NamedTuple):
    """What a user gives for a fit."""

    source: str | None
    """None: the traces came from Python."""
    call_graph: GraphSpec | None
    settings: dict[str, Any]


def read_recipe(path: str | Path) -> Recipe:
    """Read a TOML file; the planner checks its settings.

    Raises:
        InputError: there is no such file, it is no TOML, or source or call graph are not what they should be.
    """
    values = read_toml(path)
    source, graph = (values.get(key) for key in _KEYS)
    if not isinstance(source, str | None):
        raise InputError(f"{path}: source must be text")
    if not isinstance(graph, str | Mapping | None):
        raise InputError(f"{path}: call_graph must be text or a table")
    return Recipe(source, graph, {name: value for name, value in values.items() if name not in _KEYS})


def write_recipe(out: Path, plan: Plan) -> None:
    """Write the recipe of a run into its directory; that of a run which goes on keeps the restart it began with."""
    values = {name: value for name, value in plan.settings().items() if value is not None}
    if has_file(out / RECIPE):
        values["restart"] = read_recipe(out / RECIPE).settings.get("restart", values["restart"])
    source = values.pop("source")
    head = f"# hvil fit --config {RECIPE} --out NEW_RUN\n"
    if source:
        head += f"source = {_toml(source)}\n"
    else:
        head += "# The traces came from Python and are in this directory: name a source on the command line.\n"
    lines = [f"{name} = {_toml(value)}\n" for name, value in values.items()]
    graph = f"call_graph = {_toml(plan.config.graph.to_mapping())}\n"
    write_text(out / RECIPE, head + "".join(lines) + graph)


def _toml(value: Any) -> str:
    """A value as TOML; its strings, numbers and truth values are written as in JSON."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(str(key))} = {_toml(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
