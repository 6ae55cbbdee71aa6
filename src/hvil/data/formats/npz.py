"""Trace sets as `.npz`: observations, actions, offsets, names, annotations and metadata as plain arrays.

Continuous actions are an array of fractions, a row a step, and `action_names` name their components.
A file that numpy wrote with `observations`, `actions` and `offsets` alone can be read too.
"""

import json
import os
from collections.abc import Mapping

import numpy as np

from hvil.data.reading import Reading
from hvil.data.traces import ACT, Annotations, Traces, is_vectors
from hvil.gate.errors import InputError
from hvil.gate.files import parse_json, read_npz, write_npz

MAX_ACTIONS = 1 << 16
"""The largest action number of a file that names no actions: each number up to it becomes a kind of action."""


def write_traces(traces: Traces, path: str | os.PathLike[str]) -> None:
    """Write a trace file; the same traces give the same bytes."""
    arrays: dict[str, np.ndarray] = {
        "observations": traces.observations,
        "actions": traces.actions if traces.vectors is None else traces.vectors,
        "offsets": traces.offsets,
        "action_names": np.array(traces.action_names if traces.vectors is None else traces.vector_names, dtype=np.str_),
        "observation_names": np.array(traces.observation_names, dtype=np.str_),
        "attributes": np.array(json.dumps(dict(traces.attributes), sort_keys=True)),
    }
    if traces.annotations is not None:
        arrays["annotation_procedures"] = np.array(traces.annotations.procedures, dtype=np.str_)
        arrays["annotation_stacks"] = traces.annotations.stacks
        arrays["annotation_kept"] = traces.annotations.kept
    if traces.reading is not None:
        arrays["reading"] = np.array(json.dumps(traces.reading.to_mapping(), sort_keys=True))
    for name, values in traces.metadata.items():
        arrays[f"metadata.{name}"] = values
    write_npz(path, arrays)


def read_traces(path: str | os.PathLike[str]) -> Traces:
    """Read a trace file."""
    arrays = read_npz(path)
    for name in ("observations", "actions", "offsets"):
        if name not in arrays:
            raise InputError(f"the array {name!r} is missing; a trace file has observations, actions and offsets")
    actions, names = arrays["actions"], _texts(arrays, "action_names") or ()
    vectors = actions if is_vectors(actions) else None
    return Traces(
        observations=arrays["observations"],
        actions=actions if vectors is None else np.zeros(len(vectors), dtype=np.int32),
        offsets=arrays["offsets"],
        action_names=(names or _numbers_as_names(actions)) if vectors is None else (ACT,),
        vectors=vectors,
        vector_names=() if vectors is None else names,
        observation_names=_texts(arrays, "observation_names") or (),
        annotations=_annotations(arrays),
        metadata={k.removeprefix("metadata."): v for k, v in arrays.items() if k.startswith("metadata.")},
        attributes=_attributes("".join(_texts(arrays, "attributes") or ("{}",))),
        reading=_reading(_texts(arrays, "reading")),
    )


def _reading(texts: tuple[str, ...] | None) -> Reading | None:
    return None if not texts else Reading.from_mapping(parse_json("".join(texts), "the reading"), "the reading")


def _annotations(arrays: Mapping[str, np.ndarray]) -> Annotations | None:
    if "annotation_stacks" not in arrays:
        return None
    procedures = _texts(arrays, "annotation_procedures")
    if procedures is None or "annotation_kept" not in arrays:
        raise InputError("annotations need the arrays annotation_procedures, annotation_stacks, annotation_kept")
    return Annotations(procedures, arrays["annotation_stacks"], arrays["annotation_kept"])


def _texts(arrays: Mapping[str, np.ndarray], name: str) -> tuple[str, ...] | None:
    if name not in arrays:
        return None
    if arrays[name].dtype.kind not in "U" and arrays[name].size:
        raise InputError(f"the array {name!r} must hold text")
    return tuple(str(value) for value in arrays[name].ravel())


def _numbers_as_names(actions: np.ndarray) -> tuple[str, ...]:
    if actions.dtype.kind not in "iu" or not actions.size:
        return ("0",)  # `Traces` refuses these actions, with a better message
    largest = int(actions.max())
    if largest > MAX_ACTIONS:
        raise InputError(f"action {largest}: without action_names, actions are numbers from 0 to {MAX_ACTIONS}")
    return tuple(str(number) for number in range(max(largest, 0) + 1))


def _attributes(text: str) -> dict[str, str]:
    value = parse_json(text, "the attributes")
    if not isinstance(value, dict):
        raise InputError("the attributes must be a JSON object")
    return {str(key): str(entry) for key, entry in value.items()}
