"""The nodes of a call graph: its procedures, told apart by how much of the stack they may fill.

Exact inference keeps one table of spans for each node.

Letters: H procedures, C most callees of a procedure.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from hvil.machine.callgraph import CallGraph


class Nodes(NamedTuple):
    """Procedures with the number of levels of the stack that they may fill; the root first, callees after callers.

    A procedure below which the maximum depth cuts no path off is one node, wherever it stands in the stack. So an
    acyclic graph has one node for each procedure, a cyclic one up to one for each procedure and depth.
    """

    procedure: Int[np.ndarray, "nodes"]
    level: Int[np.ndarray, "nodes"]
    """How many levels of the stack the node may fill, its own included."""
    children: Int[np.ndarray, "nodes C"]
    """The node of each callee, -1 where the policy cannot call."""
    block: Int[np.ndarray, "nodes"]
    """Nodes of one procedure with the same possible choices share their block of rows."""


def nodes_of(graph: CallGraph) -> Nodes:
    """The nodes that a stack can hold, from the root down."""
    callees = _reachable(graph)
    # A callee has fewer levels than its caller, so this order puts callers first, and the root before all.
    ordered = sorted(callees, key=lambda node: -node[1])
    index = {node: i for i, node in enumerate(ordered)}
    children = np.full((len(ordered), graph.children.shape[1]), -1, dtype=np.int64)
    blocks: dict[tuple[int, tuple[bool, ...]], int] = {}
    block = []
    for i, node in enumerate(ordered):
        children[i, : len(callees[node])] = [-1 if callee is None else index[callee] for callee in callees[node]]
        masks = (node[0], tuple(callee is None for callee in callees[node]))
        block.append(blocks.setdefault(masks, len(blocks)))
    procedure, level = np.array(ordered, dtype=np.int64).T
    return Nodes(procedure=procedure.copy(), level=level.copy(), children=children, block=np.array(block))


def _reachable(graph: CallGraph) -> dict[tuple[int, int], list[tuple[int, int] | None]]:
    """For each (procedure, levels) that the root can reach, the same of its callees; None for a call it cannot make."""
    heights = _heights(graph)
    callees: dict[tuple[int, int], list[tuple[int, int] | None]] = {}
    pending = [(graph.root, int(heights[graph.root]))]
    while pending:
        node = pending.pop()
        if node not in callees:
            procedure, below = node[0], node[1] - 1
            callees[node] = [
                (callee, min(below, int(heights[callee]))) if graph.reaches[below, callee].any() else None
                for callee in graph.calls[procedure]
            ]
            pending += [callee for callee in callees[node] if callee is not None]
    return callees


def _heights(graph: CallGraph) -> Int[np.ndarray, "H"]:
    """The number of procedures on the longest path down from each, at most the maximum depth."""
    heights = np.ones(len(graph.procedures), dtype=np.int64)
    for _ in range(graph.max_depth - 1):
        heights = np.array(
            [
                min(graph.max_depth, 1 + max((heights[callee] for callee in callees), default=0))
                for callees in graph.calls
            ]
        )
    return heights
