"""Tables from text with one JSON object a line (`.jsonl`, `.ndjson`): what they may hold, before Arrow reads them.

Arrow gives every line every key that stands in any line, and follows nesting however deep it is. A few kilobytes could
so become gigabytes, or end the process; here keys and nesting are counted first.
"""

import os
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import json

from hvil.data.formats.nested import MOST_NESTED
from hvil.gate.border import file_size, regular_file
from hvil.gate.budget import ROW_BYTES, check_budget
from hvil.gate.errors import InputError, one_line
from hvil.gate.files import parse_json

BLOCK = 1 << 20
"""Bytes that are looked at together; Arrow, too, reads no line that is longer."""
DEEPEST = 64
"""Objects and lists inside each other, at most."""
STRUCTURE = re.compile(rb'("(?:[^"\\]|\\.)*+"\s*+:|[{}\[\]])|"(?:[^"\\]|\\.)*+"?', re.DOTALL)
"""The keys, brackets and braces of a line. Texts are passed over as a whole, also those that do not end."""


def read_json_lines(path: str | os.PathLike[str]) -> pa.Table:
    """The rows of a file, perhaps compressed; objects and lists are columns of their own kinds."""
    check_json_lines(path)
    with pa.input_stream(str(regular_file(path)), compression="detect") as stream:
        return json.read_json(stream)


def check_json_lines(path: str | os.PathLike[str]) -> None:
    """Refuse a file whose table would take more memory than the file may, or that is nested too deeply.

    Lines with the same keys at the same places are looked at once.
    """
    length, objects = 0, 0
    seen: set[bytes] = set()
    places: set[tuple[str, ...]] = set()
    for line in _lines(path):
        whole = line.strip()
        if not (whole.startswith(b"{") and whole.endswith(b"}")):  # a plain `null` would end the process in Arrow
            shown = one_line(whole[:40].decode(errors="replace"))
            raise InputError(f"{path}: not JSON lines, because a line is no object: {shown}")
        length += len(line)
        structure = b"".join(STRUCTURE.findall(line))
        objects += structure.count(b"{")
        if structure in seen:
            continue
        seen.add(structure)
        places.update(_places(parse_json(line, f"line {len(seen)}"), ()))
        if len(places) > MOST_NESTED:
            raise InputError(f"{path}: objects of more than {MOST_NESTED} entries cannot be read")
    check_budget(path, length + objects * (ROW_BYTES + 8 * len(places)), file_size(path))


def _lines(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """The lines of a file that hold something."""
    read, rest = 0, b""
    with pa.input_stream(str(regular_file(path)), compression="detect") as stream:
        while block := bytes(stream.read(BLOCK)):
            read += len(block)
            check_budget(path, read, file_size(path))
            *lines, rest = (rest + block).split(b"\n")
            if len(rest) > BLOCK:
                raise InputError(f"{path}: a line of more than {BLOCK >> 20} MB cannot be read")
            yield from filter(bytes.strip, lines)
    if rest.strip():
        yield rest


def _places(value: Any, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The keys in a value, each with those above it."""
    if len(above) > DEEPEST:
        raise InputError(f"objects and lists nested more than {DEEPEST} deep cannot be read")
    if isinstance(value, dict):
        for key, entry in value.items():
            yield (*above, key)
            yield from _places(entry, (*above, key))
    elif isinstance(value, list):
        for entry in value:
            yield from _places(entry, (*above, ""))
