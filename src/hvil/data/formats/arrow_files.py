"""Tables from Arrow files (`.feather`, `.arrow`): how much memory they take, before Arrow unpacks them.

The parts of such a file may be compressed. Each part says how long it is when it is unpacked, but Arrow shows that to
nobody; so the footer and the heads of the parts are read here. They are FlatBuffers: tables whose fields lie where an
offset says, as described in `format/Message.fbs` and `format/File.fbs` of Arrow.
"""

import os
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from hvil.gate.border import file_size, regular_file
from hvil.gate.budget import ROW_BYTES, check_budget
from hvil.gate.errors import InputError

MAGIC = b"ARROW1"
PREFIXED = 0xFFFFFFFF
"""Four bytes before the length of a head, in all but very old files."""
DICTIONARIES, BATCHES = 2, 3
"""Fields of a footer: where the parts are."""
HEAD_KIND, HEAD = 1, 2
"""Fields of a message: what kind of part it is the head of, and the head."""
IS_DICTIONARY, DICTIONARY_DATA = 2, 1
"""The kind of a dictionary, and the field of it that is a batch."""
ROWS, BUFFERS, COMPRESSION = 0, 2, 3
"""Fields of a batch."""


def read_arrow(path: str | os.PathLike[str]) -> pa.Table:
    """The rows of a file."""
    with pa.OSFile(str(regular_file(path))) as source:
        try:
            check_parts(path, source)
        except struct.error as error:
            raise InputError(f"{path}: not an Arrow file, or damaged ({error})") from error
        source.seek(0)
        with pa.ipc.open_file(source) as reader:
            return reader.read_all()


def check_parts(path: str | os.PathLike[str], source: Any) -> None:
    """Refuse a file whose parts would take more memory than the file may."""
    need, size = 0, file_size(path)
    for part in _parts(source, size):
        # Also the heads count: a footer can name the same part any number of times.
        need += part.length + sum(_unpacked(source, part)) + ROW_BYTES * _rows(part)
        check_budget(path, need, size)


class _Table(NamedTuple):
    """A table of a FlatBuffer."""

    data: bytes
    at: int

    def field(self, number: int) -> int | None:
        """Where a field lies; None if the table has none."""
        names = self.at - self.number("<i", self.at)
        entry = 4 + 2 * number
        offset = self.number("<H", names + entry) if entry < self.number("<H", names) else 0
        return self.at + offset if offset else None

    def number(self, form: str, at: int) -> int:
        """The number at a place."""
        if at < 0:
            raise struct.error("an offset before the beginning")
        return int(struct.unpack_from(form, self.data, at)[0])

    def table(self, number: int) -> "_Table | None":
        """The table that a field refers to."""
        at = self.field(number)
        return None if at is None else _Table(self.data, at + self.number("<I", at))

    def entries(self, number: int, width: int) -> range:
        """Where the entries of a list lie, each of so many bytes."""
        at = self.field(number)
        if at is None:
            return range(0)
        start = at + self.number("<I", at)
        first, count = start + 4, self.number("<I", start)
        if first + count * width > len(self.data):
            raise struct.error("a list beyond the end")
        return range(first, first + count * width, width)


class _Part(NamedTuple):
    """A batch of rows, or a dictionary."""

    batch: _Table
    length: int
    """Of its head, in bytes."""
    body: int
    """Where its values begin in the file."""


def _parts(source: Any, size: int) -> Iterator[_Part]:
    """The parts that the footer names."""
    end = _read(source, size - 10, 10, size)
    if end[4:] != MAGIC:
        raise struct.error("it does not end as one")
    (length,) = struct.unpack_from("<I", end)
    footer = _root(_read(source, size - 10 - length, length, size))
    for field in (DICTIONARIES, BATCHES):
        for entry in footer.entries(field, 24):
            offset, head = footer.number("<q", entry), footer.number("<i", entry + 8)
            message = _read(source, offset, head, size)
            prefix = 8 if message[:4] == struct.pack("<I", PREFIXED) else 4
            batch = _batch(_root(message[prefix:]))
            if batch is not None:
                yield _Part(batch, head, offset + head)


def _batch(message: _Table) -> _Table | None:
    head, kind = message.table(HEAD), message.field(HEAD_KIND)
    if head is None or kind is None:
        return None
    return head.table(DICTIONARY_DATA) if message.number("<B", kind) == IS_DICTIONARY else head


def _unpacked(source: Any, part: _Part) -> Iterator[int]:
    """The bytes of each buffer of a part, unpacked."""
    size = source.size()
    compressed = part.batch.field(COMPRESSION) is not None
    for entry in part.batch.entries(BUFFERS, 16):
        offset, length = (part.batch.number("<q", at) for at in (entry, entry + 8))
        if length <= 0 or not compressed:
            yield max(length, 0)
            continue
        (unpacked,) = struct.unpack("<q", _read(source, part.body + offset, 8, size))
        yield length if unpacked < 0 else unpacked  # -1: this one is not compressed


def _rows(part: _Part) -> int:
    at = part.batch.field(ROWS)
    return 0 if at is None else max(part.batch.number("<q", at), 0)


def _root(data: bytes) -> _Table:
    return _Table(data, int(struct.unpack_from("<I", data)[0]))


def _read(source: Any, at: int, length: int, size: int) -> bytes:
    if at < 0 or length < 0 or at + length > size:
        raise struct.error("it refers to what lies beyond its end")
    source.seek(at)
    return bytes(source.read(length))
