"""Files in and out: written atomically (a killed process leaves the old file or the new one), read without trust.

JSON, arrays, the cache directory and locks; what the contents mean is left to the callers.
"""

import json
import math
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs

from hvil.gate.errors import InputError


@contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `target`; on success it replaces `target`, on failure it vanishes."""
    target = Path(target)
    if os.path.isdir(target):
        raise InputError(f"{target}: is a directory, expected a file name")
    if os.path.exists(target) and not os.path.isfile(target):
        raise InputError(f"{target}: is not a regular file and cannot be replaced")
    if not os.path.isdir(target.parent):
        raise InputError(f"{target}: the directory {target.parent} does not exist")
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise InputError(f"{target}: cannot write there ({error.strerror})") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        sync(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(directory: Path) -> None:
    """Delete the temporary files that a killed writer left in a directory that nobody else writes to now."""
    for leftover in directory.glob(".*.part"):
        leftover.unlink(missing_ok=True)


def write_atomically(target: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    """Call `write(temporary_path)` and move what it wrote to `target`."""
    with atomic_path(target) as temporary:
        write(temporary)


def write_text(target: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically."""
    write_atomically(target, lambda path: path.write_text(text, encoding="utf-8"))


def write_json(target: str | os.PathLike[str], value: Any) -> None:
    """Write a JSON file atomically, indented for people, its keys in the order of the value."""
    write_text(target, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(source: str | os.PathLike[str]) -> Any:
    """Read a JSON file; what is wrong with it is an `InputError` that names the file and the position."""
    try:
        text = Path(source).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"{source}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{source}: cannot be read as text ({error})") from error
    return parse_json(text, str(source))


def parse_json(text: str | bytes, where: str) -> Any:
    """The value of a JSON text, read strictly: what other readers would understand differently is refused.

    Args:
        text: the JSON text.
        where: where it is from, for the error message.

    Raises:
        InputError: no JSON, a key that stands twice in an object, NaN or an infinite number, a whole number of more
            than `MAX_DIGITS` digits, or nesting that is too deep.
    """
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_whole_number,
            parse_float=_finite_number,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not JSON (line {error.lineno}, column {error.colno}: {error.msg})") from error
    except RecursionError as error:
        raise InputError(f"{where}: JSON nested too deeply") from error
    except ValueError as error:
        raise InputError(f"{where}: {error}") from error


MAX_DIGITS = 64
"""Of a whole number in JSON. The state of a random generator has 39; longer numbers overflow arrays and floats."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    contents = dict(pairs)
    if len(contents) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice in an object")
    return contents


def _whole_number(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number too long: {len(digits)} digits, at most {MAX_DIGITS} are possible")
    return int(digits)


def _finite_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:MAX_DIGITS]} is too large")
    return number


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number that JSON allows")


def write_npz(target: str | os.PathLike[str], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays as `.npz`, lightly compressed; the same arrays give the same bytes."""

    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            for name, array in arrays.items():
                member = zipfile.ZipInfo(f"{name}.npy")
                member.compress_type = zipfile.ZIP_DEFLATED
                member._compresslevel = 1  # type: ignore[attr-defined]
                with archive.open(member, "w", force_zip64=True) as stream:
                    np.lib.format.write_array(stream, np.asarray(array, order="C"), allow_pickle=False)

    write_atomically(target, write)


def read_npz(source: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read all arrays of an `.npz`; never unpickles, and never allocates more than the file can hold."""
    try:
        with zipfile.ZipFile(source) as archive:
            size = os.path.getsize(source)
            return {
                member.filename.removesuffix(".npy"): _read_member(archive, member, size)
                for member in archive.infolist()
            }
    except FileNotFoundError as error:
        raise InputError(f"{source}: no such file") from error
    except zipfile.BadZipFile as error:
        raise InputError(f"{source}: not an .npz file, or truncated ({error})") from error
    except (ValueError, EOFError, zlib.error, NotImplementedError, RuntimeError, OSError) as error:
        raise InputError(f"{source}: damaged or not made of plain arrays ({error})") from error


_DEFLATE_LIMIT = 1040
"""Deflate cannot shrink data by more than about this factor (1032), so a larger claim is false."""


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, size: int) -> np.ndarray:
    if not member.filename.endswith(".npy"):
        raise ValueError(f"{member.filename!r} is not an array")
    possible = min(member.file_size, _DEFLATE_LIMIT * min(member.compress_size, size) + 1024)
    with archive.open(member) as stream:
        _check_header(stream, possible)
    with archive.open(member) as stream:
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def _check_header(stream: Any, possible: int) -> None:
    version = np.lib.format.read_magic(stream)
    reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if reader is None:
        raise ValueError(f"array format {version} is not supported")
    shape, _, dtype = reader(stream)
    count = 1
    for length in shape:
        if length < 0:
            raise ValueError("an array has a negative length")
        count *= length
    if count * max(dtype.itemsize, 1) > possible:
        raise ValueError("an array claims to be larger than the file")


def cache_directory() -> Path:
    """Where files are kept that can be made or fetched again: the user's cache directory for hvil."""
    home = os.environ.get("XDG_CACHE_HOME")  # on every system: tests and clusters move the cache by it
    return Path(home) / "hvil" if home else platformdirs.user_cache_path("hvil", appauthor=False)


class Locked(InputError):
    """Another process holds a lock."""


@contextmanager
def lock(path: str | os.PathLike[str], wait: bool = True) -> Iterator[None]:
    """Hold a lock while the block runs; the lock ends with the process, however that ends.

    Args:
        path: the lock file; it is made if it is not there.
        wait: wait until other processes give the lock up.

    Raises:
        Locked: another process holds the lock, and we do not wait.
    """
    import filelock  # here, because it loads asyncio, which most commands do not need at start-up

    held = filelock.FileLock(path, timeout=-1 if wait else 0)
    try:
        held.acquire()
    except filelock.Timeout as error:
        raise Locked(f"{path}: another process holds this lock") from error
    try:
        yield
    finally:
        held.release()


def sync(path: Path) -> None:
    """Make a file, or the names in a directory, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
