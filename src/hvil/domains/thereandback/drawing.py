"""Pictures and text of the corridor, from the environment's state alone."""

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw

from hvil.domains.canvas import BLUE, INK, LINE, MARGIN, PALE, WHITE, draw_text

CELL = 44
"""Pixels: the side of a cell."""
BEHIND = 3
"""Cells behind the start that are shown; a robot further away stands at the edge."""
POINTING = ((1, 0), (0, -1), (-1, 0), (0, 1))
"""Where the robot points on the picture, for each heading: the wall is on the right, a turn goes to the left."""


def print_corridor(start: int, ahead: int, heading: int) -> str:
    """Two lines: the corridor up to the wall with the robot in it, and where the robot began.

    Args:
        start: free cells between the start and the wall.
        ahead: free cells between the robot and the wall.
        heading: quarter turns to the left since it faced the wall.
    """
    cells = ["."] * (BEHIND + 1 + start)
    cells[_column(start, ahead)] = ">^<v"[heading]
    return " ".join([*cells, "#"]) + "\n" + "  " * BEHIND + "s"


def draw_corridor(start: int, ahead: int, heading: int) -> UInt8[np.ndarray, "height width 3"]:
    """The same as a picture: a row of cells, the wall, the robot as an arrow, and an s below the start."""
    columns = BEHIND + 1 + start
    image = Image.new("RGB", (2 * MARGIN + CELL * (columns + 1), 2 * MARGIN + 2 * CELL), WHITE)
    draw = ImageDraw.Draw(image)
    for column in range(columns + 1):
        left = MARGIN + column * CELL
        fill = INK if column == columns else PALE
        draw.rectangle((left, MARGIN, left + CELL, MARGIN + CELL), fill=fill, outline=LINE, width=2)
    draw_text(draw, MARGIN + BEHIND * CELL + CELL // 2, MARGIN + CELL + CELL // 2, "s", 20, INK)
    x, y = MARGIN + _column(start, ahead) * CELL + CELL // 2, MARGIN + CELL // 2
    right, down = POINTING[heading]
    tip = (x + 16 * right, y + 16 * down)
    corners = [(x - 12 * right + side * 11 * down, y - 12 * down + side * 11 * right) for side in (-1, 1)]
    draw.polygon([tip, *corners], fill=BLUE)
    return np.asarray(image)


def _column(start: int, ahead: int) -> int:
    """Where the robot is shown."""
    return max(BEHIND + start - ahead, 0)
