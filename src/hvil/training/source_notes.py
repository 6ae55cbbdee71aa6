"""`source.json`: where the traces of a run come from, signed by the user who trained it.

A run directory may come from somebody else and name any file of ours as its source. Its files are read without a
question only if this user's own signature stands beside the name; else the user names the source (`--source`).
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from hvil.data.sources import is_file, lasting_address, task_of
from hvil.data.tasks import Task
from hvil.gate.border import confined, has_file
from hvil.gate.errors import InputError
from hvil.gate.files import read_json, write_json
from hvil.gate.settings import from_mapping
from hvil.gate.signature import is_signed, sign

NOTE = "source.json"


@dataclass(frozen=True)
class _Note:
    """The contents of the file."""

    source: str
    """As the configuration has it."""
    path: str
    """The whole path of a file, so that the run can be opened from any directory; else the same as `source`."""
    signature: str | None


def write_note(directory: Path, source: str) -> None:
    """Note, with this user's signature, that the source of a run is the one that the user named."""
    if source:
        path = lasting_address(source)
        note = {"source": source, "path": path, "signature": sign(_signed_text(source, path))}
        write_json(directory / NOTE, note)


def noted_source(directory: Path | None, source: str) -> str | None:
    """The source by which a run's traces can be found, if this user signed it; None if not."""
    if directory is None:
        return source  # the run was never in a directory: this process made it
    if not has_file(directory / NOTE):
        return None
    try:
        note = from_mapping(_Note, read_json(directory / NOTE), str(directory / NOTE), noun="entry")
    except InputError:
        return None
    signed = note.source == source and is_signed(_signed_text(source, note.path), note.signature)
    return note.path if signed else None


def limits_of(directory: Path | None, source: str) -> AbstractContextManager[None]:
    """While the block runs, what a run names is read as far as the user allowed it; else in the run's directory."""
    return nullcontext() if noted_source(directory, source) is not None else confined(directory)


def task_of_run(directory: Path | None, source: str, task: str | None) -> Task | None:
    """The task that a run is about, if it can be made here; its file may be read if the user named it."""
    known = noted_source(directory, source)
    if known is None:
        return task_of(task, directory)
    if _is_path(source):  # then the task's name comes from the trace file
        return task_of(task, Path(known).parent)
    return task_of(task, named=True)


def _is_path(source: str) -> bool:
    return is_file(source) and not source.startswith("minari:")


def _signed_text(source: str, path: str) -> str:
    return f"source {source}\0{path}"
