"""A policy $FOR that was learned from demonstrations, as a program.

It $FIDELITY.

Use it: action, memory = act(observation, memory), with None as the first memory of an episode.
$PLAYING
"""

import numpy as np

from hvil.analysis.explain.interpreter import Interpreter, Memory

ACTIONS = ("$ACTIONS",)
WORDS = ("$WORDS",)
"""The words of the actions in the program."""

# In a procedure, `counter` is the number of steps that it has taken, and `last` is the last of them.
PROGRAM = """
$PROGRAM
"""


def observe(observation: np.ndarray) -> dict[str, bool | float | str]:
    """Give words to what is observed."""
    return {
        # $QUANTITIES
    }


# $INTERPRETER


INTERPRETER = Interpreter(PROGRAM, WORDS)


def act(observation: np.ndarray, memory: Memory | None = None) -> tuple[int, Memory]:
    """The next action, and the memory to give back with the next observation.

    Args:
        observation: its numbers, in the order of the demonstrations.
        memory: None at the start of an episode.

    Returns:
        The number of the action in `ACTIONS`, or `len(ACTIONS)` once the program has ended; and a memory of plain data.
    """
    return INTERPRETER.act(observe(np.asarray(observation).ravel()), memory)


# $PLAY
TASK = "$TASK"
ACTION_LIMIT = 10_000
"""Actions after which an episode is given up."""


def main(episodes: int = 100, seed: int = 0) -> None:
    """Play episodes and count the successes."""
    from hvil.data.tasks import find_task  # for the environment; only this function needs it

    environment = find_task(TASK).environment()

    def succeeds(seed: int) -> bool:
        observation, _ = environment.reset(seed=seed)
        memory = None
        for _ in range(ACTION_LIMIT):
            action, memory = act(observation, memory)
            observation, _, terminated, truncated, info = environment.step(action)
            if terminated or truncated:
                return memory == () and bool(info.get("success", False))
        return False

    successes = sum(succeeds(seed + i) for i in range(episodes))
    print(f"{successes} of {episodes} episodes on {TASK} succeeded")


if __name__ == "__main__":
    import sys

    main(*map(int, sys.argv[1:3]))
