"""Minari data sets: any traces are written as one; ours, and others' with discrete actions, are read as traces.

This needs the extra `minari`. Steps are Minari's own. The call structure is in `infos`, as the arrays `stack` (fixed
depth, padded with -1) and `kept`; names are in the data set's metadata under `hvil`; arrays with one entry for each
trace are in the file `hvil.npz` beside the data.
"""

import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from hvil.data.traces import OBSERVATION_DTYPES, Annotations, Traces
from hvil.gate.errors import InputError
from hvil.gate.files import read_npz, write_npz

PREFIX = "minari:"
STACK, KEPT = "stack", "kept"
"""Names of the two arrays in `infos`."""
PER_TRACE = "hvil.npz"
"""The file with one entry for each trace."""


def save_minari(traces: Traces, dataset_id: str, progress: Callable[[int], None] | None = None) -> None:
    """Write a local Minari data set; every step's reward is 0, because traces have none.

    Args:
        traces: what to write.
        dataset_id: such as `hvil/bubblesort-v0`, with or without `minari:` before it.
        progress: called with the number of traces written.

    Raises:
        InputError: Minari is not installed, the name is not a Minari name, or the data set exists.
    """
    minari = _minari()
    name = check_new(dataset_id)
    path = minari.storage.get_dataset_path(name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about author, algorithm, links: we have none
            dataset = minari.create_dataset_from_buffers(
                name,
                _episodes(traces, progress),
                observation_space=traces.observation_space,
                action_space=traces.action_space,
                description=f"Traces written by hvil: {traces!r}",
                data_format="hdf5",
                jpeg_encoding=False,
            )
        dataset.storage.update_metadata({"hvil": _facts(traces)})
        write_npz(dataset.storage.data_path / PER_TRACE, traces.metadata)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)  # no data set is better than half of one
        raise


def load_minari(dataset_id: str) -> Traces:
    """Read a local Minari data set; other people's need discrete actions, their names are then numbers.

    Raises:
        InputError: Minari is not installed, there is no such data set, or its spaces do not fit.
    """
    minari = _minari()
    name = _checked_name(dataset_id)
    try:
        dataset = minari.load_dataset(name)
    except FileNotFoundError as error:
        raise InputError(f"{PREFIX}{name}: no such data set in {minari.storage.get_dataset_path()}") from error
    except _DAMAGED as error:
        raise InputError(f"{PREFIX}{name}: damaged, or of another version ({error})") from error
    return traces_from_minari(dataset)


_DAMAGED = (OSError, ValueError, KeyError, TypeError, AssertionError)


def traces_from_minari(dataset: Any) -> Traces:
    """The traces of an open Minari data set; an `InputError` names it if its spaces do not fit or it is damaged."""
    name = dataset.spec.dataset_id
    try:
        episodes = list(dataset.iterate_episodes())
        facts = dataset.storage.metadata.get("hvil", {})
    except _DAMAGED as error:
        raise InputError(f"{PREFIX}{name}: damaged, or of another version ({error})") from error
    try:
        return _traces(episodes, dataset.observation_space, dataset.action_space, facts, dataset.storage.data_path)
    except InputError as error:
        raise InputError(f"{PREFIX}{name}: {error}") from error


def check_new(dataset_id: str) -> str:
    """The name without `minari:`; an `InputError` if it is no Minari name or the data set exists."""
    minari = _minari()
    name = _checked_name(dataset_id)
    path = minari.storage.get_dataset_path(name)
    if path.exists():
        raise InputError(f"{PREFIX}{name}: exists already in {path.parent}; delete it or choose another version")
    return name


def _minari() -> Any:
    try:
        import minari
        import minari.storage
    except ImportError as error:
        raise InputError(f"Minari data sets need the extra 'minari': pip install 'hvil[minari]' ({error})") from error
    return minari


def _checked_name(dataset_id: str) -> str:
    from minari.dataset.minari_dataset import parse_dataset_id

    name = dataset_id.removeprefix(PREFIX)
    try:
        parse_dataset_id(name)
    except (ValueError, TypeError) as error:
        raise InputError(f"{PREFIX}{name}: expected a name such as minari:hvil/bubblesort-v0") from error
    return name


