"""The names of trace files: which format an ending means, and which files a source names. Nothing is read here."""

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from hvil.gate.border import regular_file
from hvil.gate.errors import InputError

TEXT = (".csv", ".tsv", ".jsonl", ".ndjson")
TABLES = (*TEXT, ".feather", ".arrow", ".parquet")
"""Endings of the files that are tables."""
READ = (".npz", *TABLES)
"""Endings of all trace files."""
COMPRESSED = (".gz", ".bz2", ".zst")
"""What may follow the ending of a file of text."""
SEVERAL = "|"
"""Stands between the names of several files."""


def ending(path: str | os.PathLike[str]) -> str:
    """The ending that says a file's format, without that of its compression; empty for other files."""
    name = Path(path)
    if name.suffix.lower() in COMPRESSED:
        name = Path(name.stem)
        return name.suffix.lower() if name.suffix.lower() in TEXT else ""
    return name.suffix.lower()


def files_of(source: str | os.PathLike[str]) -> list[str]:
    """The files that a source names: itself, several with `|` between them, a pattern with `*`, or a directory's."""
    found: list[str] = []
    for part in str(source).split(SEVERAL):
        path = Path(part)
        if path.is_dir():
            inside = sorted(str(file) for file in path.iterdir() if file.is_file() and ending(file) in TABLES)
            if not inside:
                raise InputError(f"{part}: the directory has no file that ends in {', '.join(TABLES)}")
            found += inside
        elif not path.exists() and glob.has_magic(part):
            inside = sorted(file for file in glob.glob(part, recursive=True) if os.path.isfile(file))
            if not inside:
                raise InputError(f"{part}: no file has such a name")
            found += inside
        else:
            found.append(part)
    for file in found:
        regular_file(file)
    wrong = [file for file in found if ending(file) not in TABLES]
    if len(found) > 1 and wrong:
        raise InputError(f"{wrong[0]}: several files are read together if they end in {', '.join(TABLES)}")
    return list(dict.fromkeys(found))


def joined(names: Sequence[str]) -> str:
    """Several names as one source; an `InputError` if that would be ambiguous."""
    if len(names) > 1 and any(SEVERAL in name for name in names):
        raise InputError(f"several files are named, and a name has {SEVERAL!r} in it; put them into a directory")
    return SEVERAL.join(names)
