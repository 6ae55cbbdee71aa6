"""Describes a set of traces before anybody learns from it: what it holds, what the networks would see, what is odd.

A file that cannot be used is refused when it is loaded. The oddities here are legal, but worth knowing.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hvil.data.action_scale import ActionScale
from hvil.data.formats.recognition import lines
from hvil.data.formats.tables import NO_ACTION
from hvil.data.inputs import Inputs, is_image, suitable_inputs
from hvil.data.traces import Traces
from hvil.training.own_data import suggested_call_graph
from hvil.training.plan import shape_lines

COLUMNS_SHOWN = 40
"""Columns that are described, at most: more do not fit on a screen."""
LONG_TRACE = 1_000
"""Actions from which on a trace is called long: an update then takes seconds."""
FEW_TO_HOLD_OUT = 20
"""Traces below which the user is warned: four would be held out, and one or two of the rest would stop the training."""


@dataclass(frozen=True)
class Column:
    """One column of a flat observation."""

    name: str
    low: float
    high: float
    different: int
    """How many different values it has."""
    seen_as: str
    """What the networks get: `one-hot of 5`, `standardised`, `as it is`."""


@dataclass(frozen=True)
class SourceColumn:
    """How one column of the table is read."""

    name: str
    read_as: str
    flag: str
    """The flag that changes it."""


@dataclass(frozen=True)
class Inspection:
    """What `hvil inspect` says."""

    traces: int
    steps: int
    lengths: Mapping[str, float]
    actions: Mapping[str, int]
    """How often each action is taken."""
    continuous: tuple[Column, ...]
    """The numbers of a continuous action; empty for discrete actions."""
    observation_shape: tuple[int, ...]
    observation_type: str
    columns: tuple[Column, ...]
    """The first of them, if there are many."""
    table: tuple[SourceColumn, ...]
    """How the columns of the file are read, if it is a table of another tool."""
    annotated: float
    """Share of the steps whose call structure is known."""
    procedures: tuple[str, ...]
    call_graph: str
    """What `hvil fit` would choose."""
    oddities: tuple[str, ...]

    def to_mapping(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def inspect(traces: Traces, pictures: str = "auto") -> Inspection:
    """Describe a set of traces; `pictures` says whether bytes may be read as pictures, as in `DataSettings`."""
    annotations = traces.annotations
    annotated = 0.0 if annotations is None else float(annotations.known.mean())
    choice = suggested_call_graph(traces, annotated > 0)
    counts = np.bincount(traces.actions, minlength=len(traces.action_names)).tolist()
    columns = () if is_image(traces, pictures) else _columns(traces, pictures)
    table = () if traces.reading is None else tuple(SourceColumn(*line) for line in lines(traces.reading))
    return Inspection(
        traces=len(traces),
        steps=len(traces.actions),
        lengths=traces.length_statistics()._asdict(),
        actions=dict(zip(traces.action_names, counts, strict=True)),
        continuous=_continuous(traces),
        observation_shape=traces.observation_shape,
        observation_type=str(traces.observations.dtype),
        columns=columns,
        table=table,
        annotated=annotated,
        procedures=() if annotations is None else annotations.procedures,
        call_graph=choice.reason,
        oddities=tuple(_oddities(traces, columns) + shape_lines(traces, pictures)),
    )


def _columns(traces: Traces, pictures: str) -> tuple[Column, ...]:
    flat = traces.observations.reshape(len(traces.observations), -1)
    inputs = None if "task" in traces.attributes else suitable_inputs(traces, pictures)
    names = traces.observation_names or [f"o[{c}]" for c in range(flat.shape[1])]
    columns = []
    for index, name in enumerate(names[:COLUMNS_SHOWN]):
        values = flat[:, index]
        low, high, different = float(values.min()), float(values.max()), len(np.unique(values))
        columns.append(Column(name, low, high, different, _seen_as(inputs, index)))
    return tuple(columns)


def _continuous(traces: Traces) -> tuple[Column, ...]:
    """The numbers of a continuous action."""
    scale = ActionScale.of(traces)
    if scale is None or traces.vectors is None:
        return ()
    columns = []
    for name, mean, deviation, values in zip(scale.names, scale.means, scale.scales, traces.vectors.T, strict=True):
        low, high, different = float(values.min()), float(values.max()), len(np.unique(values))
        seen_as = f"standardised (mean {mean:.4g}, scale {deviation:.4g})"
        columns.append(Column(name, low, high, different, seen_as))
    return tuple(columns)


def _seen_as(inputs: Inputs | None, column: int) -> str:
    if inputs is None:
        return "as it is"
    if inputs.values[column]:
        return f"one-hot of {len(inputs.values[column])}"
    plain = (inputs.means[column], inputs.scales[column]) == (0.0, 1.0)
    return "as it is" if plain else f"standardised (mean {inputs.means[column]:.4g}, scale {inputs.scales[column]:.4g})"


def _oddities(traces: Traces, columns: tuple[Column, ...]) -> list[str]:
    oddities = []
    if len(traces) < FEW_TO_HOLD_OUT:
        oddities.append(f"only {len(traces)} traces: a fifth is held out, little is left to learn from")
    used = np.bincount(traces.actions, minlength=len(traces.action_names))
    unused = [name for name, count in zip(traces.action_names, used, strict=True) if not count]
    if unused:
        oddities.append(f"actions that are never taken: {', '.join(unused[:10])}")
    still = [column.name for column in _continuous(traces) if column.different == 1]
    if still:
        oddities.append(f"numbers of the action that never change: {', '.join(still)}")
    if len(traces.action_names) == 1 and traces.vectors is None:
        oddities.append("there is only one action: nothing to choose")
    constant = [column.name for column in columns if column.different == 1]
    if constant:
        oddities.append(f"columns that never change: {', '.join(constant[:10])}")
    null_words = [name for name in traces.action_names if name in NO_ACTION]
    if null_words:
        oddities.append(f"actions that other tools take for a missing value: {', '.join(null_words)}")
    if "last_observation" in traces.attributes:
        oddities.append("the log ends with the last action: the last observation stands twice in each trace")
    longest = int(traces.lengths.max())
    if longest > LONG_TRACE:
        oddities.append(f"a trace of {longest} actions: an update takes as long as its longest traces")
    repeated = _repeated(traces)
    if repeated:
        oddities.append(f"{repeated} traces stand more than once: held-out traces may be among the training traces")
    return oddities


def _repeated(traces: Traces) -> int:
    """How many traces have the same contents as one before."""
    return len(traces) - len(set(traces.contents()))
