"""The compiled Karel machine: runs the instructions of `compiler` on arrays of worlds.

Instructions are (operation, a, b, c). `c` is the coverage point of the statement; the two points of a condition's
outcomes come right after it. The meaning is that of `interpreter`; a test compares them.
"""

from typing import Any, no_type_check

import numpy as np
from numba import njit

ACT = 0
"""Action a."""
BRANCH = 1
"""Condition a // 2, negated if a is odd; to b if it is false."""
JUMP = 2
"""To b."""
SET = 3
"""Register a becomes b."""
LOOP = 4
"""To b if register a is 0, else count it down."""
CALL = 5
"""Push procedure a."""
RETURN = 6
"""Pop."""
HALT = 7

_WALL = -1
_MAX_MARKERS = 10
_FINISHED, _CRASHED, _UNFINISHED = 0, 1, 2
_MOVE, _TURN_LEFT, _TURN_RIGHT, _PICK, _PUT = 0, 1, 2, 3, 4
_ROW_STEPS = np.array([-1, 0, 1, 0])
_COLUMN_STEPS = np.array([0, 1, 0, -1])


@njit(cache=True)
@no_type_check
def _sense(cells: Any, row: int, column: int, orientation: int, sensor: int) -> bool:
    """Sensor 0 front, 1 left, 2 right, 3 markers, 4 no markers."""
    if sensor == 3:
        return cells[row, column] > 0
    if sensor == 4:
        return cells[row, column] == 0
    facing = orientation
    if sensor == 1:
        facing = (orientation + 3) % 4
    elif sensor == 2:
        facing = (orientation + 1) % 4
    return cells[row + _ROW_STEPS[facing], column + _COLUMN_STEPS[facing]] != _WALL


@njit(cache=True)
@no_type_check
def _act(cells: Any, robot: Any, action: int) -> bool:
    """Do an action in place; False if the robot crashes."""
    row, column, orientation = robot[0], robot[1], robot[2]
    if action == _MOVE:
        row += _ROW_STEPS[orientation]
        column += _COLUMN_STEPS[orientation]
        if cells[row, column] == _WALL:
            return False
        robot[0], robot[1] = row, column
    elif action == _TURN_LEFT:
        robot[2] = (orientation + 3) % 4
    elif action == _TURN_RIGHT:
        robot[2] = (orientation + 1) % 4
    elif action == _PICK:
        if cells[row, column] == 0:
            return False
        cells[row, column] -= 1
    else:
        if cells[row, column] == _MAX_MARKERS:
            return False
        cells[row, column] += 1
    return True


@njit(cache=True)
@no_type_check
def _run(
    code: Any, max_events: int, cells: Any, robot: Any, counters: Any, stack: Any, covered: Any, trace: Any
) -> Any:
    """One run; returns the outcome and the number of actions.

    `trace` is (whether to record, observations, actions, stacks, kept); `same` counts the frames that are the same
    invocations as at the action before.
    """
    recording, observations, actions, stacks, kept = trace
    depth, same = 1, 1
    stack[0] = 0
    events, length, line, outcome = 0, 0, 0, _FINISHED
    while True:
        operation, a, b, c = code[line, 0], code[line, 1], code[line, 2], code[line, 3]
        line += 1
        if operation == ACT:
            covered[c] = True
            if recording:
                for sensor in range(4):
                    observations[length, sensor] = _sense(cells, robot[0], robot[1], robot[2], sensor)
            if not _act(cells, robot, a):
                outcome = _CRASHED
                break
            if recording:
                actions[length] = a
                for frame in range(depth):
                    stacks[length, frame] = stack[frame]
                kept[length] = same
            same = depth
            length += 1
            events += 1
        elif operation == BRANCH:
            covered[c] = True
            result = _sense(cells, robot[0], robot[1], robot[2], a // 2) != (a % 2 == 1)
            covered[c + 1 if result else c + 2] = True
            if not result:
                line = b
            events += 1
        elif operation == JUMP:
            line = b
        elif operation == SET:
            covered[c] = True
            counters[a] = b
        elif operation == LOOP:
            if counters[a] == 0:
                line = b
            else:
                counters[a] -= 1
        elif operation == CALL:
            stack[depth] = a
            depth += 1
        elif operation == RETURN:
            depth -= 1
            same = min(same, depth)
        else:
            break
        if events >= max_events:
            outcome = _UNFINISHED
            break
    if recording:
        for sensor in range(4):
            observations[length, sensor] = _sense(cells, robot[0], robot[1], robot[2], sensor)
    return outcome, length


@njit(cache=True)
@no_type_check
def run_all(
    code: Any,
    depth: int,
    registers: int,
    max_events: int,
    cells: Any,
    robots: Any,
    outcomes: Any,
    lengths: Any,
    covered: Any,
) -> None:
    """Run on every world, which becomes its final state; fill in outcomes, lengths and coverage."""
    counters = np.zeros(registers + 1, dtype=np.int32)
    stack = np.zeros(depth, dtype=np.int16)
    nothing = (
        False,
        np.zeros((0, 4), dtype=np.float32),
        np.zeros(0, dtype=np.int32),
        np.zeros((0, depth), dtype=np.int16),
        np.zeros(0, dtype=np.int16),
    )
    for i in range(len(robots)):
        outcomes[i], lengths[i] = _run(code, max_events, cells[i], robots[i], counters, stack, covered[i], nothing)


@njit(cache=True)
@no_type_check
def record_all(
    code: Any,
    depth: int,
    registers: int,
    max_events: int,
    cells: Any,
    robots: Any,
    observations: Any,
    actions: Any,
    offsets: Any,
    stacks: Any,
    kept: Any,
) -> None:
    """Run on every world and write each trace into its part of the flat arrays."""
    counters = np.zeros(registers + 1, dtype=np.int32)
    stack = np.zeros(depth, dtype=np.int16)
    # Coverage is not asked for here, but `_run` marks it: at most three points for each instruction.
    covered = np.zeros(3 * len(code) + 3, dtype=np.bool_)
    for i in range(len(robots)):
        start, end = offsets[i], offsets[i + 1]
        trace = (
            True,
            observations[start + i : end + i + 1],
            actions[start:end],
            stacks[start:end],
            kept[start:end],
        )
        _run(code, max_events, cells[i], robots[i], counters, stack, covered, trace)
