"""The programs of the paper's appendix by name, six of ours that need a hierarchy, and programs from files.

The paper says seven and lists six; by the public puzzle numbering the seventh repeats B.
"""

import os

from hvil.domains.karel.parser import parse
from hvil.domains.karel.syntax import Program
from hvil.gate.errors import InputError
from hvil.gate.files import read_text

PROGRAMS = {
    "A": "def run() { turnRight(); while (noMarkersPresent()) { move(); if (rightIsClear()) { turnRight(); } } }",
    "B": "def run() { turnRight(); while (noMarkersPresent()) { move(); if (leftIsClear()) { turnLeft(); } } }",
    "C": "def run() { turnRight(); while (noMarkersPresent()) { if (rightIsClear()) { turnRight(); } move(); } }",
    "D": (
        "def run() { turnRight(); while (noMarkersPresent()) { if (frontIsClear()) { move(); } else { turnLeft(); } } }"
    ),
    "E": (
        "def run() { turnRight(); while (noMarkersPresent()) { "
        "if (frontIsClear()) { move(); } else { turnRight(); } } }"
    ),
    "F": (
        "def run() { turnRight(); while (noMarkersPresent()) { if (frontIsClear()) { move(); } else { "
        "if (rightIsClear()) { turnRight(); } else { turnLeft(); } } } }"
    ),
}

HIERARCHICAL = {
    "square": "def run() { repeat(4) { while (frontIsClear()) { move(); } turnRight(); } }",
    "harvest": "def run() { while (frontIsClear()) { while (markersPresent()) { pickMarker(); } move(); } }",
    "trail": (
        "def run() { while (frontIsClear()) { putMarker(); move(); } repeat(2) { turnLeft(); } "
        "while (frontIsClear()) { move(); } }"
    ),
    "zigzag": (
        "def run() { repeat(2) { while (frontIsClear()) { move(); } turnLeft(); } "
        "repeat(2) { while (frontIsClear()) { move(); } turnRight(); } }"
    ),
    "sow": (
        "def run() { repeat(3) { repeat(2) { putMarker(); } if (frontIsClear()) { move(); } else { turnLeft(); } } }"
    ),
    "patrol": "def run() { repeat(2) { while (frontIsClear()) { move(); } repeat(2) { turnLeft(); } } }",
}
"""Programs with nested loops, repeated sub-tasks and counting, which the paper's do not have."""

NAMED = PROGRAMS | HIERARCHICAL
"""All programs that have a name."""


def named_or_source(text: str) -> Program:
    """A program by its name, or the one that `text` itself spells, in either form."""
    return parse(NAMED[text], source_name=f"program {text}") if text in NAMED else parse(text)


def named_or_file(argument: str) -> Program:
    """A program by its name, or from a file, in either form.

    Raises:
        InputError: neither a name nor a readable file, or what the file holds does not parse.
    """
    if argument in NAMED:
        return named_or_source(argument)
    if not os.path.lexists(argument):
        names = ", ".join(NAMED)
        raise InputError(f"karel:{argument}: no program of that name ({names}) and no such file")
    return parse(read_text(argument), source_name=argument)
