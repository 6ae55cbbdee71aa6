"""Files in and out: written atomically (a killed process leaves the old file or the new one), read without trust.

JSON, TOML, arrays, the cache directory and locks; what the contents mean is left to the callers. Which files may be
read is decided in `border`, and how much memory they may take in `budget`.
"""

import json
import lzma
import math
import os
import re
import shutil
import stat
import tempfile
import tokenize
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import platformdirs

from hvil.gate.border import file_size, regular_file
from hvil.gate.budget import allowed_bytes, check_budget, check_text, shown_bytes, taken_bytes
from hvil.gate.errors import InputError, one_line


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
        with naming_failures(target):
            yield temporary
            sync(temporary)
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def naming_failures(target: str | os.PathLike[str]) -> Iterator[None]:
    """Say of an error of the system which file could not be written, and how much space is left for it."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError | FileExistsError | BrokenPipeError):
            raise
        reason = error.strerror or one_line(error, 200)
        try:
            free = f"; {shown_bytes(shutil.disk_usage(Path(target).parent).free)} are free there"
        except OSError:
            free = ""
        raise OSError(f"{target}: cannot be written ({reason}){free}") from error


def remove_leftovers(directory: Path) -> None:
    """Delete the temporary files that a killed writer left in a directory that nobody else writes to now.

    They have names that `atomic_path` gives, and are files; whatever else is there stays.
    """
    for leftover in directory.glob(".*.part"):
        if _LEFTOVER.fullmatch(leftover.name) and stat.S_ISREG(leftover.lstat().st_mode):
            leftover.unlink(missing_ok=True)


_LEFTOVER = re.compile(r"\..+\.[a-z0-9_]{8}\.part")


def remove_directory(path: Path) -> None:
    """Delete a directory of our own, if it is there; what is a link or a file instead stays."""
    if os.path.lexists(path) and stat.S_ISDIR(os.lstat(path).st_mode):
        shutil.rmtree(path, ignore_errors=True)


def append_file(path: Path) -> IO[str]:
    """Open a text file of our own to add lines to it; a link in its place is refused."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.fdopen(os.open(path, flags, 0o666), "a", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


