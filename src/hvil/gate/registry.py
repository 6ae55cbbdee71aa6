"""Registries: named kinds of things that can be extended from outside the package.

Ours are listed by the address of the object, so that nothing is imported before it is asked for. Others come from the
entry points of installed packages, or from `register` in the running process. All three kinds are treated alike.
"""

from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoints, entry_points
from typing import Generic, TypeVar, cast

from hvil.gate.errors import InputError

T = TypeVar("T")


class Registry(Generic[T]):
    """Objects of one kind by name."""

    def __init__(self, kind: str, own: Mapping[str, str]) -> None:
        """Create a registry.

        Args:
            kind: what the objects are, in the singular (`learner`); the entry-point group is `hvil.` and its plural.
            own: our own objects, each as `module:attribute`.
        """
        self.kind = kind
        self.group = f"hvil.{kind}s"
        self._own = dict(own)
        self._registered: dict[str, T] = {}

    @cached_property
    def _installed(self) -> EntryPoints:
        """What installed packages add; looking through all of them takes milliseconds, and each command asks often."""
        return entry_points(group=self.group)

    @property
    def own(self) -> tuple[str, ...]:
        """The names of our own objects."""
        return tuple(self._own)

    def register(self, name: str, thing: T) -> T:
        """Add an object under a name of its own, for this process."""
        if name in self.names():
            raise InputError(f"there is a {self.kind} named {name!r} already")
        self._registered[name] = thing
        return thing

    def names(self) -> tuple[str, ...]:
        """All names: ours first, then those of installed packages, then those registered in this process."""
        return tuple(dict.fromkeys([*self._own, *self._installed.names, *self._registered]))

    def __getitem__(self, name: str) -> T:
        """The object of that name; an `InputError` lists the names that exist."""
        if name in self._own:
            module, _, attribute = self._own[name].partition(":")
            return cast(T, getattr(import_module(module), attribute))
        if name in self._registered:
            return self._registered[name]
        for entry in self._installed.select(name=name):
            return cast(T, entry.load())
        raise InputError(f"{name!r}: no such {self.kind}; expected {', '.join(self.names())}")
