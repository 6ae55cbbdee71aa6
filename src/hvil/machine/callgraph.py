"""Call graphs: named procedures, who may call whom, which actions each may take, and what each can reach.

Specs, mappings and files become a `CallGraph`; its arrays are what masks and compiled code read.

Letters: H procedures, A actions, C most callees of a procedure, L levels of the stack (maximum depth).
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from hvil.data.ragged import unique_names
from hvil.gate.errors import InputError
from hvil.gate.files import read_json
from hvil.gate.settings import from_mapping, setting
from hvil.gate.text import in_dot, in_line

CYCLIC_MAX_DEPTH = 8
"""Maximum depth of the stack for a graph with cycles that does not name one."""
MAX_PROCEDURES = 4096
"""Largest graph: its matrix of calls, made to compute what each procedure reaches, has 64 MB."""
MAX_DEPTH = 1000
"""Deepest stack: a bound for what files may ask for."""
MOST_REACHED = 1 << 26
"""Entries of the table that says what each procedure reaches at each depth, at most: 64 MB."""
MOST_CALLS = 1 << 20
"""Calls of all procedures together, at most: each is also an output of a network."""
MOST_TEXT = 1 << 23
"""Characters of a graph as text, at most."""


@dataclass(frozen=True)
class CallGraph:
    """Named procedures, which of them each may call, and which actions it may take. Any directed graph is legal."""

    procedures: tuple[str, ...]
    action_names: tuple[str, ...]
    calls: tuple[tuple[int, ...], ...]
    """For each procedure the indices of those it may call, in the order of its choices."""
    acts: tuple[tuple[int, ...], ...]
    """For each procedure the actions it may take, ascending."""
    root: int = 0
    max_depth: int = 0
    """Largest height of the stack; 0 stands for the longest path (acyclic) or `CYCLIC_MAX_DEPTH`."""

    def __post_init__(self) -> None:
        count = len(self.procedures)
        if not 0 < count <= MAX_PROCEDURES:
            raise InputError(f"a call graph has 1 to {MAX_PROCEDURES} procedures, this one {count}")
        object.__setattr__(self, "procedures", unique_names(self.procedures, "call graph: procedure"))
        object.__setattr__(self, "action_names", unique_names(self.action_names, "call graph: action"))
        if not self.action_names:
            raise InputError("call graph: there are no actions")
        if not 0 <= self.root < count:
            raise InputError(f"call graph: the root is procedure {self.root}, expected 0..{count - 1}")
        _check_lists(self.calls, self.procedures, "calls", count)
        _check_lists(self.acts, self.procedures, "takes actions", len(self.action_names))
        object.__setattr__(self, "acts", tuple(tuple(sorted(actions)) for actions in self.acts))
        longest = _longest_path(self.calls, self.root)
        depth = self.max_depth or longest or CYCLIC_MAX_DEPTH
        object.__setattr__(self, "max_depth", min(depth, longest) if longest else depth)
        if not 0 < self.max_depth <= MAX_DEPTH:
            raise InputError(f"call graph: the maximum depth must be 1 to {MAX_DEPTH}, not {self.max_depth}")
        if (self.max_depth + 1) * count * len(self.action_names) > MOST_REACHED or sum(
            map(len, self.calls)
        ) > MOST_CALLS:
            raise InputError(
                f"call graph: {count} procedures with {len(self.action_names)} actions at {self.max_depth} levels, or "
                "their calls, are too many"
            )
        if not self.reaches[self.max_depth, self.root].any():
            raise InputError(f"call graph: the root {self.procedures[self.root]!r} cannot take any action")

    @property
    def step_count(self) -> int:
        """Choices of a procedure: A actions, ∅, C calls."""
        return len(self.action_names) + 1 + max(len(callees) for callees in self.calls)

    @property
    def terminate(self) -> int:
        """The choice ∅; choices below are actions, choice `terminate + 1 + k` calls the k-th callee."""
        return len(self.action_names)

    @cached_property
    def children(self) -> Int[np.ndarray, "H C"]:
        """Callees of each procedure, padded with -1."""
        width = self.step_count - self.terminate - 1
        children = np.full((len(self.procedures), width), -1, dtype=np.int32)
        for procedure, callees in enumerate(self.calls):
            children[procedure, : len(callees)] = callees
        return children

    @cached_property
    def can_act(self) -> Bool[np.ndarray, "H A"]:
        """Which actions each procedure may take itself."""
        table = np.zeros((len(self.procedures), len(self.action_names)), dtype=bool)
        for procedure, actions in enumerate(self.acts):
            table[procedure, list(actions)] = True
        return table

    @cached_property
    def reaches(self) -> Bool[np.ndarray, "L_plus_1 H A"]:
        """Whether a procedure can emit an action, itself or by calls, if it may use so many levels of the stack.

        A least fixpoint over levels, so that cycles are no special case.
        """
        table = np.zeros((self.max_depth + 1, *self.can_act.shape), dtype=bool)
        calls = np.zeros((len(self.procedures), len(self.procedures)), dtype=np.float32)
        for procedure, callees in enumerate(self.calls):
            calls[procedure, list(callees)] = 1
        for level in range(1, self.max_depth + 1):
            table[level] = self.can_act | (calls @ table[level - 1] > 0)
            if (table[level] == table[level - 1]).all():
                table[level:] = table[level]  # the fixpoint is reached
                break
        return table

    def at_depth(self, depth: int) -> "CallGraph":
        """The same graph with another maximum depth, for programs that call themselves more often than in training.

        Raises:
            InputError: the stack of this graph can never be so high, or the root could not act.
        """
        if not 0 < depth <= MAX_DEPTH:
            raise InputError(f"depth {depth}: expected 1 to {MAX_DEPTH}")
        changed = replace(self, max_depth=depth)
        if changed.max_depth < depth:
            raise InputError(
                f"depth {depth}: nothing in the call graph calls itself, so the stack is never higher than "
                f"{changed.max_depth}"
            )
        return changed

    def procedure_index(self, name: str) -> int:
        """The index of a procedure by name."""
        if name not in self.procedures:
            raise InputError(f"no procedure {name!r} in the call graph; there are {', '.join(self.procedures)}")
        return self.procedures.index(name)

    def step_name(self, procedure: int, step: int) -> str:
        """A choice of a procedure in words."""
        if step < 0:
            return "none"
        if step <= self.terminate:
            return "return" if step == self.terminate else self.action_names[step]
        return f"{self.procedures[self.calls[procedure][step - self.terminate - 1]]}()"

    def check_actions(self, actions: Int[np.ndarray, "S"], where: str = "the data") -> None:
        """Reject data with an action that no path from the root can emit."""
        possible = self.reaches[self.max_depth, self.root]
        if len(actions) and not 0 <= actions.min() <= actions.max() < len(possible):
            raise InputError(f"{where}: an action is out of range, expected 0..{len(possible) - 1}")
        missing = np.flatnonzero(np.bincount(actions, minlength=len(possible)).astype(bool) & ~possible)
        if len(missing):
            names = ", ".join(repr(self.action_names[action]) for action in missing)
            raise InputError(
                f"{where}: no path from the root {self.procedures[self.root]!r} of the call graph can emit {names}"
            )

    def to_mapping(self) -> dict[str, Any]:
        """The form of a call-graph file."""
        everything = tuple(range(len(self.action_names)))
        procedures: dict[str, dict[str, list[str]]] = {}
        for index, name in enumerate(self.procedures):
            entry = procedures[name] = {"calls": [self.procedures[callee] for callee in self.calls[index]]}
            if self.acts[index] != everything:
                entry["actions"] = [self.action_names[action] for action in self.acts[index]]
        return {"root": self.procedures[self.root], "max_depth": self.max_depth, "procedures": procedures}

    def to_dot(self) -> str:
        """The graph as Graphviz text."""
        lines = ["digraph call_graph {", "  node [shape=box, fontname=sans];"]
        for index, name in enumerate(self.procedures):
            style = ", penwidth=2" if index == self.root else ""
            lines.append(f"  p{index} [label={in_dot(name)}{style}];")
        lines += [f"  p{caller} -> p{callee};" for caller, callees in enumerate(self.calls) for callee in callees]
        return "\n".join([*lines, "}"]) + "\n"

    def to_text(self) -> str:
        """The graph as an ASCII tree; a procedure whose callees are shown further up is marked with ^."""
        lines: list[str] = []
        length = 0
        shown: set[int] = set()
        pending = [(self.root, "", "")]
        while pending:
            procedure, prefix, below = pending.pop()
            again = procedure in shown
            shown.add(procedure)
            lines.append(
                prefix + in_line(self.procedures[procedure]) + (" ^" if again and self.calls[procedure] else "")
            )
            length += len(lines[-1])
            if length > MOST_TEXT:
                raise InputError("this call graph is too large for a text; show it with --dot or --json")
            callees = () if again else self.calls[procedure]
            for number in reversed(range(len(callees))):
                final = number == len(callees) - 1
                branch, rest = ("`-- ", "    ") if final else ("|-- ", "|   ")
                pending.append((callees[number], below + branch, below + rest))
        return "\n".join(lines)


def call_graph(spec: str | Mapping[str, Any] | CallGraph, action_names: Sequence[str]) -> CallGraph:
    """A call graph from a spec string, a JSON file's path, a mapping, or a call graph for the same actions."""
    if isinstance(spec, CallGraph):
        if spec.action_names != tuple(action_names):
            raise InputError("the call graph was made for other actions than the data's")
        return spec
    if isinstance(spec, Mapping):
        return _from_mapping(spec, tuple(action_names), "call graph")
    if _is_file(spec):
        return _from_mapping(read_json(spec), tuple(action_names), spec)
    match = re.fullmatch(r"(tree):([0-9]{1,6})x([0-9]{1,6})|(binary|chain|complete):([0-9]{1,6})", spec)
    if match is None:
        raise InputError(
            f"call graph {spec!r} is not known; expected tree:KxD (such as tree:5x2), binary:N, chain:N, complete:N, "
            "or a JSON file"
        )
    if match[1]:
        return _built(_tree(int(match[2]), int(match[3]), spec), action_names)
    count = int(match[5])
    if not 0 < count <= MAX_PROCEDURES:
        raise InputError(f"call graph {spec!r}: between 1 and {MAX_PROCEDURES} procedures are possible")
    return _built({"binary": _binary, "chain": _chain, "complete": _complete}[match[4]](count), action_names)


