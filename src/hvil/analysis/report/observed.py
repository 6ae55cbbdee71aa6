"""What the page says of an observation: names, how each value is shown, and the values in the words of the program.

Letters: R observations, D numbers of one, V values that are shown.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Num, Shaped

from hvil.analysis.report.episodes import Episode
from hvil.data.tasks import Quantity, Task
from hvil.learners.config import Config

MOST_NUMBERS = 64
"""Observations with more numbers than this, such as images, are not listed."""


class Observed(NamedTuple):
    """How observations are shown."""

    names: list[str]
    """Of the values; none if there are too many to list."""
    kinds: list[list[str] | str]
    """How each value is shown: the texts it stands for, `truth` or `number`."""
    quantities: tuple[Quantity, ...] = ()
    """What a task calls its observations; without any, the values are the numbers as they are."""

    def values(self, observations: Shaped[np.ndarray, "R ..."]) -> Num[np.ndarray, "R V"]:
        """The values at each observation."""
        flat = np.asarray(observations, dtype=np.float64).reshape(len(observations), -1)
        return np.stack([quantity.of(flat) for quantity in self.quantities], axis=1) if self.quantities else flat


def observed(config: Config, task: Task | None, episodes: Sequence[Episode]) -> Observed:
    """How the observations of a run are shown: in its task's words, as its columns were read, or as numbers.

    Args:
        config: of the run.
        task: where it acts; None for data of one's own.
        episodes: those that are shown; a number that is always 0 or 1 in them is shown as true or false.
    """
    if task is not None and task.quantities:
        kinds = ["truth" if quantity.kind == "truth" else "number" for quantity in task.quantities]
        return Observed([quantity.name for quantity in task.quantities], list(kinds), task.quantities)
    width = int(np.prod(config.observation_shape))
    if width > MOST_NUMBERS:
        return Observed([], [])
    named = len(config.observation_names) == width
    names = list(config.observation_names) if named else [f"o[{i}]" for i in range(width)]
    if config.reading is not None:
        texts = config.reading.categories
        numbers = {column.key for column in config.reading.columns if column.kind in ("number", "elapsed")}
        plain = {name: "number" if name in numbers else "truth" for name in config.reading.names}
        return Observed(names, [list(texts[name]) if name in texts else plain[name] for name in config.reading.names])
    flat = [np.asarray(episode.observations).reshape(len(episode.observations), -1) for episode in episodes]
    columns = np.concatenate(flat).T
    return Observed(names, ["truth" if np.isin(column, (0, 1)).all() else "number" for column in columns])
