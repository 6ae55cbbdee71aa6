"""A policy for $TASK that was learned from demonstrations, as a program.

It $FIDELITY.
Run it: python FILE [EPISODES] [SEED]
"""

import sys

import numpy as np

from hvil.analysis.explain.stage import Live, Stage
from hvil.data.tasks import find_task

TASK = "$TASK"
ACTIONS = ("$ACTIONS",)
PROCEDURES = ("$PROCEDURES",)


def observe(observation: np.ndarray) -> dict[str, bool | float]:
    """Give names to what is observed."""
    return {
        # $QUANTITIES
    }


# The procedures. `Stage` sets the names that they use: the actions, what is observed, and of the procedure that runs
# the number of steps it has taken (`counter`) and the last of them (`last`).


# $PROGRAM


def main(episodes: int = 100, seed: int = 0) -> None:
    """Play episodes and count the successes."""
    stage = Stage(globals(), ACTIONS, PROCEDURES)
    world = Live(find_task(TASK).environment(), observe)
    successes = sum(world.succeeds(stage, seed + i) for i in range(episodes))
    print(f"{successes} of {episodes} episodes on {TASK} succeeded")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
