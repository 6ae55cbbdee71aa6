"""Pictures and text of the tree, from the environment's state alone."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw

from hvil.domains.canvas import BLUE, LINE, MARGIN, ORANGE, PALE, WHITE, draw_text
from hvil.domains.treewalk.trees import NOBODY, Family

ACROSS, DOWN, RADIUS = 36, 52, 15
"""Pixels: between two nodes from left to right, between two levels, and the radius of a node."""


def print_tree(neighbours: Family, marked: Sequence[bool], at: int) -> str:
    """A line for each node, indented by its depth: x for a mark, an arrow for the walker."""
    lines = []
    for node, depth in enumerate(_depths(neighbours)):
        parent = neighbours.parent[node]
        side = "root" if parent == NOBODY else "left" if neighbours.left[parent] == node else "right"
        lines.append(f"{'    ' * depth}[{'x' if marked[node] else ' '}] {side}{' <-' if node == at else ''}")
    return "\n".join(lines)


def draw_tree(neighbours: Family, marked: Sequence[bool], at: int) -> UInt8[np.ndarray, "height width 3"]:
    """Nodes with lines to their parents; marked ones are blue with an x, the walker is an orange ring."""
    columns, depths = _columns(neighbours), _depths(neighbours)
    size = (2 * MARGIN + ACROSS * (len(columns) + 1), 2 * MARGIN + DOWN * max(depths) + 3 * RADIUS)
    image = Image.new("RGB", size, WHITE)
    draw = ImageDraw.Draw(image)
    places = [
        (MARGIN + ACROSS * (column + 1), MARGIN + 3 * RADIUS // 2 + DOWN * depth)
        for column, depth in zip(columns, depths, strict=True)
    ]
    for node, parent in enumerate(neighbours.parent):
        if parent != NOBODY:
            draw.line((places[parent], places[node]), fill=LINE, width=2)
    for node, (x, y) in enumerate(places):
        box = (x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS)
        draw.ellipse(box, fill=BLUE if marked[node] else PALE, outline=LINE, width=2)
        if marked[node]:
            draw_text(draw, x, y, "x", 18, WHITE)
        if node == at:
            ring = (x - RADIUS - 4, y - RADIUS - 4, x + RADIUS + 4, y + RADIUS + 4)
            draw.ellipse(ring, outline=ORANGE, width=4)
    return np.asarray(image)


def _depths(neighbours: Family) -> list[int]:
    """How far each node is from the root; a parent stands before its children."""
    depths: list[int] = []
    for parent in neighbours.parent:
        depths.append(0 if parent == NOBODY else depths[parent] + 1)
    return depths


def _columns(neighbours: Family) -> list[int]:
    """Each node's place from left to right: after all that is below its left child, before all below its right one."""
    count = len(neighbours.parent)
    below = [1] * count  # nodes below each one, itself included
    for node in reversed(range(1, count)):
        below[neighbours.parent[node]] += below[node]
    first, columns = [0] * count, [0] * count
    for node in range(count):
        left, right = neighbours.left[node], neighbours.right[node]
        columns[node] = first[node] + (below[left] if left != NOBODY else 0)
        if left != NOBODY:
            first[left] = first[node]
        if right != NOBODY:
            first[right] = columns[node] + 1
    return columns
