"""The teacher of there and back: its actions, and its traces for many corridors at once, in closed form.

    def walk():
        if front_is_clear:
            move()
            walk()
            move()
        else:
            turn()
            turn()

`task` and `environment` are built on it.

Letters: N traces.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Int

from hvil.data.traces import Traces
from hvil.domains.recursive import Sizes, self_calls

ACTIONS = ("move", "turn")
MOVE, TURN = range(len(ACTIONS))
OBSERVATIONS = ("front_is_clear",)

CELLS = Sizes(domain="thereandback", what="cells", lowest=0, highest=400)
"""The free cells between the start and the wall. Each is a call: a stack is at most 1,000 frames high."""
DEFAULT_CELLS = (0, 5)


def teach(cells: Int[np.ndarray, "N"], most: int, attributes: Mapping[str, str] | None = None) -> Traces:
    """The teacher's traces for the given numbers of free cells, with its call structure.

    With n cells there are 2n + 2 actions. At the times n and n + 1 the robot turns: its front is blocked by the wall,
    then by the side of the corridor. The stack grows by a frame with each move, and shrinks in the same way.

    Args:
        cells: how many free cells the robot has before it, for each trace.
        most: no trace has more cells; it decides the width of the annotated stacks.
        attributes: facts about the whole set.
    """
    offsets = np.concatenate([[0], np.cumsum(2 * cells + 2)])
    n, time = np.repeat(cells, 2 * cells + 2), _times(2 * cells + 2)
    n_of_row, time_of_row = np.repeat(cells, 2 * cells + 3), _times(2 * cells + 3)
    blocked = (time_of_row == n_of_row) | (time_of_row == n_of_row + 1)
    heights = 1 + np.minimum(np.minimum(time, n), 2 * n + 1 - time)
    return Traces(
        observations=(~blocked[:, None]).astype(np.float32),
        actions=np.where((time == n) | (time == n + 1), TURN, MOVE).astype(np.int32),
        offsets=offsets,
        action_names=ACTIONS,
        observation_names=OBSERVATIONS,
        annotations=self_calls(heights, offsets[:-1], most + 1),
        metadata={"cells": cells.astype(np.int16)},
        attributes=attributes or {},
    )


def _times(counts: Int[np.ndarray, "N"]) -> Int[np.ndarray, "times"]:
    """0, 1, … for each trace, one trace after another."""
    return np.asarray(np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts))
