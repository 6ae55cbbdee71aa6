"""Binary trees as rows of numbers, who is whose child in them, and random ones.

A tree is one number for each node, in the order in which a depth-first walk comes to them (a node, all below its left
child, all below its right child): 0 for a leaf, 1 for a left child alone, 2 for a right child alone, 3 for both. That
says everything. In an array of several trees, rows are padded with −1.

Letters: N trees, K nodes of the largest.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from hvil.domains.recursive import Sizes
from hvil.gate.errors import InputError

HAS_LEFT, HAS_RIGHT, HAS_BOTH = 1, 2, 3
NOBODY = -1

NODES = Sizes(domain="treewalk", what="nodes", lowest=1, highest=300)
"""A stack is as high as the tree, and a walk has three actions for a node: both have room within their limits."""
DEFAULT_NODES = (1, 6)


class Family(NamedTuple):
    """For each node the numbers of its parent and its children, `NOBODY` where there is none."""

    parent: list[int]
    left: list[int]
    right: list[int]


def family(tree: Sequence[int]) -> Family:
    """Who is whose child in a tree.

    Raises:
        InputError: the numbers are no tree; the message says where.
    """
    if not NODES.lowest <= len(tree) <= NODES.highest:
        raise InputError(f"a tree of {len(tree)} nodes: expected {NODES.lowest} to {NODES.highest}")
    parent, left, right = ([NOBODY] * len(tree) for _ in range(3))
    places = [(NOBODY, left)]  # where the next nodes belong, the last place first
    for node, children in enumerate(tree):
        if isinstance(children, bool) or not isinstance(children, int | np.integer) or not 0 <= children <= HAS_BOTH:
            raise InputError(f"node {node} of the tree is {children!r}: expected 0, 1 (left), 2 (right) or 3 (both)")
        if not places:
            raise InputError(f"the tree is complete after {node} nodes, but {len(tree)} are given")
        parent[node], side = places.pop()
        if node:
            side[parent[node]] = node
        if children & HAS_RIGHT:
            places.append((node, right))
        if children & HAS_LEFT:
            places.append((node, left))
    if places:
        raise InputError(f"the tree ends after {len(tree)} nodes, but {len(places)} children are still missing")
    return Family(parent=parent, left=left, right=right)


def random_trees(sizes: Int[np.ndarray, "N"], draws: Float[np.ndarray, "N K"]) -> Int[np.ndarray, "N K"]:
    """Trees of the given numbers of nodes: of those below a node, a uniform number is below its left child.

    Args:
        sizes: how many nodes each tree has, at most K.
        draws: uniform in [0, 1), one for each node.
    """
    count, most = draws.shape
    trees = np.full((count, most), -1, np.int8)
    below = np.zeros((count, most + 1), np.int64)  # how many nodes are below each node; the last column stays empty
    below[:, 0] = sizes - 1
    tree = np.arange(count)
    for node in range(most):
        left = (draws[:, node] * (below[:, node] + 1)).astype(np.int64)
        right = below[:, node] - left
        trees[:, node] = np.where(node < sizes, HAS_LEFT * (left > 0) + HAS_RIGHT * (right > 0), -1)
        # The left child comes next, the right child after all that is below the left one.
        below[tree[left > 0], node + 1] = left[left > 0] - 1
        below[tree[right > 0], node + 1 + left[right > 0]] = right[right > 0] - 1
    return trees
