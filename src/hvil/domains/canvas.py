"""What the pictures of several domains share: colours, the margin, and centred text."""

from PIL import ImageDraw, ImageFont

Colour = tuple[int, int, int]

WHITE, INK, LINE, PALE = (255, 255, 255), (34, 34, 34), (150, 150, 150), (243, 243, 243)
BLUE, ORANGE = (0, 114, 178), (213, 94, 0)
"""People who see colours differently can tell these two apart; labels say the same again."""

MARGIN = 16
"""Pixels around a picture."""


def draw_text(draw: ImageDraw.ImageDraw, x: int, y: int, text: str, size: int, colour: Colour) -> None:
    """Write text with its middle at a point."""
    draw.text((x, y), text, fill=colour, font=ImageFont.load_default(size), anchor="mm")
