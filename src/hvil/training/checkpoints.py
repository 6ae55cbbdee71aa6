"""Checkpoints on disk. Each is a directory that is written under a hidden name and renamed when it is complete.

The last two checkpoints stay. `state.safetensors` holds the tensors, `state.json` the rest; what they mean is left to
`state`. A checkpoint is read without trust: its digest is checked, and that all values are finite.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_bytes
from safetensors.torch import save as save_bytes

from hvil.gate.errors import InputError, one_line
from hvil.gate.files import naming_failures, read_bytes, read_json, remove_directory, sync, write_bytes, write_json
from hvil.gate.settings import from_mapping, setting

CHECKPOINTS = 2
"""Checkpoints that stay: the newest, and the one before in case the newest is damaged."""


class Snapshot(NamedTuple):
    """All that a run needs to go on as if it had never stopped."""

    update: int
    tensors: dict[str, torch.Tensor]
    facts: dict[str, Any]
    """All that is not a tensor, in a form that JSON can hold."""


@dataclass(frozen=True)
class _Document:
    """The contents of `state.json`."""

    update: int = setting(0, "the number of updates", low=0)
    digest: str = ""
    identity: Mapping[str, str] | None = None
    facts: Mapping[str, Any] | None = None


class Checkpoints:
    """The checkpoints of one run: `DIRECTORY/00001000/` and the one before."""

    def __init__(self, directory: Path, identity: Mapping[str, str]) -> None:
        """Open the checkpoints in a directory.

        Args:
            directory: where they are; it is made with the first of them.
            identity: digests of what the run is made of, by what they are of (`configuration`, `data`). A checkpoint
                with other digests is one of another run and is refused.
        """
        self.directory = directory
        self.identity = dict(identity)

    def updates(self) -> list[int]:
        """The updates of the checkpoints that are there, oldest first."""
        self._refuse_links()
        if not self.directory.is_dir():
            return []
        return sorted(int(entry.name) for entry in self.directory.iterdir() if re.fullmatch("[0-9]{8,12}", entry.name))

    def save(self, snapshot: Snapshot) -> None:
        """Write a checkpoint, then remove all but the last two.

        Raises:
            FloatingPointError: a value is not finite; nothing is written, and the earlier checkpoints stay.
        """
        broken = not_finite(snapshot.tensors)
        if broken:
            raise FloatingPointError(f"{broken} is no longer finite at update {snapshot.update}")
        self._refuse_links()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._clear_leftovers()
        data = save_bytes(snapshot.tensors)
        part, target = self.directory / f".{snapshot.update:08d}.part", self._path(snapshot.update)
        document = {"update": snapshot.update, "digest": _digest(data), "identity": self.identity}
        try:
            with naming_failures(part):
                part.mkdir()
            write_bytes(part / "state.safetensors", data)
            write_json(part / "state.json", document | {"facts": snapshot.facts})
        except BaseException:
            remove_directory(part)  # a full disk: half a checkpoint would only take more of it
            raise
        self._discard(target)
        part.rename(target)
        sync(self.directory)
        for update in self.updates()[:-CHECKPOINTS]:
            self._discard(self._path(update))

    def latest(self) -> Snapshot | None:
        """The newest checkpoint, or None if there is none.

        Raises:
            InputError: it is damaged, or of another run. An older checkpoint is never used without a word.
        """
        updates = self.updates()
        if not updates:
            return None
        path = self._path(updates[-1])
        try:
            return self._read(path, updates[-1])
        except _DamagedError as error:
            before = f" to resume from update {updates[-2]}" if len(updates) > 1 else " to start again"
            raise InputError(f"{path}: {error}; remove this directory{before}") from error

    def _read(self, path: Path, update: int) -> Snapshot:
        try:
            document = from_mapping(_Document, read_json(path / "state.json"), "state.json", noun="entry")
        except InputError as error:
            raise _DamagedError(f"the checkpoint is damaged ({error})") from error
        facts, identity = document.facts, document.identity
        if facts is None or identity is None or document.update != update:
            raise _DamagedError("the checkpoint is damaged (state.json lacks what it should hold)")
        for what, digest in self.identity.items():
            if identity.get(what) != digest:
                raise InputError(f"{path}: the checkpoint was made with another {what}")
        try:
            data = read_bytes(path / "state.safetensors")
            tensors = load_bytes(data)
        except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
            raise _DamagedError(f"the checkpoint is truncated or damaged ({one_line(error, 200)})") from error
        broken = not_finite(tensors)
        if broken:
            raise _DamagedError(f"the checkpoint holds a value that is not finite, in {broken}")
        if document.digest != _digest(data):
            raise _DamagedError("the checkpoint is damaged (state.safetensors was changed)")
        return Snapshot(update, tensors, dict(facts))

    def _path(self, update: int) -> Path:
        return self.directory / f"{update:08d}"

    def _refuse_links(self) -> None:
        """A directory that was passed around may hold a link instead: nothing is written or deleted through it."""
        if self.directory.is_symlink():
            raise InputError(f"{self.directory}: is a link; a run's checkpoints are in a directory of its own")

    def _clear_leftovers(self) -> None:
        """Remove what a killed process left of its own: names that this class gives, and nothing else."""
        for pattern in (".????????.part", ".????????.old"):
            for entry in self.directory.glob(pattern):
                if re.fullmatch("[0-9]{8}", entry.name[1:9]):
                    remove_directory(entry)

    def _discard(self, path: Path) -> None:
        # Renamed first: a process killed while it deletes must not leave half a checkpoint under a valid name.
        if path.exists():
            hidden = path.with_name(f".{path.name}.old")
            os.rename(path, hidden)
            remove_directory(hidden)


class _DamagedError(Exception):
    """A checkpoint that cannot be used, though it is one of this run."""


def not_finite(tensors: Mapping[str, torch.Tensor]) -> str | None:
    """The name of a tensor that holds NaN or infinity; None if all are finite."""
    return next((n for n, t in tensors.items() if t.is_floating_point() and not bool(torch.isfinite(t).all())), None)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