def action_names_in(spec: str) -> tuple[str, ...]:
    """The actions that a call-graph file names, in the order of their first mention; none for other specs."""
    value = graph_contents(spec)
    procedures = value.get("procedures") if isinstance(value, Mapping) else None
    names: dict[str, None] = {}
    for entry in procedures.values() if isinstance(procedures, Mapping) else ():
        actions = entry.get("actions") if isinstance(entry, Mapping) else None
        names |= {name: None for name in actions if isinstance(name, str)} if isinstance(actions, list) else {}
    return tuple(names)


def graph_contents(spec: Any) -> Any:
    """The spec itself, or the contents of the file that it names, for records that must not depend on the file."""
    return read_json(spec) if isinstance(spec, str) and _is_file(spec) else spec


def _is_file(spec: str) -> bool:
    return spec.endswith(".json") or os.path.isfile(spec)


def _tree(arity: int, depth: int, spec: str) -> list[list[int]]:
    """Full k-ary tree; depth 1 is the root alone."""
    if arity < 1 or depth < 1:
        raise InputError(f"call graph {spec!r}: arity and depth must be at least 1")
    inner = 0
    for level in range(depth - 1):
        inner += arity**level
        if inner * arity + 1 > MAX_PROCEDURES:
            raise InputError(f"call graph {spec!r} would have more than {MAX_PROCEDURES} procedures")
    total = inner * arity + 1
    return [list(range(i * arity + 1, i * arity + arity + 1)) if i < inner else [] for i in range(total)]


