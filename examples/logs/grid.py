"""What an agent sees of a small world: 7×7 cells of three small bytes each (object, colour, state), as in MiniGrid.

python examples/logs/grid.py logs && hvil fit logs/grid.npz
"""

import random
import sys
from pathlib import Path

import numpy as np

import hvil

WALL, GOAL, KEY = 2, 8, 5
SIZE = 7


def write(directory: Path, traces: int = 120, seed: int = 0) -> list[str]:
    """Write the traces, and return the arguments with which hvil reads them."""
    rng = random.Random(seed)
    observations, actions = [], []
    for _ in range(traces):
        seen, done = _episode(rng.randint(1, SIZE - 2), rng.randint(0, 5))
        observations.append(seen)
        actions.append(done)
    path = directory / "grid.npz"
    hvil.save_traces(hvil.Traces.from_episodes(observations, actions, ["forward", "pick_up", "turn"]), path)
    return [str(path)]


def _episode(distance: int, colour: int) -> tuple[np.ndarray, np.ndarray]:
    """Walk to the key, pick it up, turn round."""
    seen, done = [], []
    for away in range(distance, -1, -1):
        seen.append(_view(away, colour, KEY))
        done.append("forward" if away else "pick_up")
    seen.append(_view(0, colour, GOAL))
    done.append("turn")
    seen.append(_view(SIZE, colour, GOAL))
    names = ["forward", "pick_up", "turn"]
    return np.stack(seen), np.array([names.index(name) for name in done])


def _view(away: int, colour: int, thing: int) -> np.ndarray:
    """The agent is in the middle of the last row and looks up."""
    view = np.ones((SIZE, SIZE, 3), dtype=np.uint8)
    view[:, 0] = view[:, -1] = (WALL, 5, 0)
    if away < SIZE:
        view[SIZE - 1 - away, SIZE // 2] = (thing, colour, 0)
    return view


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    print(*write(Path(sys.argv[1])))
