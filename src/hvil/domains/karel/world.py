"""The Karel world: a grid inside outer walls, markers, one robot; what the robot senses and does.

Plain Python, one world at a time: the reference for the compiled `kernels`. Random worlds are drawn in `generator`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int8

from hvil.domains.karel.syntax import ACTIONS, OBSERVATIONS
from hvil.gate.errors import InputError

WALL = -1
MAX_MARKERS = 10
"""Of one cell."""
ORIENTATIONS = ("north", "east", "south", "west")
"""In clockwise order, so that a turn to the right adds one."""
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""Rows and columns that one move passes, by orientation."""
ROBOTS = "^>v<"

_MOVE, _LEFT, _RIGHT, _PICK, _PUT = range(len(ACTIONS))


class Crash(Exception):
    """The robot cannot do what it was asked to do; the message says why."""


@dataclass(slots=True, eq=False)
class World:
    """A grid and its robot; actions change it in place.

    `cells` includes the outer walls, so that the cells inside are counted from 1 and nothing needs a bounds check.
    """

    cells: Int8[np.ndarray, "rows columns"]
    """`WALL`, or the number of markers."""
    row: int
    column: int
    orientation: int
    """0 north, 1 east, 2 south, 3 west."""

    def check(self) -> None:
        """Raise a `ValueError` if it is no world: nothing that acts in it checks any bounds."""
        cells = self.cells
        if cells.ndim != 2 or min(cells.shape) < 3 or cells.min() < WALL or cells.max() > MAX_MARKERS:
            raise ValueError(f"its cells are not a grid of walls and of 0 to {MAX_MARKERS} markers")
        inside = cells[1:-1, 1:-1]
        if (cells == WALL).sum() - (inside == WALL).sum() != cells.size - inside.size:
            raise ValueError("there is no wall around it")
        within = 0 < self.row < cells.shape[0] - 1 and 0 < self.column < cells.shape[1] - 1
        if not within or cells[self.row, self.column] == WALL or not 0 <= self.orientation < 4:
            raise ValueError("the robot does not stand on a free cell")

    def clear(self, turn: int) -> bool:
        """Whether the neighbouring cell is free; `turn` counts quarter turns to the right of the robot's front."""
        rows, columns = STEPS[(self.orientation + turn) % 4]
        return bool(self.cells[self.row + rows, self.column + columns] != WALL)

    def observation(self) -> tuple[bool, bool, bool, bool]:
        """What the robot senses, in the order of `OBSERVATIONS`."""
        return self.clear(0), self.clear(3), self.clear(1), bool(self.cells[self.row, self.column] > 0)

    def holds(self, predicate: str) -> bool:
        """Whether a predicate of the language is true here."""
        if predicate == "noMarkersPresent":
            return not self.observation()[OBSERVATIONS.index("markersPresent")]
        return self.observation()[OBSERVATIONS.index(predicate)]

    def perform(self, action: int) -> None:
        """Do one of `ACTIONS`.

        Raises:
            Crash: the action is impossible here; the world is unchanged.
        """
        if action == _MOVE:
            if not self.clear(0):
                raise Crash(f"move into a wall, facing {ORIENTATIONS[self.orientation]} at {self._position()}")
            rows, columns = STEPS[self.orientation]
            self.row, self.column = self.row + rows, self.column + columns
        elif action == _LEFT:
            self.orientation = (self.orientation + 3) % 4
        elif action == _RIGHT:
            self.orientation = (self.orientation + 1) % 4
        elif action == _PICK:
            if self.cells[self.row, self.column] == 0:
                raise Crash(f"pickMarker where there is no marker, at {self._position()}")
            self.cells[self.row, self.column] -= 1
        elif action == _PUT:
            if self.cells[self.row, self.column] == MAX_MARKERS:
                raise Crash(f"putMarker on {MAX_MARKERS} markers, the most a cell can hold, at {self._position()}")
            self.cells[self.row, self.column] += 1
        else:
            raise InputError(f"action {action}: expected 0..{len(ACTIONS) - 1} ({', '.join(ACTIONS)})")

    def copy(self) -> "World":
        """A world that can change without changing this one."""
        return World(self.cells.copy(), self.row, self.column, self.orientation)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, World):
            return NotImplemented
        same_robot = (self.row, self.column, self.orientation) == (other.row, other.column, other.orientation)
        return same_robot and np.array_equal(self.cells, other.cells)

    __hash__ = None  # type: ignore[assignment]

    def _position(self) -> str:
        return f"row {self.row}, column {self.column}"

    def to_text(self) -> str:
        """One line a row: `#` wall, `.` nothing, a number of markers, `^>v<` the robot, `>3` on three markers."""
        lines = []
        for row in range(1, self.cells.shape[0] - 1):
            pieces = []
            for column in range(1, self.cells.shape[1] - 1):
                count = int(self.cells[row, column])
                robot = ROBOTS[self.orientation] if (row, column) == (self.row, self.column) else ""
                markers = "#" if count == WALL else str(count) if count else "" if robot else "."
                pieces.append(f"{robot + markers:<3}")
            lines.append(" ".join(pieces).rstrip())
        return "\n".join(lines)

    @staticmethod
    def from_text(text: str) -> "World":
        """The world that `to_text` writes; the outer walls are added.

        Raises:
            InputError: with the row and column of what is wrong.
        """
        rows = [line.split() for line in text.splitlines() if line.strip()]
        if not rows:
            raise InputError("a Karel world needs at least one row")
        cells = np.full((len(rows) + 2, len(rows[0]) + 2), WALL, dtype=np.int8)
        robots: list[tuple[int, int, int]] = []
        for i, row in enumerate(rows, start=1):
            if len(row) != len(rows[0]):
                raise InputError(f"Karel world, row {i}: {len(row)} cells, expected {len(rows[0])} as in row 1")
            for j, piece in enumerate(row, start=1):
                if piece[0] in ROBOTS:
                    robots.append((i, j, ROBOTS.index(piece[0])))
                    piece = piece[1:] or "."
                cells[i, j] = _cell(piece, f"Karel world, row {i}, column {j}")
        if len(robots) != 1:
            raise InputError(f"a Karel world needs one robot (one of {ROBOTS}), found {len(robots)}")
        return world_from_arrays(cells, robots[0])


