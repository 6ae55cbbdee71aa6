"""HDF5 files from outside: what they may hold, and how much memory it takes, before a library reads them.

An HDF5 file can name other files as its contents (external storage, external links, virtual data sets), and claim
arrays of any size that take no space on disk.
"""

import os
from typing import Any

from hvil.gate.border import file_size, regular_file
from hvil.gate.budget import check_budget
from hvil.gate.errors import InputError, one_line

MOST_OBJECTS = 1_000_000
"""Groups and arrays of a file, at most: an episode has about ten."""
OBJECT_BYTES = 256
"""What a group or an array takes beside its values."""


def check_hdf5(path: str | os.PathLike[str]) -> None:
    """Refuse a file that points elsewhere or would take more memory than it may.

    Raises:
        InputError: it does, or it is no HDF5 file.
    """
    import h5py  # here: only Minari's data sets need it

    try:
        with h5py.File(regular_file(path), "r") as file:
            need = _need(h5py, file)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: damaged, or not HDF5 ({one_line(error, 200)})") from error
    check_budget(path, need, file_size(path))


def _need(h5py: Any, file: Any) -> int:
    """The memory that all arrays take; what lies elsewhere is refused."""
    need, objects, pending, seen = 0, 0, [file], {_address(file)}
    while pending:
        group = pending.pop()
        for name in group:
            objects += 1
            if objects > MOST_OBJECTS:
                raise InputError(f"holds more than {MOST_OBJECTS:,} arrays")
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise InputError(f"{name[:80]!r} is a link to another place, which is not read")
            entry = group[name]
            if isinstance(entry, h5py.Group):
                if _address(entry) in seen:
                    raise InputError(f"{name[:80]!r} stands in it twice")
                seen.add(_address(entry))
                pending.append(entry)
            elif isinstance(entry, h5py.Dataset):
                if entry.external or entry.is_virtual:
                    raise InputError(f"the values of {name[:80]!r} are in another file, which is not read")
                need += entry.size * max(entry.dtype.itemsize, 1) if entry.size else 0
    return need + objects * OBJECT_BYTES


def _address(group: Any) -> Any:
    import h5py  # here, as above

    return h5py.h5o.get_info(group.id).addr
