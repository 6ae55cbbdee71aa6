"""A game whose observations have parts of every kind (Dict, Tuple, Discrete, Text), as a Minari data set.

MINARI_DATASETS_PATH=logs python examples/logs/game.py logs && MINARI_DATASETS_PATH=logs hvil fit minari:logs/game-v0
"""

import random
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

WALK, TAKE, UNLOCK = range(3)
NAME = "logs/game-v0"


def write(directory: Path, traces: int = 120, seed: int = 0) -> list[str]:
    """Write the data set where MINARI_DATASETS_PATH says, and return the arguments with which hvil reads it."""
    import minari
    from minari.data_collector import EpisodeBuffer

    rng = random.Random(seed)
    space = spaces.Dict(
        position=spaces.Box(0, 20, (2,), dtype=np.float32),
        room=spaces.Discrete(3),
        carries=spaces.MultiBinary(2),
        goal=spaces.Text(20, charset="abcdefghijklmnopqrstuvwxyz "),
        senses=spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 1, (), dtype=np.float32))),
    )
    buffers = []
    for number in range(traces):
        rows, actions = _episode(rng)
        steps = len(actions)
        buffers.append(
            EpisodeBuffer(
                id=number,
                observations={
                    "position": np.array([row["position"] for row in rows], dtype=np.float32),
                    "room": np.array([row["room"] for row in rows]),
                    "carries": np.array([row["carries"] for row in rows], dtype=np.int8),
                    "goal": [row["goal"] for row in rows],
                    "senses": (
                        np.array([row["door"] for row in rows]),
                        np.array([rng.random() for _ in rows], dtype=np.float32),
                    ),
                },
                actions=np.array(actions),
                rewards=[0.0] * steps,
                terminations=[step == steps - 1 for step in range(steps)],
                truncations=[False] * steps,
            )
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about author, algorithm, links: there are none
        minari.create_dataset_from_buffers(NAME, buffers, observation_space=space, action_space=spaces.Discrete(3))
    return [f"minari:{NAME}"]


def _episode(rng: random.Random) -> tuple[list[dict[str, Any]], list[int]]:
    """Walk to the key, take it, walk to the door, unlock it."""
    key, door = rng.randint(1, 4), rng.randint(5, 9)
    goal = rng.choice(["open the red door", "open the blue door"])
    rows: list[dict[str, Any]] = []
    actions: list[int] = []
    x, has_key, unlocked = 0, 0, False
    while True:
        room = 0 if x < 3 else 1 if x < 6 else 2
        rows.append(
            {"position": (x, key if not has_key else door), "room": room, "carries": (has_key, 0)}
            | {"goal": goal, "door": int(x == door)}
        )
        if unlocked:
            return rows, actions
        action = TAKE if x == key and not has_key else UNLOCK if x == door else WALK
        actions.append(action)
        x, has_key, unlocked = x + (action == WALK), int(has_key or action == TAKE), action == UNLOCK


if __name__ == "__main__":
    print(*write(Path(sys.argv[1])))