def world_from_arrays(cells: Any, robot: Any) -> World:
    """A world from a grid with its outer walls (`WALL` or a number of markers) and (row, column, orientation).

    Raises:
        InputError: no such world.
    """
    cells = np.array(cells)
    if cells.ndim != 2 or min(cells.shape) < 3 or cells.dtype.kind not in "iu":
        raise InputError(
            "Karel cells: expected whole numbers, rows × columns with the outer walls, "
            f"found {cells.dtype} {cells.shape}"
        )
    if cells.min() < WALL or cells.max() > MAX_MARKERS:
        raise InputError(f"Karel cells: expected {WALL} (wall) or 0..{MAX_MARKERS} markers in each")
    if (np.concatenate([cells[0], cells[-1], cells[:, 0], cells[:, -1]]) != WALL).any():
        raise InputError("Karel cells: the first and last row and column must be walls")
    try:
        row, column, orientation = (int(number) for number in robot)
    except (TypeError, ValueError) as error:
        raise InputError(f"Karel robot: expected (row, column, orientation), found {robot!r}") from error
    inside = 0 <= row < cells.shape[0] and 0 <= column < cells.shape[1] and cells[row, column] != WALL
    if not inside or not 0 <= orientation < 4:
        raise InputError(f"Karel robot: ({row}, {column}, {orientation}) is in a wall or faces no direction 0..3")
    return World(cells.astype(np.int8), row, column, orientation)


def _cell(piece: str, where: str) -> int:
    if piece == "#":
        return WALL
    if piece == ".":
        return 0
    if piece.isdecimal() and piece.isascii() and int(piece) <= MAX_MARKERS:
        return int(piece)
    raise InputError(f"{where}: {piece!r} is not #, ., a number up to {MAX_MARKERS} or a robot ({ROBOTS})")
