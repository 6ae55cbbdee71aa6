"""Minari data sets: any traces are written as one; ours and other people's are read.

This needs the extra `minari`. Steps are Minari's own. The call structure is in `infos`, as the arrays `stack` (fixed
depth, padded with -1) and `kept`; names are in the data set's metadata under `hvil`; arrays with one entry for each
trace are in the file `hvil.npz` beside the data.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from hvil.data.arrays import OBSERVATION_DTYPES
from hvil.data.formats.spaces import observe
from hvil.data.reading import Reading
from hvil.data.traces import ACT, Annotations, Traces
from hvil.gate.border import given_directory, refuse_if_confined
from hvil.gate.errors import InputError, one_line
from hvil.gate.files import read_json, read_npz, remove_directory, write_npz
from hvil.gate.hdf5 import check_hdf5

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
        remove_directory(path)  # no data set is better than half of one
        raise


def fetch(source: str) -> None:
    """Download the Minari data set that a source names, unless it is on this machine; other sources need nothing.

    Raises:
        InputError: it cannot be downloaded.
    """
    if not source.startswith(PREFIX):
        return
    minari, name = _minari(), _checked_name(source)
    if minari.storage.get_dataset_path(name).exists():
        return
    refuse_if_confined(f"the download of {PREFIX}{name}")
    try:
        minari.download_dataset(name)
    except Exception as error:  # whatever the network or the remote does wrong
        raise InputError(f"{PREFIX}{name}: cannot be downloaded ({one_line(error, 200)})") from error


def load_minari(dataset_id: str, reading: Reading | None = None) -> Traces:
    """Read a local Minari data set; in other people's, actions are named by numbers.

    Args:
        dataset_id: such as `minari:hvil/bubblesort-v0`.
        reading: how observations with several parts were read before, if a run has been trained on such data.

    Raises:
        InputError: Minari is not installed, there is no such data set, or its spaces do not fit.
    """
    minari = _minari()
    name = _checked_name(dataset_id)
    refuse_if_confined(f"{PREFIX}{name}")
    try:
        _check_files(minari.storage.get_dataset_path(name))
    except InputError as error:
        raise InputError(f"{PREFIX}{name}: damaged, or not to be read ({error})") from error
    try:
        dataset = minari.load_dataset(name)
    except FileNotFoundError as error:
        place = minari.storage.get_dataset_path()
        raise InputError(f"{PREFIX}{name}: no such data set in {place}; --download fetches it") from error
    except _DAMAGED as error:
        raise InputError(f"{PREFIX}{name}: damaged, or of another version ({one_line(error, 200)})") from error
    return traces_from_minari(dataset, reading)


def _check_files(path: Path) -> None:
    """Refuse a data set that reads other files, or takes more memory than its own files may."""
    if not path.is_dir():
        return  # Minari says so in its own words
    given_directory(path)
    for file in sorted(path.rglob("*.hdf5")):
        check_hdf5(file)
    for file in sorted(path.rglob("metadata.json")):
        read_json(file)


_DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError, RuntimeError, ImportError)


def traces_from_minari(dataset: Any, reading: Reading | None = None) -> Traces:
    """The traces of an open Minari data set; an `InputError` names it if its spaces do not fit or it is damaged."""
    name = dataset.spec.dataset_id
    try:
        episodes = list(dataset.iterate_episodes())
        facts = dataset.storage.metadata.get("hvil", {})
    except _DAMAGED as error:
        raise InputError(f"{PREFIX}{name}: damaged, or of another version ({one_line(error, 200)})") from error
    try:
        spaces_ = (dataset.observation_space, dataset.action_space)
        return _traces(episodes, *spaces_, facts, dataset.storage.data_path, reading)
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
            actions=trace.actions.astype(np.int64) if trace.vectors is None else trace.vectors,
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
        "action_names": list(traces.action_names if traces.vectors is None else traces.vector_names),
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
    reading: Reading | None,
) -> Traces:
    actions, names = _actions(action_space, [np.asarray(episode.actions) for episode in episodes])
    vectors = actions if actions.ndim == 2 else None
    per_trace = Path(data_path) / PER_TRACE
    lengths = [len(episode.actions) for episode in episodes]
    observed = observe(observation_space, [episode.observations for episode in episodes], reading)
    names = tuple(facts.get("action_names") or names)
    return Traces(
        observations=_of_allowed_type(observed.values, facts.get("observation_dtype")),
        actions=actions if vectors is None else np.zeros(len(vectors), dtype=np.int64),
        offsets=np.cumsum([0, *lengths]),
        action_names=names if vectors is None else (ACT,),
        vectors=vectors,
        vector_names=() if vectors is None else names,
        observation_names=tuple(facts.get("observation_names") or ()) or observed.names,
        annotations=_annotations(episodes, facts.get("procedures")),
        metadata=read_npz(per_trace) if per_trace.is_file() else {},
        attributes=facts.get("attributes") or {},
        reading=observed.reading,
    )


def _actions(space: gymnasium.Space[Any], actions: list[np.ndarray]) -> tuple[np.ndarray, tuple[str, ...]]:
    """The actions of all episodes, and names: of the kinds of actions, or of the numbers of Box actions.

    Several choices at once are one action: `1,0` is the first choice's 1 with the second's 0; those that occur count.
    """
    if isinstance(space, spaces.Discrete):
        first = int(space.start)
        names = tuple(str(first + number) for number in range(int(space.n)))
        return np.concatenate([array.astype(np.int64) - first for array in actions]), names
    if isinstance(space, spaces.Box):
        flat = np.concatenate([array.reshape(len(array), -1).astype(np.float32) for array in actions])
        return flat, tuple(str(number) for number in range(flat.shape[1]))
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        flat = np.concatenate([array.reshape(len(array), -1).astype(np.int64) for array in actions])
        kinds, taken = np.unique(flat, axis=0, return_inverse=True)
        return taken.reshape(-1), tuple(",".join(map(str, kind)) for kind in kinds.tolist())
    raise InputError(f"the action space is {space}, expected Discrete, MultiDiscrete, MultiBinary or Box")


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
