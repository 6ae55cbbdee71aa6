"""Atomic writing: a killed process leaves either the old file or the new one, never half of one."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hvil.errors import InputError


@contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `target`; on success it replaces `target`, on failure it vanishes."""
    target = Path(target)
    if target.is_dir():
        raise InputError(f"{target}: is a directory, expected a file name")
    if not target.parent.is_dir():
        raise InputError(f"{target}: the directory {target.parent} does not exist")
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise InputError(f"{target}: cannot write there ({error.strerror})") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _sync(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(target: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    """Call `write(temporary_path)` and move what it wrote to `target`."""
    with atomic_path(target) as temporary:
        write(temporary)


def write_text(target: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically."""
    write_atomically(target, lambda path: path.write_text(text, encoding="utf-8"))


def write_json(target: str | os.PathLike[str], value: Any) -> None:
    """Write a JSON file atomically, readable and with a stable order of keys as given."""
    write_text(target, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(source: str | os.PathLike[str]) -> Any:
    """Read a JSON file; what is not JSON is an `InputError` that names the file and the place."""
    try:
        return json.loads(Path(source).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{source}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{source}: cannot be read as text ({error})") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{source}: not JSON (line {error.lineno}, column {error.colno}: {error.msg})") from error
    except RecursionError as error:
        raise InputError(f"{source}: JSON nested too deeply") from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
