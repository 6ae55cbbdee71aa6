"""Draws a Karel world for people: as text, and as a picture with walls, markers and the robot."""

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont

from hvil.domains.karel.world import ORIENTATIONS, WALL, World

_ROBOTS = "▲▶▼◀"

_CELL = 40
_SMOOTH = 3
"""The picture is drawn this many times larger and then reduced, which smooths the edges."""
_FLOOR = (250, 248, 243)
_LINE = (221, 216, 205)
_BRICK = (121, 85, 72)
_MORTAR = (161, 125, 110)
_MARKER = (255, 193, 7)
_MARKER_EDGE = (191, 131, 0)
_INK = (45, 38, 30)
_BODY = (33, 118, 199)
_BODY_EDGE = (13, 71, 130)
_LIGHT = (255, 255, 255)


def text(world: World) -> str:
    """The grid with box lines for the outer walls, and a line that says where the robot is."""
    height, width = world.cells.shape[0] - 2, world.cells.shape[1] - 2
    lines = ["┌" + "─" * (3 * width) + "┐"]
    for row in range(1, height + 1):
        cells = (_text_cell(world, row, column) for column in range(1, width + 1))
        lines.append("│" + "".join(cells) + "│")
    lines.append("└" + "─" * (3 * width) + "┘")
    here = int(world.cells[world.row, world.column])
    facing = ORIENTATIONS[world.orientation]
    lines.append(f"robot at row {world.row}, column {world.column}, facing {facing}; markers here: {here}")
    return "\n".join(lines)


def _text_cell(world: World, row: int, column: int) -> str:
    count = int(world.cells[row, column])
    if count == WALL:
        return "███"
    robot = _ROBOTS[world.orientation] if (row, column) == (world.row, world.column) else " "
    markers = str(count) if count else " " if robot != " " else "·"
    return f"{robot}{markers:<2}"


def picture(world: World) -> UInt8[np.ndarray, "height width 3"]:
    """Brick walls, gold markers with their count, a blue robot whose nose points where it faces."""
    unit = _CELL * _SMOOTH
    rows, columns = world.cells.shape
    image = Image.new("RGB", (columns * unit, rows * unit), _FLOOR)
    draw = ImageDraw.Draw(image)
    for row in range(rows):
        for column in range(columns):
            corner = (column * unit, row * unit)
            count = int(world.cells[row, column])
            if count == WALL:
                _draw_wall(draw, corner, unit)
                continue
            x, y = corner
            draw.rectangle([x, y, x + unit, y + unit], outline=_LINE, width=_SMOOTH)
            if count and (row, column) != (world.row, world.column):
                _draw_marker(draw, (x + unit / 2, y + unit / 2), unit * 0.3, count)
    _draw_robot(draw, world, unit)
    return np.asarray(image.resize((columns * _CELL, rows * _CELL), Image.Resampling.LANCZOS)).copy()


def _draw_wall(draw: ImageDraw.ImageDraw, corner: tuple[int, int], unit: int) -> None:
    x, y = corner
    draw.rectangle([x, y, x + unit - 1, y + unit - 1], fill=_BRICK)
    courses = 3
    for course in range(courses):
        top = y + course * unit / courses
        draw.line([x, top, x + unit, top], fill=_MORTAR, width=_SMOOTH)
        joint = x + unit * (0.25 if course % 2 else 0.75)
        draw.line([joint, top, joint, top + unit / courses], fill=_MORTAR, width=_SMOOTH)


def _draw_marker(draw: ImageDraw.ImageDraw, centre: tuple[float, float], radius: float, count: int) -> None:
    x, y = centre
    draw.ellipse(
        [x - radius, y - radius, x + radius, y + radius], fill=_MARKER, outline=_MARKER_EDGE, width=2 * _SMOOTH
    )
    font = ImageFont.load_default(size=radius * 1.25)
    draw.text((x, y), str(count), fill=_INK, font=font, anchor="mm", stroke_width=1, stroke_fill=_INK)


def _draw_robot(draw: ImageDraw.ImageDraw, world: World, unit: int) -> None:
    x, y = (world.column + 0.5) * unit, (world.row + 0.5) * unit
    size = 1.12 * unit

    def turned(right: float, front: float) -> tuple[float, float]:
        """A point of the robot's own frame, as parts of its size, where the robot faces north before it is turned."""
        for _ in range(world.orientation):
            right, front = front, -right
        return x + right * size, y - front * size

    wheels = [(side * 0.30, front) for side in (-1, 1) for front in (-0.2, 0.16)]
    for right, front in wheels:
        (x0, y0), (x1, y1) = turned(right - 0.08, front - 0.1), turned(right + 0.08, front + 0.1)
        draw.rectangle([min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)], fill=_INK)
    outline = [(-0.27, -0.32), (0.27, -0.32), (0.27, 0.12), (0.0, 0.44), (-0.27, 0.12)]
    draw.polygon([turned(*point) for point in outline], fill=_BODY, outline=_BODY_EDGE, width=2 * _SMOOTH)
    for side in (-1, 1):
        eye_x, eye_y = turned(side * 0.11, 0.1)
        eye = size * 0.07
        draw.ellipse([eye_x - eye, eye_y - eye, eye_x + eye, eye_y + eye], fill=_LIGHT)
        pupil_x, pupil_y = turned(side * 0.11, 0.13)
        draw.ellipse([pupil_x - eye / 2, pupil_y - eye / 2, pupil_x + eye / 2, pupil_y + eye / 2], fill=_INK)
    count = int(world.cells[world.row, world.column])
    if count:
        _draw_marker(draw, turned(0.0, -0.12), size * 0.2, count)
