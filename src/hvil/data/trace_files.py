"""Trace files: `save` and `load`, and the `.npz` form. Parquet and Minari have modules of their own.

`.npz` holds `observations`, `actions`, `offsets`, names, annotations and metadata as plain arrays.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hvil.data.traces import Annotations, Traces
from hvil.gate.errors import InputError
from hvil.gate.files import read_npz, write_atomically, write_npz

if TYPE_CHECKING:
    from hvil.data.formats.parquet_reader import Columns

WRITTEN = (".npz", ".parquet")


def save(traces: Traces, path: str | os.PathLike[str]) -> None:
    """Write a trace file (the name's ending says which kind), or the Minari data set `minari:ID`."""
    if _is_minari(path):
        from hvil.data.formats.minari import save_minari

        save_minari(traces, str(path))
    elif _kind(path) == ".npz":
        write_npz(path, _arrays(traces))
    else:
        from hvil.data.formats.parquet_writer import write_parquet

        write_atomically(path, lambda temporary: write_parquet(traces, temporary))


def load(path: str | os.PathLike[str], columns: "Columns | None" = None) -> Traces:
    """Read a trace file or the Minari data set `minari:ID`; what is wrong with it is an `InputError` that names it.

    Args:
        path: `.npz`, `.parquet`, `.csv` (one row a step), or `minari:ID`.
        columns: which columns of a table mean what, if it is not one of ours.
    """
    if _is_minari(path):
        from hvil.data.formats.minari import load_minari

        return load_minari(str(path))
    kind = _kind(path, (*WRITTEN, ".csv"))
    if not Path(path).is_file():
        raise InputError(f"{path}: no such file")
    try:
        if kind == ".npz":
            return _from_arrays(read_npz(path))
        from hvil.data.formats.csv import read_csv
        from hvil.data.formats.parquet_reader import OWN_COLUMNS, read_parquet

        return (read_csv if kind == ".csv" else read_parquet)(path, columns or OWN_COLUMNS)
    except InputError as error:
        message = str(error)
        raise InputError(message if message.startswith(str(path)) else f"{path}: {message}") from error


def check_target(path: str | os.PathLike[str]) -> None:
    """Refuse a name that `save` could not write to, before the work of making traces is done."""
    if _is_minari(path):
        from hvil.data.formats.minari import check_new

        check_new(str(path))
    elif _kind(path) and not Path(path).parent.is_dir():
        raise InputError(f"{path}: the directory {Path(path).parent} does not exist")


def _is_minari(path: str | os.PathLike[str]) -> bool:
    return str(path).startswith("minari:")


def _kind(path: str | os.PathLike[str], kinds: tuple[str, ...] = WRITTEN) -> str:
    kind = Path(path).suffix
    if kind not in kinds:
        raise InputError(f"{path}: trace files end in {' or '.join(kinds)}; Minari data sets are minari:ID")
    return kind


def _arrays(traces: Traces) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {
        "observations": traces.observations,
        "actions": traces.actions,
        "offsets": traces.offsets,
        "action_names": np.array(traces.action_names, dtype=np.str_),
        "observation_names": np.array(traces.observation_names, dtype=np.str_),
        "attributes": np.array(json.dumps(dict(traces.attributes), sort_keys=True)),
    }
    if traces.annotations is not None:
        arrays["annotation_procedures"] = np.array(traces.annotations.procedures, dtype=np.str_)
        arrays["annotation_stacks"] = traces.annotations.stacks
        arrays["annotation_kept"] = traces.annotations.kept
    for name, values in traces.metadata.items():
        arrays[f"metadata.{name}"] = values
    return arrays


def _from_arrays(arrays: Mapping[str, np.ndarray]) -> Traces:
    for name in ("observations", "actions", "offsets"):
        if name not in arrays:
            raise InputError(f"the array {name!r} is missing; a trace file has observations, actions and offsets")
    actions = arrays["actions"]
    annotations = None
    if "annotation_stacks" in arrays:
        names = _strings(arrays, "annotation_procedures")
        if names is None or "annotation_kept" not in arrays:
            raise InputError("annotations need the arrays annotation_procedures, annotation_stacks, annotation_kept")
        annotations = Annotations(names, arrays["annotation_stacks"], arrays["annotation_kept"])
    return Traces(
        arrays["observations"],
        actions,
        arrays["offsets"],
        _strings(arrays, "action_names") or _default_names(actions),
        _strings(arrays, "observation_names") or (),
        annotations,
        {k.removeprefix("metadata."): v for k, v in arrays.items() if k.startswith("metadata.")},
        _attributes("".join(_strings(arrays, "attributes") or ("{}",))),
    )


def _strings(arrays: Mapping[str, np.ndarray], name: str) -> tuple[str, ...] | None:
    if name not in arrays:
        return None
    if arrays[name].dtype.kind not in "U" and arrays[name].size:
        raise InputError(f"the array {name!r} must hold text")
    return tuple(str(value) for value in arrays[name].ravel())


def _default_names(actions: np.ndarray) -> tuple[str, ...]:
    if actions.dtype.kind not in "iu" or not actions.size:
        return ("0",)
    largest = int(actions.max())
    if largest > 1 << 16:
        raise InputError(f"action {largest}: without action_names, actions are numbers from 0 to {1 << 16}")
    return tuple(str(number) for number in range(max(largest, 0) + 1))


def _attributes(text: str) -> dict[str, str]:
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"the attributes are not JSON ({error})") from error
    if not isinstance(value, dict):
        raise InputError("the attributes must be a JSON object")
    return {str(key): str(entry) for key, entry in value.items()}
