"""Settings: frozen dataclasses that give default, help text, flag and check of each value from one source.

`from_mapping` is the one validator of JSON and TOML that comes from outside: it builds a dataclass from the type hints
of its fields, or says in one line which value is wrong and what would be right. Reading the files is left to `files`.
"""

import argparse
import math
import reprlib
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, asdict, field, fields, is_dataclass
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from hvil.gate.errors import InputError

S = TypeVar("S")


def setting(
    default: Any, doc: str, *, low: int | float | None = None, high: int | float | None = None, own: str = ""
) -> Any:
    """A dataclass field with its help text and, for numbers (also those in a list), their range.

    Args:
        default: the value if nobody decides otherwise.
        doc: the help text.
        low: the least value.
        high: the greatest value.
        own: what the planner takes instead for data of one's own, in words.
    """
    return field(default=default, metadata={"doc": doc, "low": low, "high": high, "own": own})


def setting_names(*kinds: type) -> set[str]:
    """The names of the fields of some settings classes."""
    return {entry.name for kind in kinds for entry in fields(kind)}


def add_flags(
    parser: argparse.ArgumentParser, kind: type, leave_out: Sequence[str] = (), title: str | None = None
) -> None:
    """Add one flag for each field; a flag that is not given stays None, so that the planner can choose."""
    group = parser.add_argument_group(title or kind.__name__.removesuffix("Settings").lower() + " settings")
    for name, (entry, hint) in _settings(kind).items():
        if name in leave_out:
            continue
        flag, inner = "--" + name.replace("_", "-"), _without_none(hint)
        default = entry.default if entry.default != "" else "none"
        own = entry.metadata["own"] and f"; for data of your own {entry.metadata['own']}"
        text = f"{entry.metadata['doc']} (default: {default}{own})".replace("%", "%%")
        if inner is bool:
            group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=text)
        elif get_origin(inner) is Literal:
            group.add_argument(flag, choices=get_args(inner), default=None, help=text)
        else:
            group.add_argument(flag, type=inner, default=None, metavar=inner.__name__.upper(), help=text)


def from_flags(kind: type[S], args: argparse.Namespace, defaults: Mapping[str, Any] | None = None) -> S:
    """Settings from parsed flags; what was not given comes from `defaults`, then from the fields."""
    flags = {name: getattr(args, name, None) for name in _settings(kind)}
    values = {name: value for name, value in (defaults or {}).items() if name in flags}
    values |= {name: value for name, value in flags.items() if value is not None}
    return from_mapping(kind, values, "settings")


def from_mapping(kind: type[S], values: Any, where: str, noun: str = "setting") -> S:
    """A dataclass from what a JSON or TOML file holds.

    The type hints of the fields say what is right: numbers, text, literals, lists (`tuple[int, ...]`, `list[str]`),
    mappings with text as keys, other dataclasses, each of them perhaps `| None`. The range of a `setting` holds.

    Args:
        kind: the dataclass.
        values: its fields by name; fields with a default may be left out.
        where: the file, and the position in it, for the error message.
        noun: what a field is called in the error message.

    Raises:
        InputError: a name is unknown or missing, a value has the wrong type, a number is out of range or not finite,
            or the dataclass itself refuses its values.
    """
    if not isinstance(values, Mapping):
        raise InputError(f"{where}: expected an object, not {type(values).__name__}")
    entries = _entries(kind)
    unknown = [name for name in values if name not in entries]
    if unknown:
        raise InputError(f"{where}: unknown {noun} {', '.join(map(repr, unknown))}; known: {', '.join(entries)}")
    missing = [name for name, (entry, _) in entries.items() if name not in values and _is_required(entry)]
    if missing:
        raise InputError(f"{where}: missing {', '.join(missing)}")
    limits = {
        name: _Limits(entry.metadata.get("low"), entry.metadata.get("high")) for name, (entry, _) in entries.items()
    }
    converted = {
        name: _converted(value, entries[name][1], _Position(where, name, noun), limits[name])
        for name, value in values.items()
    }
    try:
        return kind(**converted)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def to_mapping(settings: Any) -> dict[str, Any]:
    """Settings as a JSON-able mapping."""
    return asdict(settings)