def _binary(count: int) -> list[list[int]]:
    """Partial binary tree, filled breadth first."""
    return [[child for child in (2 * i + 1, 2 * i + 2) if child < count] for i in range(count)]


def _chain(count: int) -> list[list[int]]:
    return [[i + 1] if i + 1 < count else [] for i in range(count)]


def _complete(count: int) -> list[list[int]]:
    """Everyone may call everyone, oneself included."""
    return [list(range(count)) for _ in range(count)]


def _built(calls: list[list[int]], action_names: Sequence[str]) -> CallGraph:
    everything = tuple(range(len(action_names)))
    return CallGraph(
        procedures=("root", *(f"p{i}" for i in range(1, len(calls)))),
        action_names=tuple(action_names),
        calls=tuple(tuple(callees) for callees in calls),
        acts=(everything,) * len(calls),
    )


@dataclass(frozen=True)
class _Procedure:
    """A procedure in a call-graph file."""

    calls: tuple[str, ...] = ()
    actions: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class _GraphFile:
    """The contents of a call-graph file."""

    root: str | None = None
    max_depth: int | None = setting(None, "largest height of the stack", low=1, high=MAX_DEPTH)
    procedures: Mapping[str, _Procedure]


def _from_mapping(value: Any, action_names: tuple[str, ...], where: str) -> CallGraph:
    if not isinstance(value, Mapping) or not value.get("procedures"):
        raise InputError(f'{where}: expected {{"root": NAME, "procedures": {{NAME: {{"calls": [NAME, …]}}, …}}}}')
    contents = from_mapping(_GraphFile, value, where, noun="key")
    index = {name: i for i, name in enumerate(contents.procedures)}
    action_index = {name: i for i, name in enumerate(action_names)}
    calls, acts = [], []
    for name, procedure in contents.procedures.items():
        actions = action_names if procedure.actions is None else procedure.actions
        calls.append(_indices(procedure.calls, index, f"{where}: procedure {name!r} calls", "procedure"))
        acts.append(_indices(actions, action_index, f"{where}: procedure {name!r} takes", "action"))
    names = tuple(index)
    root = names[0] if contents.root is None else contents.root
    if root not in index:
        raise InputError(f"{where}: the root {root!r} is not among the procedures {', '.join(names)}")
    try:
        return CallGraph(names, action_names, tuple(calls), tuple(acts), index[root], contents.max_depth or 0)
    except InputError as error:
        raise InputError(f"{where}: {str(error).removeprefix('call graph: ')}") from error


