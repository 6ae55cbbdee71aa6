"""`explanation.json`: the explanation of a run, kept beside its weights so that nothing is rolled out twice.

The file holds a digest of its origin: the weights, the task or the traces, and the options. A file of another origin
counts as absent.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hvil.analysis.explain.explanation import Explanation
from hvil.data.tasks import Task
from hvil.gate.errors import InputError
from hvil.gate.files import read_json, write_json
from hvil.machine.callgraph import CallGraph

FORMAT = 2
"""Part of every digest. A new number makes all stored explanations stale: for a change of the file or of the search."""


def save(path: Path, explanation: Explanation, origin: Mapping[str, Any]) -> None:
    """Write the file; in a directory that cannot be written to, do nothing.

    Args:
        path: the file.
        explanation: what to write.
        origin: what it was made from, as JSON.
    """
    with suppress(InputError):
        write_json(path, {"digest": _digest(origin), **explanation.to_mapping()})


def load(
    path: Path, origin: Mapping[str, Any], graph: CallGraph, task: Task | None, observation_names: Sequence[str]
) -> Explanation | None:
    """Read the file; None if there is none, if it is damaged, or if it has another origin.

    Args:
        path: the file.
        origin: what the explanation must be made from.
        graph: the run's call graph.
        task: where the policy was rolled out; None if it was run along traces.
        observation_names: of the observation's columns.
    """
    if not path.is_file():
        return None
    try:
        mapping = read_json(path)
        if not isinstance(mapping, dict) or mapping.get("digest") != _digest(origin):
            return None
        return Explanation.from_mapping(mapping, graph, task, observation_names)
    except InputError:
        return None


def _digest(origin: Mapping[str, Any]) -> str:
    text = json.dumps({"format": FORMAT, **origin}, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
