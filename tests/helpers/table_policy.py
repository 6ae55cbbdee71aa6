"""Policies of procedures that are written down instead of learned: a Python function a procedure."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hvil.domains.karel import ACTIONS
from hvil.machine.batched import Tops
from hvil.machine.callgraph import CallGraph, call_graph

RETURN = "return"
Procedure = Callable[[Mapping[str, bool], int, str | None], str]
"""From what is observed, the counter and the last step to the next step, by name."""

KAREL_NAMES = ("front", "left", "right", "markers")


class TablePolicy:
    """A policy whose procedures are functions of named observations and the frame."""

    def __init__(self, graph: CallGraph, names: tuple[str, ...], procedures: Mapping[str, Procedure]) -> None:
        self.graph, self.names, self.procedures = graph, names, procedures

    def choices(self, features: np.ndarray, tops: Tops) -> np.ndarray:
        return np.array([self._choice(row, *top) for row, *top in zip(features, *tops[:3], strict=True)])

    def _choice(self, row: np.ndarray, procedure: int, counter: int, last: int) -> int:
        graph = self.graph
        step_names = [*graph.action_names, RETURN, *(graph.procedures[callee] for callee in graph.calls[procedure])]
        observed: dict[str, Any] = {name: bool(value > 0.5) for name, value in zip(self.names, row, strict=True)}
        before = step_names[last] if last >= 0 else None
        return step_names.index(self.procedures[graph.procedures[procedure]](observed, int(counter), before))


def karel_policy(procedures: Mapping[str, Procedure], calls: Mapping[str, list[str]]) -> TablePolicy:
    """A policy for Karel; the first procedure is the root."""
    graph = call_graph({"procedures": {name: {"calls": calls.get(name, [])} for name in procedures}}, ACTIONS)
    return TablePolicy(graph, KAREL_NAMES, procedures)


def program_f(redundant: bool = False) -> TablePolicy:
    """Karel's program F in two procedures; `redundant`: the root calls a copy, or acts by itself, by its counter."""

    def root(observed: Mapping[str, bool], counter: int, last: str | None) -> str:
        if counter == 0:
            return "turnRight"
        if observed["markers"]:
            return RETURN
        if redundant and counter % 3 == 1:
            return decide(observed, 0, None)
        return "copy" if redundant and counter % 3 == 2 else "step"

    def decide(observed: Mapping[str, bool], counter: int, last: str | None) -> str:
        if counter:
            return RETURN
        return "move" if observed["front"] else "turnRight" if observed["right"] else "turnLeft"

    procedures = {"root": root, "step": decide, "copy": decide, "spare": decide}
    return karel_policy(procedures, {"root": ["step", "copy", "spare"]})


def flat_teacher(name: str) -> TablePolicy:
    """The programs of the paper in one procedure, by frame and observation."""

    def root(observed: Mapping[str, bool], counter: int, last: str | None) -> str:
        if counter == 0:
            return "turnRight"
        turned = {"A": "turnRight", "B": "turnLeft"}.get(name)
        if turned and last == "move" and observed["right" if name == "A" else "left"]:
            return turned
        if name == "C" and counter > 1 and last == "turnRight":
            return "move"
        if observed["markers"]:
            return RETURN
        if name == "C" and observed["right"]:
            return "turnRight"
        if name in "ABC" or observed["front"]:
            return "move"
        if name == "F":
            return "turnRight" if observed["right"] else "turnLeft"
        return "turnLeft" if name == "D" else "turnRight"

    return karel_policy({"root": root}, {})
