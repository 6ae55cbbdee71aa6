"""Where the traces of cells come from: a task, or files of one's own.

The contents are part of a cell, so that old records do not count for a file that has changed.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from hvil.data.settings import DataSettings
from hvil.data.sources import names_task, traces_from
from hvil.data.tasks import find_task
from hvil.gate.errors import InputError
from hvil.gate.settings import setting_names
from hvil.learners import LEARNERS
from hvil.learners.settings import TrainingSettings
from hvil.training.own_data import own_schedule
from hvil.training.plan import task_defaults


class Origin(NamedTuple):
    """A source of traces."""

    name: str
    """A task's full name, or the name of files as it was given."""
    contents: str
    """What the name does not say: the text of a task's program, or a digest of the traces in files."""
    action_names: tuple[str, ...]
    traces: int | None = None
    """How many there are in files; a task makes as many as are asked for."""

    def check(self, demos: int) -> None:
        """Refuse to train on so many traces if none would be left to test on."""
        if self.traces is not None and demos >= self.traces:
            raise InputError(
                f"{self.name}: {demos} training traces, but there are {self.traces}, and at least one is tested on"
            )


def origin(source: str) -> Origin:
    """The task or the files that a source names."""
    if names_task(source):
        # A task's full name: MNIST's says whether all images are used, which an environment variable may decide.
        task = find_task(source)
        return Origin(name=task.name, contents=task.contents, action_names=task.action_names)
    traces = traces_from(source, DataSettings())
    digest = hashlib.sha256("\n".join(traces.action_names).encode())
    for each in traces.contents():
        digest.update(each)
    return Origin(name=source, contents=digest.hexdigest(), action_names=traces.action_names, traces=len(traces))


def suggested(source: str, learner: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a learner that a source suggests.

    Args:
        source: a task or files.
        learner: its name.
        given: the settings that are given; other settings may follow from them.
    """
    if names_task(source):
        return task_defaults(find_task(source), learner)
    names = setting_names(LEARNERS[learner], TrainingSettings)
    return {name: value for name, (value, _) in own_schedule(given).items() if name in names}
