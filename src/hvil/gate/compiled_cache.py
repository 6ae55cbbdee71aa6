"""Where compiled code is kept: numba needs a directory that it can write to, and refuses to work without one.

Usually that is beside the sources, or in the user's cache. In a container where neither can be written to, a temporary
directory takes their place for the life of the process; its workers share it.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"


def choose_cache(package: Path) -> str | None:
    """Give numba a temporary directory if it has no other place; then the answer is a note for the user.

    Args:
        package: where our sources are.
    """
    places = (package, Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "numba")
    if os.environ.get(VARIABLE) or any(map(_can_write, places)):
        return None
    try:
        directory = tempfile.mkdtemp(prefix="hvil-compiled-")
    except OSError:
        return f"there is no place for compiled code; set {VARIABLE} to a directory that can be written to"
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    os.environ[VARIABLE] = directory
    return (
        f"neither {places[0]} nor {places[1]} can be written to, so compiled code is kept for this command only; set "
        f"{VARIABLE} to a directory that can be written to, and the next one starts faster"
    )


def _can_write(directory: Path) -> bool:
    """Whether the directory can be written to, or be made."""
    while not os.path.lexists(directory) and directory != directory.parent:
        directory = directory.parent
    return os.path.isdir(directory) and os.access(directory, os.W_OK | os.X_OK)
