"""Tables from text with a line of names and one line a row: `.csv` and `.tsv`, as any tool writes them.

The separator, a decimal comma and the encoding are found in the first lines. A field that is empty is missing. Words
such as `NA` and `null` are missing among numbers, and words like any other among texts: an action may be called so.
"""

import os
import re
from typing import NamedTuple

import pyarrow as pa
from pyarrow import csv

from hvil.gate.border import file_size, regular_file
from hvil.gate.budget import ROW_BYTES, check_budget
from hvil.gate.errors import InputError, one_line

SEPARATORS = (",", ";", "\t", "|")
SAMPLE = 1 << 16
"""Bytes in which the separator is looked for."""
TIMES = (csv.ISO8601, "%Y/%m/%d %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M")
"""How times may be written. Days and months with slashes are left out: nobody can tell which comes first."""
ENCODINGS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
"""The encoding that the first bytes of a file tell. Without them it is UTF-8 or, if that fails, `OLDER`."""
OLDER = "cp1252"
"""The encoding of older Windows programs."""


class Dialect(NamedTuple):
    """How a file writes its table."""

    separator: str
    decimal: str
    encoding: str


def read_csv(path: str | os.PathLike[str]) -> pa.Table:
    """Read a file with one line a row; it may be compressed (`.gz`, `.bz2`, `.zst`)."""
    check_text(path)
    try:
        dialect = find_dialect(_sample(path), fallback="\t" if ".tsv" in str(path).lower() else ",")
        table = _read(path, dialect)
        if dialect.encoding == "utf8" and _is_undecoded(table):
            table = _read(path, dialect._replace(encoding=OLDER))
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: not a CSV file with one line a step ({one_line(error, 200)})") from error
    if _is_undecoded(table):
        raise InputError(f"{path}: not a CSV file with one line a step (it holds bytes that are no text)")
    return table


def find_dialect(sample: bytes, fallback: str = ",") -> Dialect:
    """The separator, the sign before decimals and the encoding of a file that begins with the sample."""
    encoding = ENCODINGS.get(sample[:2], "utf8")
    text = sample.decode("utf-16" if encoding == "utf-16" else "latin-1", errors="replace")
    lines = [line for line in text.splitlines()[:100] if line.strip()]
    bare = [re.sub(r'"[^"]*"', '""', line) for line in lines]  # what stands in quotes separates nothing
    counts = {separator: [line.count(separator) for line in bare] for separator in SEPARATORS}
    in_names = {separator: found[0] if found else 0 for separator, found in counts.items()}
    # A separator stands in the line of names, and in most lines as often as there.
    steady = {s: sum(n == in_names[s] for n in counts[s]) for s in SEPARATORS if in_names[s]}
    separator = max(steady, key=lambda s: (steady[s] > len(lines) / 2, in_names[s]), default=fallback)
    fields = [field.strip(' "') for line in lines[1:] for field in line.split(separator)] if separator != "," else []
    with_comma = sum(re.fullmatch(r"[+-]?\d+,\d+", field) is not None for field in fields)
    with_point = sum(re.fullmatch(r"[+-]?\d+\.\d+", field) is not None for field in fields)
    return Dialect(separator, "," if with_comma > with_point else ".", encoding)


def check_text(path: str | os.PathLike[str]) -> None:
    """Refuse a file of text, perhaps compressed, whose table would take more memory than the file may.

    Lines and columns are counted before the table is made.
    """
    lines, columns, read = 1, 1, 0
    size = file_size(path)
    try:
        with pa.input_stream(str(regular_file(path)), compression="detect") as stream:
            while block := bytes(stream.read(1 << 20)):
                if not read:
                    first = block.partition(b"\n")[0]
                    columns += max(first.count(sign.encode()) for sign in SEPARATORS)
                lines += block.count(b"\n") or block.count(b"\r")
                read += len(block)
                check_budget(path, read + lines * (ROW_BYTES + 8 * columns), size)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise InputError(f"{path}: cannot be read, or damaged ({one_line(error, 200)})") from error


def _sample(path: str | os.PathLike[str]) -> bytes:
    with pa.input_stream(str(regular_file(path)), compression="detect") as stream:
        return bytes(stream.read(SAMPLE))


def _read(path: str | os.PathLike[str], dialect: Dialect) -> pa.Table:
    with pa.input_stream(str(regular_file(path)), compression="detect") as stream:
        return csv.read_csv(
            stream,
            read_options=csv.ReadOptions(encoding=dialect.encoding),
            parse_options=csv.ParseOptions(delimiter=dialect.separator, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                decimal_point=dialect.decimal, timestamp_parsers=TIMES, strings_can_be_null=False
            ),
        )


def _is_undecoded(table: pa.Table) -> bool:
    """Whether a column holds bytes: they are no text in the encoding of the file."""
    try:
        table.schema.names  # noqa: B018 (names that are no text are found out when they are asked for)
    except UnicodeDecodeError:
        return True
    return any(pa.types.is_binary(kind) for kind in table.schema.types)
