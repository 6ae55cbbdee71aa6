"""The door for files from outside: regular files alone, no links in a directory that was given, nothing beyond it.

A path on the user's own command line may lead anywhere. A path that stands in a file may not: `confined` keeps it in
the directory that was opened. How much memory a file may take is decided in `budget`, what it means elsewhere.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from hvil.gate.errors import InputError

MOST_ENTRIES = 100_000
"""Of a directory that was given, at most: a run has some dozens, a sweep some thousands."""


class Outside(InputError):
    """A file or a directory names something elsewhere, which is read only if the user names it."""


class _Confinement(NamedTuple):
    """Where files may be read, while the paths come from a file."""

    directory: Path | None


_CONFINEMENT: ContextVar[_Confinement | None] = ContextVar("confinement", default=None)


@contextmanager
def confined(directory: str | os.PathLike[str] | None) -> Iterator[None]:
    """While the block runs, files are read in this directory alone, and not through links; with None, nowhere.

    It is for names that come from a file. Nothing is fetched from the network either.
    """
    token = _CONFINEMENT.set(_Confinement(None if directory is None else Path(directory)))
    try:
        yield
    finally:
        _CONFINEMENT.reset(token)


def refuse_if_confined(what: str) -> None:
    """Refuse what only the user may ask for, such as a download, if the name of it comes from a file."""
    if _CONFINEMENT.get() is not None:
        raise Outside(f"{what}: only if you name it yourself, not because a file does")


def regular_file(path: str | os.PathLike[str]) -> Path:
    """The path, if it leads to a file that may be read.

    Raises:
        InputError: there is none; it is a directory, a pipe or a device, which may block or never end; or its name
            comes from a file and leads out of the directory that was opened.
    """
    confinement = _CONFINEMENT.get()
    if confinement is not None:
        _refuse_outside(path, confinement.directory)
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if not stat.S_ISREG(mode):
        kind = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
        raise InputError(f"{path}: is {kind}, so it cannot be read")
    return Path(path)


def file_size(path: str | os.PathLike[str]) -> int:
    """The size in bytes of a file that may be read."""
    return regular_file(path).stat().st_size


def has_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file is there; something else of its name, such as a link, is an `InputError`."""
    if not os.path.lexists(path):
        return False
    if os.path.islink(path):
        raise InputError(f"{path}: is a link; expected a file")
    regular_file(path)
    return True


def given_directory(path: str | os.PathLike[str]) -> Path:
    """A directory that may come from others, if it holds files and directories alone.

    Raises:
        InputError: it is none, or something in it is a link, a pipe or a device: what is read from it or written to it
            would then be elsewhere.
    """
    path = Path(path)
    if not path.is_dir():
        raise InputError(f"{path}: no such directory")
    entries, pending = 0, [path]
    while pending:
        try:
            found = list(os.scandir(pending.pop()))
        except OSError as error:
            raise InputError(f"{error.filename or path}: cannot be read ({error.strerror})") from error
        entries += len(found)
        if entries > MOST_ENTRIES:
            raise InputError(f"{path}: holds more than {MOST_ENTRIES:,} files")
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                pending.append(Path(entry.path))
            elif not entry.is_file(follow_symlinks=False):
                kind = "a link" if entry.is_symlink() else "not a regular file"
                raise InputError(f"{entry.path}: is {kind}; such a directory holds nothing but files")
    return path


def own_directory(path: Path) -> Path:
    """A directory for this user alone, made if it is not there; one that is a link or another user's is refused."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise InputError(f"{path}: is not a directory; remove it")
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        raise InputError(f"{path}: belongs to another user; remove it, or choose another place with TMPDIR")
    return path


def _refuse_outside(path: str | os.PathLike[str], directory: Path | None) -> None:
    if directory is None:
        raise Outside(f"{path}: a file named by another file is not read; name it yourself")
    try:
        home, there = os.path.realpath(directory), os.path.abspath(path)
        inside = os.path.relpath(os.path.realpath(there), home)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
    if inside.split(os.sep)[0] == os.pardir:
        raise Outside(f"{path}: lies outside {directory}, whose files name it; name it yourself")
    if os.path.realpath(there) != os.path.join(os.path.realpath(os.path.dirname(there)), os.path.basename(there)):
        raise InputError(f"{path}: is a link; expected a file")
