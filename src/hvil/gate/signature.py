"""Signatures by which this user's own notes are known from those in a directory that somebody else made.

The key is a file in the user's state directory that nobody else can read. Where there is no such place (no home, or one
that cannot be written to), nothing is signed, and nothing counts as signed.
"""

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

import platformdirs

from hvil.gate.border import own_directory
from hvil.gate.errors import InputError

KEY_BYTES = 32


def sign(text: str) -> str | None:
    """This user's signature of a text; None if there is no place for a key."""
    try:
        key = _key(make=True)
    except (OSError, InputError):
        return None
    return None if key is None else _signature(key, text)


def is_signed(text: str, signature: str | None) -> bool:
    """Whether the signature of a text is this user's."""
    if not signature:
        return False
    try:
        key = _key(make=False)
    except (OSError, InputError):
        return False
    return key is not None and hmac.compare_digest(_signature(key, text), signature)


def state_directory() -> Path:
    """Where the key is."""
    home = os.environ.get("XDG_STATE_HOME")  # on every system: tests and clusters move it
    return Path(home) / "hvil" if home else platformdirs.user_state_path("hvil", appauthor=False)


def _key(make: bool) -> bytes | None:
    path = state_directory() / "key"
    if make and not path.exists():
        own_directory(path.parent)
        with suppress(FileExistsError):  # another process was faster
            _write_key(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    try:
        key = os.read(descriptor, KEY_BYTES)
    finally:
        os.close(descriptor)
    return key if len(key) == KEY_BYTES else None


def _write_key(path: Path) -> None:
    """Make the key whole, then give it its name: a process that looks meanwhile finds none or all of it."""
    part = path.with_name(f".key.{os.getpid()}.{secrets.token_hex(4)}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, secrets.token_bytes(KEY_BYTES))
        os.link(part, path)
    finally:
        os.close(descriptor)
        part.unlink(missing_ok=True)


def _signature(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