def _episodes(traces: Traces, progress: Callable[[int], None] | None) -> Iterator[Any]:
    from minari.data_collector import EpisodeBuffer

    for index, trace in enumerate(traces):
        steps = len(trace.actions)
        last = np.arange(steps) == steps - 1
        yield EpisodeBuffer(
            id=index,
            observations=trace.observations,
            actions=trace.actions.astype(np.int64),
            rewards=np.zeros(steps),
            terminations=last,
            truncations=np.zeros(steps, np.bool_),
            infos=_infos(trace.annotations),
        )
        if progress is not None:
            progress(index + 1)


def _infos(annotations: Annotations | None) -> dict[str, np.ndarray] | None:
    """Minari has as many infos as observations, so that the last one, where no action is taken, is blank."""
    if annotations is None:
        return None
    return {
        STACK: np.pad(annotations.stacks, ((0, 1), (0, 0)), constant_values=-1),
        KEPT: np.pad(annotations.kept, (0, 1), constant_values=-1),
    }


def _facts(traces: Traces) -> dict[str, Any]:
    annotations = traces.annotations
    return {
        "action_names": list(traces.action_names),
        "observation_names": list(traces.observation_names),
        "procedures": None if annotations is None else list(annotations.procedures),
        "attributes": dict(traces.attributes),
        "observation_dtype": str(traces.observations.dtype),
    }


def _traces(
    episodes: list[Any],
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    facts: Mapping[str, Any],
    data_path: str | os.PathLike[str],
) -> Traces:
    if not isinstance(action_space, spaces.Discrete):
        raise InputError(f"the action space is {action_space}, expected Discrete")
    first = int(action_space.start)
    columns = [_columns(observation_space, episode.observations) for episode in episodes]
    per_trace = Path(data_path) / PER_TRACE
    return Traces.from_episodes(
        [_of_allowed_type(observations, facts.get("observation_dtype")) for observations in columns],
        [np.asarray(episode.actions).astype(np.int64) - first for episode in episodes],
        action_names=facts.get("action_names") or [str(first + number) for number in range(int(action_space.n))],
        observation_names=facts.get("observation_names") or (),
        annotations=_annotations(episodes, facts.get("procedures")),
        metadata=read_npz(per_trace) if per_trace.is_file() else {},
        attributes=facts.get("attributes") or {},
    )


def _columns(space: gymnasium.Space[Any], values: Any) -> np.ndarray:
    """An array with one row a time; the parts of a Dict or Tuple space side by side, their discrete ones one-hot."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        if isinstance(space, spaces.Text | spaces.Graph | spaces.Sequence):
            raise InputError(f"observations of the space {space} cannot be used; expected numbers")
        return np.asarray(values)
    named = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    parts = []
    for key, part in named:
        array = _columns(part, values[key])
        if isinstance(part, spaces.Discrete):
            array = np.eye(int(part.n), dtype=np.float32)[array.astype(np.int64) - int(part.start)]
        parts.append(array.reshape(len(array), -1).astype(np.float32))
    return np.concatenate(parts, axis=1)


def _of_allowed_type(observations: np.ndarray, wanted: str | None) -> np.ndarray:
    if wanted in OBSERVATION_DTYPES:
        return observations.astype(wanted)
    if str(observations.dtype) in OBSERVATION_DTYPES:
        return observations
    return observations.astype(np.int64 if observations.dtype.kind in "iu" else np.float32)


def _annotations(episodes: list[Any], procedures: list[str] | None) -> Annotations | None:
    infos = [episode.infos or {} for episode in episodes]
    if not all(STACK in info for info in infos):
        return None
    lengths = [len(episode.actions) for episode in episodes]
    stacks = np.concatenate([info[STACK][:length] for info, length in zip(infos, lengths, strict=True)])
    if stacks.ndim != 2:
        raise InputError(f"infos[{STACK!r}] must have one row of procedure numbers a step, padded with -1")
    kept = [info.get(KEPT, np.full(length, -1))[:length] for info, length in zip(infos, lengths, strict=True)]
    names = procedures or [str(number) for number in range(int(stacks.max(initial=-1)) + 1)]
    return Annotations(tuple(names), stacks, np.concatenate(kept))
