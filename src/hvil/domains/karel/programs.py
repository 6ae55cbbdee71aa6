"""The programs of the paper's appendix by name, and programs from files.

The paper says seven and lists six; by the public puzzle numbering the seventh repeats B.
"""

from pathlib import Path

from hvil.domains.karel.parser import parse
from hvil.domains.karel.syntax import Program
from hvil.gate.errors import InputError

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


def named_or_source(text: str) -> Program:
    """A program by its name (A to F), or the one that `text` itself spells, in either form."""
    return parse(PROGRAMS[text], source_name=f"program {text}") if text in PROGRAMS else parse(text)


def named_or_file(argument: str) -> Program:
    """A program by its name (A to F), or from a file, in either form.

    Raises:
        InputError: neither a name nor a readable file, or what the file holds does not parse.
    """
    if argument in PROGRAMS:
        return named_or_source(argument)
    try:
        source = Path(argument).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        names = ", ".join(PROGRAMS)
        raise InputError(f"karel:{argument}: no program of that name ({names}) and no such file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{argument}: not a text file, expected a Karel program") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{argument}: cannot be read ({error})") from error
    return parse(source, source_name=argument)
