"""Writes a log of a robot arm that reaches for a part, grasps it, lifts it and carries it to a bin.

It looks like the export of a motion controller: one row a control tick, positions in millimetres, forces in newtons,
the commands of the controller beside them. The last row of a run has no command. The commands are continuous:
velocities of the gripper and the width of its jaws. Which phase the controller was in is not in the log.

    python examples/logs/reach_and_grasp.py logs && hvil fit logs/reach_and_grasp.csv
"""

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = (
    "run", "step", "observation.dx_mm", "observation.dy_mm", "observation.dz_mm", "observation.bin_dx_mm",
    "observation.bin_dy_mm", "observation.jaw_mm", "observation.grip_N",
    "action.vx_mm_s", "action.vy_mm_s", "action.vz_mm_s", "action.jaw_mm_s",
)  # fmt: skip
TICK = 0.1
"""Seconds between two rows."""
OPEN, CLOSED, LIFT = 60.0, 28.0, 120.0
"""The jaws in millimetres, open and on a part; how high a part is lifted, in millimetres."""


def write(directory: Path, traces: int = 60, seed: int = 0) -> list[str]:
    """Write the log, and return the arguments with which hvil reads it."""
    rng = np.random.default_rng(seed)
    path = directory / "reach_and_grasp.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        log = csv.writer(stream)
        log.writerow(COLUMNS)
        for number in range(traces):
            log.writerows(_rows_of_run(f"cell7-{1000 + number}", rng))
    return [str(path)]


def _rows_of_run(run: str, rng: np.random.Generator) -> list[list[Any]]:
    """One run of the cell: reach, grasp, lift, carry."""
    part = rng.uniform([-200, -200, -150], [200, 200, -80])  # from the gripper
    bin_ = rng.uniform([-300, 200], [300, 350])
    jaw, grip, lifted = OPEN, 0.0, 0.0
    rows: list[list[Any]] = []
    while True:
        seen = [*part, *bin_, jaw, grip]
        command = _command(part, bin_, jaw, grip, lifted)
        values = [f"{value + rng.normal(0, 0.2):.2f}" for value in seen]
        if command is None:
            rows.append([run, len(rows), *values, "", "", "", ""])
            return rows
        command = command + rng.normal(0, 1.5, 4)
        rows.append([run, len(rows), *values, *(f"{value:.2f}" for value in command)])
        moved = command[:3] * TICK
        if grip > 0:
            lifted += moved[2]  # the part moves with the gripper
        else:
            part = part - moved
        bin_ = bin_ - moved[:2]
        jaw = max(jaw + command[3] * TICK, CLOSED)
        grip = 15.0 if jaw <= CLOSED + 1 else 0.0


def _command(part: np.ndarray, bin_: np.ndarray, jaw: float, grip: float, lifted: float) -> np.ndarray | None:
    """What the controller does now: velocities towards its goal, or the speed of the jaws; None when it is done."""
    if grip == 0 and np.linalg.norm(part) > 12:
        return np.array([*(3.0 * part), 0.0])
    if grip == 0:
        return np.array([0.0, 0.0, 0.0, -80.0])
    if lifted < LIFT:
        return np.array([0.0, 0.0, 200.0, 0.0])
    return np.array([*(2.5 * bin_), 0.0, 0.0]) if np.linalg.norm(bin_) > 15 else None


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    print(*write(Path(sys.argv[1])))
