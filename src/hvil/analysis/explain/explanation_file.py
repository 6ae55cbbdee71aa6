"""`explanation.json`: the explanation of a run, kept beside its weights so that nothing is rolled out twice.

The file holds digests of its origin: of its subject (the weights, the task or the traces), and of subject and options.
A file of another origin counts as absent.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hvil.analysis.explain.explanation import Explanation
from hvil.data.reading import Reading
from hvil.data.tasks import Task
from hvil.gate.errors import InputError
from hvil.gate.files import read_json, write_json
from hvil.machine.callgraph import CallGraph

FORMAT = 2
"""Part of every digest. A new number makes all stored explanations stale: for a change of the file or of the search."""


def save(path: Path, explanation: Explanation, subject: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Write the file; in a directory that cannot be written to, do nothing.

    Args:
        path: the file.
        explanation: what to write.
        subject: what it explains, as JSON.
        options: how it was found, as JSON.
    """
    digests = {"digest": _digest({**subject, **options}), "subject": _digest(subject)}
    with suppress(InputError):
        write_json(path, {**digests, **explanation.to_mapping()})


def load(
    path: Path,
    subject: Mapping[str, Any],
    options: Mapping[str, Any] | None,
    graph: CallGraph,
    task: Task | None,
    observation_names: Sequence[str],
    reading: Reading | None = None,
) -> Explanation | None:
    """Read the file; None if there is none, if it is damaged, or if it has another origin.

    Args:
        path: the file.
        subject: what the explanation must be of.
        options: how it must have been found; None: in any way.
        graph: the run's call graph.
        task: where the policy was rolled out; None if it was run along traces.
        observation_names: of the observation's columns.
        reading: how these were made from a table.
    """
    if not path.is_file():
        return None
    name, origin = ("subject", subject) if options is None else ("digest", {**subject, **options})
    try:
        mapping = read_json(path)
        if not isinstance(mapping, dict) or mapping.get(name) != _digest(origin):
            return None
        return Explanation.from_mapping(mapping, graph, task, observation_names, reading)
    except InputError:
        return None


def _digest(origin: Mapping[str, Any]) -> str:
    text = json.dumps({"format": FORMAT, **origin}, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
