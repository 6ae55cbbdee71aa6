"""Pictures and text of the bubble-sort environment, from its state alone."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw

from hvil.domains.canvas import BLUE, INK, LINE, MARGIN, ORANGE, PALE, WHITE, draw_text

CELL, ARROW = 56, 40
"""Pixels: the side of a cell, and the space for an arrow above and below it."""


def print_list(numbers: Sequence[int], pointer1: int, pointer2: int) -> str:
    """Three lines: pointer 1 above the list, pointer 2 below it."""

    def mark(pointer: int, text: str) -> str:
        return ("    " * pointer + f" {text}").rstrip()

    cells = " ".join(f"[{number}]" for number in numbers)
    return "\n".join([mark(pointer1, "1"), cells, mark(pointer2, "2")])


def draw_list(numbers: Sequence[int], pointer1: int, pointer2: int) -> UInt8[np.ndarray, "height width 3"]:
    """The list as a row of cells, pointer 1 as an arrow from above, pointer 2 from below."""
    width = 2 * MARGIN + CELL * len(numbers)
    image = Image.new("RGB", (width, 2 * MARGIN + CELL + 2 * ARROW), WHITE)
    draw = ImageDraw.Draw(image)
    top = MARGIN + ARROW
    for cell, number in enumerate(numbers):
        left = MARGIN + cell * CELL
        draw.rectangle((left, top, left + CELL, top + CELL), fill=PALE, outline=LINE, width=2)
        draw_text(draw, left + CELL // 2, top + CELL // 2, str(number), 28, INK)
    for pointer, label, colour, down in ((pointer1, "1", BLUE, True), (pointer2, "2", ORANGE, False)):
        middle = MARGIN + pointer * CELL + CELL // 2
        tip, back = (top - 3, top - 17) if down else (top + CELL + 4, top + CELL + 18)
        draw.polygon([(middle, tip), (middle - 9, back), (middle + 9, back)], fill=colour)
        draw_text(draw, middle, back - 12 if down else back + 12, label, 20, colour)
    return np.asarray(image)
