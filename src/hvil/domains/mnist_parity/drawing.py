"""Pictures and text of the MNIST-parity environment, from its state alone."""

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw

from hvil.domains.canvas import BLUE, LINE, MARGIN, ORANGE, PALE, WHITE, draw_text

SHADES = " .:-=+*#%@"
"""Characters from light to dark."""


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
    draw_text(draw, MARGIN + size // 2, below + 12, f"answer: {answer or '?'}", 20, BLUE if answer else LINE)
    step = size // 10
    for number in range(10):
        left = MARGIN + number * step
        shown = number == digit
        draw.rectangle((left, below + 32, left + step, below + 32 + step), fill=ORANGE if shown else PALE, outline=LINE)
        colour = WHITE if shown else LINE
        draw_text(draw, left + step // 2, below + 32 + step // 2, str(number), 16, colour)
    return np.asarray(picture)