def _indices(names: Sequence[str], index: Mapping[str, int], where: str, what: str) -> tuple[int, ...]:
    for name in names:
        if name not in index:
            raise InputError(f"{where} {name!r}, an unknown {what}; there are {', '.join(index)}")
    if len(set(names)) < len(names):
        raise InputError(f"{where} the same {what} twice")
    return tuple(index[name] for name in names)


def _check_lists(lists: Sequence[Sequence[int]], procedures: Sequence[str], what: str, limit: int) -> None:
    if len(lists) != len(procedures):
        raise InputError(f"call graph: {len(lists)} lists of what each procedure {what}, for {len(procedures)} of them")
    for name, entries in zip(procedures, lists, strict=True):
        if len(set(entries)) < len(entries) or not all(0 <= entry < limit for entry in entries):
            listed = ", ".join(map(str, entries))
            raise InputError(f"call graph: {name!r} {what} {listed}; expected different numbers in 0..{limit - 1}")


def _longest_path(calls: Sequence[Sequence[int]], root: int) -> int | None:
    """Number of procedures on the longest path from the root, or None if it can reach a cycle."""
    longest: dict[int, int] = {}
    open_: set[int] = set()
    pending = [(root, False)]
    while pending:
        procedure, done = pending.pop()
        if done:
            open_.discard(procedure)
            longest[procedure] = 1 + max((longest[callee] for callee in calls[procedure]), default=0)
        elif procedure not in longest:
            open_.add(procedure)
            pending.append((procedure, True))
            for callee in calls[procedure]:
                if callee in open_:
                    return None
                pending.append((callee, False))
    return longest[root]
