"""Budgets: how much memory an input may take. Readers ask before they allocate, from headers or counts.

An input may take so many times its own size, and a little more; the user may raise the limit (`--limit`, or the
environment variable HVIL_LIMIT, which worker processes inherit).
"""

import os
import re
import sys
from typing import Any

from hvil.gate.errors import InputError

VARIABLE = "HVIL_LIMIT"
PROPORTION = 8
"""Times its size that an input may take. Ours compress further only where they repeat themselves."""
ALLOWANCE = 64 << 20
"""Bytes that any input may take, however small it is."""
MOST = 8 << 30
"""Bytes that no input may take unless the user raises the limit."""
TEXT = 4 << 20
"""Characters of a JSON or TOML text, at most: as Python objects they take up to 24 times as much."""
ROW_BYTES = 64
"""What a row of a table takes beside its values: its trace, its step, its place in the order, and some masks."""


def allowed_bytes(size: int) -> int:
    """How much memory an input of this size may take."""
    raised = raised_limit()
    return min(PROPORTION * size + ALLOWANCE, MOST) if raised is None else raised


def check_budget(where: str | os.PathLike[str], need: int, size: int) -> None:
    """Refuse an input that would take more memory than it may.

    Args:
        where: the file, for the error message.
        need: the bytes that it would take.
        size: the bytes that it has on disk.
    """
    allowed = allowed_bytes(size)
    if need > allowed:
        raise InputError(
            f"{where}: would take {shown_bytes(need)} of memory, and may take {shown_bytes(allowed)} "
            f"(it has {shown_bytes(size)}); if you trust it, raise the limit: --limit {shown_bytes(need)}"
        )


def check_text(where: str, length: int) -> None:
    """Refuse a JSON or TOML text that is too long."""
    raised = raised_limit()
    most = TEXT if raised is None else max(TEXT, raised // 16)
    if length > most:
        raise InputError(
            f"{where}: a text of {shown_bytes(length)}, at most {shown_bytes(most)} are read; if you trust it, raise "
            f"the limit: --limit {shown_bytes(16 * length)}"
        )


def taken_bytes(value: Any) -> int:
    """How much memory a value takes that was read from JSON, each of its objects counted once."""
    taken, seen, waiting = 0, set[int](), [value]
    while waiting:
        entry = waiting.pop()
        if id(entry) in seen:
            continue
        seen.add(id(entry))
        taken += sys.getsizeof(entry)
        if isinstance(entry, dict):
            waiting += [*entry.keys(), *entry.values()]
        elif isinstance(entry, list):
            waiting += entry
    return taken


def raised_limit() -> int | None:
    """The limit that the user has set, in bytes; None if there is none."""
    text = os.environ.get(VARIABLE)
    return parsed_bytes(text, VARIABLE) if text else None


def set_limit(text: str) -> None:
    """Set the limit for this process and the workers that it starts."""
    parsed_bytes(text, "--limit")
    os.environ[VARIABLE] = text


def parsed_bytes(text: str, what: str) -> int:
    """A size such as `500MB` or `2GB`, in bytes."""
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) *([kKMGT]?)i?[bB]?", text)
    if match is None:
        raise InputError(f"{what} {text[:40]!r}: expected a size such as 500MB or 2GB")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def shown_bytes(count: int) -> str:
    """A size for people, rounded up, such that `parsed_bytes` reads at least as much."""
    unit = 0
    while unit < 4 and count >= 1024 ** (unit + 1):
        unit += 1
    if not unit:
        return f"{count}B"
    tenths = -(-count * 10 // 1024**unit)
    return f"{tenths // 10}.{tenths % 10}{'KMGT'[unit - 1]}B"
