"""Brings traces into a run's numbering: actions, columns and categories that are called the same are the same.

Another file may lack a rare action, or have its columns in another order. What a run does not know is refused by name.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hvil.data.reading import UNKNOWN, Reading
from hvil.data.traces import Traces
from hvil.gate.errors import InputError


def matched(
    traces: Traces,
    action_names: Sequence[str],
    observation_names: Sequence[str] = (),
    reading: Reading | None = None,
    where: str = "the traces",
) -> Traces:
    """The traces with actions, columns and categories numbered as a run has them.

    Args:
        traces: any traces.
        action_names: the run's actions.
        observation_names: the run's columns; none: columns are not told apart by name.
        reading: how the run's columns were read; the traces may have been read in another way.
        where: what the traces are called in an error message.

    Raises:
        InputError: the traces have an action that the run does not know.
    """
    if traces.action_names != tuple(action_names):
        traces = _with_actions(traces, tuple(action_names), where)
    names = traces.observation_names
    if names != tuple(observation_names) and sorted(names) == sorted(observation_names):
        order = [names.index(name) for name in observation_names]
        flat = traces.observations.reshape(len(traces.observations), -1)[:, order]
        of_columns = {} if traces.reading is None else {column.key: column for column in traces.reading.columns}
        sorted_reading = None
        if reading is not None and all(column.key in of_columns for column in reading.columns):
            sorted_reading = replace(reading, columns=tuple(of_columns[column.key] for column in reading.columns))
        traces = replace(traces, observations=flat, observation_names=tuple(observation_names), reading=sorted_reading)
    if reading is None or traces.reading is None or reading.categories == traces.reading.categories:
        return traces
    return _with_categories(traces, traces.reading, reading)


def _with_actions(traces: Traces, action_names: tuple[str, ...], where: str) -> Traces:
    numbers = {name: number for number, name in enumerate(action_names)}
    used = np.unique(traces.actions).tolist()
    unknown = [traces.action_names[action] for action in used if traces.action_names[action] not in numbers]
    if unknown:
        theirs, own = ", ".join(traces.action_names), ", ".join(action_names)
        raise InputError(f"{where}: actions {theirs}; the model has {own}, and does not know {', '.join(unknown)}")
    codes = np.array([numbers.get(name, -1) for name in traces.action_names])
    return replace(traces, actions=codes[traces.actions], action_names=action_names)


def _with_categories(traces: Traces, theirs: Reading, reading: Reading) -> Traces:
    """The traces with the numbers of a run's categories."""
    observations = traces.observations.astype(np.result_type(traces.observations.dtype, np.int8))
    for index, name in enumerate(traces.observation_names):
        own, other = reading.categories.get(name), theirs.categories.get(name)
        if own and other and own != other:
            codes = np.array([own.index(text) if text in own else UNKNOWN for text in other] + [UNKNOWN])
            observations[:, index] = codes[observations[:, index].astype(np.int64)]
    same = reading.names == traces.observation_names
    return replace(traces, observations=observations, reading=reading if same else None)