class _Limits(NamedTuple):
    low: int | float | None
    high: int | float | None


class _Position(NamedTuple):
    """Where a value stands, for error messages."""

    where: str
    name: str
    noun: str

    def inside(self, part: str) -> "_Position":
        return self._replace(name=self.name + part)

    def error(self, value: Any, expected: str) -> InputError:
        return InputError(f"{self.where}: {self.name} is {_SHORT.repr(value)}; expected {expected}")


LARGEST = 1 << 63
"""Whole numbers stay below it: arrays cannot hold larger ones, and floats cannot become them."""

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80  # a file may hold megabytes where a word is expected

_WORDS: Mapping[Any, tuple[str, str]] = {
    bool: ("true or false", "truth values"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("text", "texts"),
}
"""How a type is named in an error message: one value, several."""


def _entries(kind: type) -> dict[str, tuple["Field[Any]", Any]]:
    """The fields that a caller gives, with their type hints."""
    hints = get_type_hints(kind)
    return {entry.name: (entry, hints[entry.name]) for entry in fields(kind) if entry.init}


def _settings(kind: type) -> dict[str, tuple["Field[Any]", Any]]:
    """The fields that have a help text, and so a flag."""
    return {name: entry for name, entry in _entries(kind).items() if "doc" in entry[0].metadata}


def _is_required(entry: "Field[Any]") -> bool:
    return entry.default is MISSING and entry.default_factory is MISSING


def _without_none(hint: Any) -> Any:
    """The type without `| None`."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    (inner,) = (part for part in get_args(hint) if part is not type(None))
    return inner


def _converted(value: Any, hint: Any, position: _Position, limits: _Limits) -> Any:
    """The value as its type hint wants it: a list becomes a tuple, a whole number a float, an object a dataclass."""
    inner = _without_none(hint)
    if inner is Any or (value is None and inner is not hint):
        return value
    if is_dataclass(inner) and isinstance(inner, type):
        return from_mapping(inner, value, f"{position.where}: {position.name}", position.noun)
    origin, arguments = get_origin(inner), get_args(inner)
    if origin is Literal:
        if not any(value == option and type(value) is type(option) for option in arguments):
            raise position.error(value, f"one of {', '.join(map(str, arguments))}")
        return value
    if origin in (tuple, list):
        return _list(value, inner, position, limits)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise position.error(value, "an object with names")
        return {key: _converted(item, arguments[1], position.inside(f".{key}"), limits) for key, item in value.items()}
    return _scalar(value, inner, position, limits)


def _list(value: Any, hint: Any, position: _Position, limits: _Limits) -> Any:
    item = get_args(hint)[0]
    if not isinstance(value, list | tuple):
        raise position.error(value, f"a list of {_WORDS[item][1]}" if item in _WORDS else "a list")
    items = (_converted(entry, item, position.inside(f"[{i}]"), limits) for i, entry in enumerate(value))
    return list(items) if get_origin(hint) is list else tuple(items)


def _scalar(value: Any, kind: type, position: _Position, limits: _Limits) -> Any:
    right = type(value) is kind or (kind is float and type(value) is int) or (kind is str and isinstance(value, str))
    if not right:
        raise position.error(value, _WORDS[kind][0])
    if kind not in (int, float):
        return value
    try:
        number = kind(value)
    except OverflowError:
        number = math.inf
    low, high = limits
    inside = (low is None or number >= low) and (high is None or number <= high)
    if not inside or not (math.isfinite(number) if kind is float else abs(number) < LARGEST):
        above = "" if low is None else f" of at least {low}"
        below = "" if high is None else f", at most {high}"
        raise position.error(value, f"a number{above}{below}")
    return number
