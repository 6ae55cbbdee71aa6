"""Pictures and text of the bubble-sort and MNIST-parity environments, from their state alone."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont

Colour = tuple[int, int, int]
WHITE, INK, LINE, PALE = (255, 255, 255), (34, 34, 34), (150, 150, 150), (243, 243, 243)
POINTER1, POINTER2 = (0, 114, 178), (213, 94, 0)
"""Colours that people who see colours differently can tell apart; the labels say it again."""

CELL, ARROW, MARGIN = 56, 40, 16
SHADES = " .:-=+*#%@"


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
        _text(draw, left + CELL // 2, top + CELL // 2, str(number), 28, INK)
    for pointer, label, colour, down in ((pointer1, "1", POINTER1, True), (pointer2, "2", POINTER2, False)):
        middle = MARGIN + pointer * CELL + CELL // 2
        tip, back = (top - 3, top - 17) if down else (top + CELL + 4, top + CELL + 18)
        draw.polygon([(middle, tip), (middle - 9, back), (middle + 9, back)], fill=colour)
        _text(draw, middle, back - 12 if down else back + 12, label, 20, colour)
    return np.asarray(image)


def print_digit(image: UInt8[np.ndarray, "28 28"], answer: str | None, digit: int | None) -> str:
    """The image in shades of text (every second row: characters are tall), then answer and digit."""
    rows = ["".join(SHADES[int(value) * len(SHADES) // 256] for value in row).rstrip() for row in image[::2]]
    return "\n".join([*rows, f"answer: {answer or '-'}   digit: {'?' if digit is None else digit}"])


def draw_digit(
    image: UInt8[np.ndarray, "28 28"], answer: str | None, digit: int | None
) -> UInt8[np.ndarray, "height width 3"]:
    """The image enlarged; below it the answer, and the ten digits with the true one marked once it is shown."""
    size = 280
    picture = Image.new("RGB", (size + 2 * MARGIN, size + 2 * MARGIN + 68), WHITE)
    enlarged = Image.fromarray(255 - image).resize((size, size), Image.Resampling.NEAREST)
    picture.paste(enlarged.convert("RGB"), (MARGIN, MARGIN))
    draw = ImageDraw.Draw(picture)
    draw.rectangle((MARGIN - 1, MARGIN - 1, MARGIN + size, MARGIN + size), outline=LINE)
    below = MARGIN + size + 8
    _text(draw, MARGIN + size // 2, below + 12, f"answer: {answer or '?'}", 20, POINTER1 if answer else LINE)
    step = size // 10
    for number in range(10):
        left = MARGIN + number * step
        shown = number == digit
        draw.rectangle(
            (left, below + 32, left + step, below + 32 + step), fill=POINTER2 if shown else PALE, outline=LINE
        )
        colour = WHITE if shown else LINE
        _text(draw, left + step // 2, below + 32 + step // 2, str(number), 16, colour)
    return np.asarray(picture)


def _text(draw: ImageDraw.ImageDraw, x: int, y: int, text: str, size: int, colour: Colour) -> None:
    draw.text((x, y), text, fill=colour, font=ImageFont.load_default(size), anchor="mm")
