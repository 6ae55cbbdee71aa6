"""The teacher of the tree walk: its actions, and its traces of many trees.

    def walk():
        mark()
        if has_left:
            left()
            walk()
            up()
        if has_right:
            right()
            walk()
            up()

`task` and `environment` are built on it, trees are described in `trees`.

Letters: N traces, K nodes of the largest tree, T actions of a trace.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int

from hvil.data.traces import Traces
from hvil.domains.recursive import self_calls
from hvil.domains.treewalk.trees import HAS_LEFT, HAS_RIGHT, NOBODY, family

ACTIONS = ("mark", "left", "right", "up")
MARK, LEFT, RIGHT, UP = range(len(ACTIONS))
OBSERVATIONS = ("has_left", "has_right")


class Walk(NamedTuple):
    """The teacher's walk over one tree: three actions for each node, less two (the root has no way down and up)."""

    actions: Int[np.ndarray, "T"]
    nodes: Int[np.ndarray, "T"]
    """Where the walker is before each action; at the end it is at the root."""
    heights: Int[np.ndarray, "T"]
    """How many invocations are on the stack at each action: one for each node on the way from the root to the node
    whose invocation acts."""


def walk(tree: Sequence[int]) -> Walk:
    """The teacher's walk over one tree: nodes are marked in the order in which the tree has them."""
    parent, left, _ = family(tree)
    at, height = 0, 1
    steps = [(MARK, at, height)]
    for node in (*range(1, len(tree)), NOBODY):  # after the last node, back to the root
        goal = 0 if node == NOBODY else parent[node]
        while at != goal:
            height -= 1  # the node's invocation has returned: its parent's goes up
            steps.append((UP, at, height))
            at = parent[at]
        if node != NOBODY:
            steps += [(LEFT if left[at] == node else RIGHT, at, height), (MARK, node, height + 1)]
            at, height = node, height + 1
    return Walk(*np.array(steps).T)


def observe(children: Int[np.ndarray, "*rows"]) -> Float32[np.ndarray, "*rows 2"]:
    """What is seen at nodes with such children."""
    seen = np.stack([children & HAS_LEFT, children & HAS_RIGHT], axis=-1) > 0
    return seen.astype(np.float32)


def teach(trees: Int[np.ndarray, "N K"], attributes: Mapping[str, str] | None = None) -> Traces:
    """The teacher's traces of the given trees (rows padded with −1), with its call structure."""
    shapes, numbers = np.unique(trees, axis=0, return_inverse=True)  # small trees come often
    walks = [walk(shape[shape >= 0].tolist()) for shape in shapes]
    taken = [walks[number] for number in numbers.reshape(-1)]
    offsets = np.concatenate([[0], np.cumsum([len(each.actions) for each in taken])])
    at = [np.append(each.nodes, 0) for each in taken]
    tree_of_row = np.repeat(np.arange(len(trees)), [len(each) for each in at])
    return Traces(
        observations=observe(trees[tree_of_row, np.concatenate(at)]),
        actions=np.concatenate([each.actions for each in taken]).astype(np.int32),
        offsets=offsets,
        action_names=ACTIONS,
        observation_names=OBSERVATIONS,
        annotations=self_calls(np.concatenate([each.heights for each in taken]), offsets[:-1], trees.shape[1]),
        metadata={"tree": trees.astype(np.int8)},
        attributes=attributes or {},
    )
