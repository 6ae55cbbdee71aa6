"""Settings: frozen dataclasses whose fields carry their own help, so that default, doc, flag, JSON have one source."""

import argparse
import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import Field, asdict, field, fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hvil.gate.errors import InputError

S = TypeVar("S")


def setting(default: Any, doc: str, *, low: int | float | None = None, high: int | float | None = None) -> Any:
    """A dataclass field with its help text and, for numbers, its range."""
    return field(default=default, metadata={"doc": doc, "low": low, "high": high})


def add_flags(
    parser: argparse.ArgumentParser, kind: type, leave_out: Sequence[str] = (), title: str | None = None
) -> None:
    """Add one flag for each field; a flag that is not given stays None, so that the planner can choose."""
    group = parser.add_argument_group(title or kind.__name__.removesuffix("Settings").lower() + " settings")
    for name, entry, inner in _entries(kind):
        if name in leave_out:
            continue
        flag = "--" + name.replace("_", "-")
        text = f"{entry.metadata['doc']} (default: {entry.default if entry.default != '' else 'none'})".replace(
            "%", "%%"
        )
        if inner is bool:
            group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=text)
        elif get_origin(inner) is Literal:
            group.add_argument(flag, choices=get_args(inner), default=None, help=text)
        else:
            group.add_argument(flag, type=inner, default=None, metavar=inner.__name__.upper(), help=text)


def from_flags(kind: type[S], args: argparse.Namespace, defaults: Mapping[str, Any] | None = None) -> S:
    """Settings from parsed flags; what was not given comes from `defaults`, then from the fields."""
    given = {name: getattr(args, name, None) for name, _, _ in _entries(kind)}
    chosen = {name: value for name, value in (defaults or {}).items() if name in given}
    chosen |= {name: value for name, value in given.items() if value is not None}
    return from_mapping(kind, chosen, "settings")


def from_mapping(kind: type[S], values: Any, where: str) -> S:
    """Settings from JSON; an unknown name, a wrong type or a number out of range is an `InputError`."""
    if not isinstance(values, Mapping):
        raise InputError(f"{where}: expected an object with settings, not {type(values).__name__}")
    entries = {name: (entry, inner) for name, entry, inner in _entries(kind)}
    chosen = {}
    for name, value in values.items():
        if name not in entries:
            raise InputError(f"{where}: unknown setting {name!r}; known: {', '.join(entries)}")
        chosen[name] = _checked(name, value, *entries[name], where)
    return kind(**chosen)


def to_mapping(settings: Any) -> dict[str, Any]:
    """Settings as a JSON-able mapping."""
    return asdict(settings)


def _entries(kind: type) -> list[tuple[str, "Field[Any]", Any]]:
    hints = get_type_hints(kind)
    return [(entry.name, entry, _inner(hints[entry.name])) for entry in fields(kind) if "doc" in entry.metadata]


def _inner(hint: Any) -> Any:
    """The type without `| None`."""
    if get_origin(hint) in (Union, types.UnionType):
        return next(part for part in get_args(hint) if part is not type(None))
    return hint


def _checked(name: str, value: Any, entry: "Field[Any]", inner: Any, where: str) -> Any:
    if value is None and entry.default is None:
        return None
    if get_origin(inner) is Literal:
        if value not in get_args(inner):
            raise InputError(f"{where}: {name} is {value!r}; expected one of {', '.join(map(str, get_args(inner)))}")
        return value
    if inner is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, inner) or (inner is not bool and isinstance(value, bool)):
        raise InputError(f"{where}: {name} is {value!r}; expected {inner.__name__}")
    low, high = entry.metadata["low"], entry.metadata["high"]
    if isinstance(value, int | float) and not isinstance(value, bool):
        inside = (low is None or value >= low) and (high is None or value <= high)
        if not inside or not math.isfinite(value):
            above = "" if low is None else f" of at least {low}"
            below = "" if high is None else f", at most {high}"
            raise InputError(f"{where}: {name} is {value}; expected a number{above}{below}")
    return value