def write_atomically(target: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    """Call `write(temporary_path)` and move what it wrote to `target`."""
    with atomic_path(target) as temporary:
        write(temporary)


def write_text(target: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically; halves of characters, which no file can hold, are escaped."""
    write_bytes(target, text.encode("utf-8", errors="backslashreplace"))


def write_bytes(target: str | os.PathLike[str], contents: bytes) -> None:
    """Write a file atomically."""
    write_atomically(target, lambda path: path.write_bytes(contents))


def write_json(target: str | os.PathLike[str], value: Any) -> None:
    """Write a JSON file atomically, indented for people, its keys in the order of the value."""
    write_text(target, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def json_line(value: Any) -> str:
    """A value as one line of JSON, with the line's end."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def read_bytes(source: str | os.PathLike[str], most: int | None = None) -> bytes:
    """The contents of a file.

    Args:
        source: the file.
        most: the bytes that it may have; by default as many as its budget allows.
    """
    path, size = regular_file(source), file_size(source)
    if most is not None and size > most:
        raise InputError(f"{source}: has {shown_bytes(size)}, at most {shown_bytes(most)} are read")
    check_budget(source, size, size)
    try:
        with path.open("rb") as stream:
            return stream.read(size)
    except OSError as error:
        raise InputError(f"{source}: cannot be read ({error.strerror})") from error


def read_text(source: str | os.PathLike[str], errors: str = "strict") -> str:
    """The contents of a text file in UTF-8; `errors` as for `bytes.decode`."""
    check_text(str(source), file_size(source))
    try:
        return read_bytes(source).decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: cannot be read as text ({error})") from error


def read_lines(source: str | os.PathLike[str], errors: str = "strict") -> list[str]:
    """The lines of a text file without their ends. A half line at the end counts as a line."""
    return read_text(source, errors).removesuffix("\n").split("\n")


def read_json_lines(source: str | os.PathLike[str]) -> Iterator[tuple[str, Any]]:
    """The values of a file of JSON lines, each with the place of its line for error messages; empty lines are left out.

    A line may be as long as a text. The file may be longer, if its values take no more memory than its budget allows.
    """
    size = file_size(source)
    lines = read_bytes(source).decode("utf-8", "replace").split("\n")
    need = 2 * size  # the bytes, and the text
    for number, text in enumerate(lines, 1):
        if not text:
            continue
        where = f"{source}, line {number}"
        value = parse_json(text, where)
        need += taken_bytes(value)
        if need > allowed_bytes(size):
            check_budget(source, need * len(lines) // number, size)
        yield where, value


def read_json(source: str | os.PathLike[str]) -> Any:
    """Read a JSON file; what is wrong with it is an `InputError` that names the file and the position."""
    return parse_json(read_text(source), str(source))


def read_toml(source: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file, as strictly as JSON: finite numbers of a sensible length."""
    try:
        return {name: _refuse_odd_numbers(value) for name, value in tomllib.loads(read_text(source)).items()}
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source}: cannot be read as TOML ({error})") from error
    except RecursionError as error:
        raise InputError(f"{source}: TOML nested too deeply") from error
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{source}: {error}") from error


def _refuse_odd_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _refuse_odd_numbers(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_refuse_odd_numbers(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"the number {value} is not finite")
    if isinstance(value, int) and abs(value) >= 10**MAX_DIGITS:
        raise ValueError(f"a number too long: at most {MAX_DIGITS} digits are possible")
    return value


def parse_json(text: str | bytes, where: str) -> Any:
    """The value of a JSON text, read strictly: what other readers would understand differently is refused.

    Args:
        text: the JSON text.
        where: where it is from, for the error message.

    Raises:
        InputError: no JSON, a key that stands twice in an object, NaN or an infinite number, a whole number of more
            than `MAX_DIGITS` digits, or nesting that is too deep.
    """
    check_text(where, len(text))
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
    contents: dict[str, Any] = {}
    for name, value in pairs:
        if name in contents:
            raise ValueError(f"the key {name[:80]!r} stands twice in an object")
        contents[name] = value
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
    """Read all arrays of an `.npz`; never unpickles, and takes no more memory than the file's budget allows."""
    path, size = regular_file(source), file_size(source)
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(archive)
            check_budget(source, sum(_claimed_bytes(archive, member) for member in members.values()), size)
            return {name: _read_member(archive, member) for name, member in members.items()}
    except InputError:
        raise
    except zipfile.BadZipFile as error:
        raise InputError(f"{source}: not an .npz file, or truncated ({one_line(error, 200)})") from error
    except _DAMAGED_ARRAYS as error:
        raise InputError(f"{source}: damaged or not made of plain arrays ({one_line(error, 200)})") from error


_DAMAGED_ARRAYS = (
    *(ValueError, TypeError, EOFError, OSError, RuntimeError, OverflowError, KeyError, IndexError, SyntaxError),
    *(zlib.error, lzma.LZMAError, tokenize.TokenError),
)
"""What zipfile and numpy raise for damaged files. `RuntimeError` covers what is encrypted or not implemented."""


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The arrays of an archive by name."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        if name == member.filename:
            raise ValueError(f"{name[:80]!r} is not an array")
        if name in members:
            raise ValueError(f"{name[:80]!r} stands twice in it")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name[:80]!r} is compressed in a way that is not read; numpy stores or deflates")
        members[name] = member
    return members


def _claimed_bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """The memory that an array takes, by its header; a header that the file cannot bear out is refused."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
        if reader is None:
            raise ValueError(f"array format {version} is not supported")
        shape, _, dtype = reader(stream)
    if any(length < 0 for length in shape):
        raise ValueError("an array has a negative length")
    claimed = math.prod(shape) * max(dtype.itemsize, 1)
    if claimed > member.file_size:
        raise ValueError("an array claims to be larger than the file")
    return claimed


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as stream:
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def cache_directory() -> Path:
    """Where files are kept that can be made or fetched again: the user's cache directory for hvil."""
    home = os.environ.get("XDG_CACHE_HOME")  # on every system: tests and clusters move the cache by it
    return Path(home) / "hvil" if home else platformdirs.user_cache_path("hvil", appauthor=False)


class Locked(InputError):
    """Another process holds a lock."""


@contextmanager
def lock(path: str | os.PathLike[str], wait: float = -1) -> Iterator[None]:
    """Hold a lock while the block runs; the lock ends with the process, however that ends.

    Args:
        path: the lock file; it is made if it is not there.
        wait: how many seconds to wait until other processes give the lock up; less than 0: as long as it takes.

    Raises:
        Locked: another process holds the lock.
        InputError: something else has the name of the lock file, or there can be none.
    """
    import filelock  # here, because it loads asyncio, which most commands do not need at start-up

    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise InputError(f"{path}: is not a regular file; remove it")
    held = filelock.FileLock(path, timeout=wait)
    try:
        held.acquire()
    except filelock.Timeout as error:
        raise Locked(f"{path}: another process holds this lock") from error
    except OSError as error:
        raise InputError(f"{path}: no lock can be made there ({error.strerror})") from error
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
