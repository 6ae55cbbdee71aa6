"""Splits Karel source into tokens that know their line and column, for both forms of the language."""

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from hvil.domains.karel.syntax import Position
from hvil.gate.errors import InputError


class Form(Enum):
    """How a program is written."""

    CURLY = "curly"
    TOKENS = "tokens"


class Token(NamedTuple):
    """A piece of source; the empty text is the end of the program."""

    text: str
    position: Position

    def __str__(self) -> str:
        return repr(self.text) if self.text else "the end of the program"


class KarelSyntaxError(InputError):
    """A program that does not parse: where, and what was expected there."""

    def __init__(self, source_name: str, position: Position, expected: str, found: str) -> None:
        super().__init__(f"{source_name}: {position}: expected {expected}, found {found}")
        self.position = position
        self.line, self.column = position
        self.expected = expected
        self.found = found


_WORD = r"[A-Za-z_][A-Za-z_0-9]*"
_PIECES = {
    Form.CURLY: re.compile(rf"{_WORD}|[0-9]+|[(){{}};]"),
    Form.TOKENS: re.compile(rf"[mcrwie][()]|R=[0-9]+|{_WORD}"),
}
_EXPECTED_CHARACTER = {
    Form.CURLY: "a name, a number or one of ( ) { } ;",
    Form.TOKENS: "a name, R=NUMBER or a bracket such as m( or c)",
}
_SPACE = re.compile(r"\s+")


def detect_form(source: str) -> Form:
    """The token form starts with `DEF`; all else is read as curly, whose errors are the ones people know."""
    return Form.TOKENS if re.match(r"\s*DEF\b", source) else Form.CURLY


def tokens(source: str, form: Form, source_name: str) -> Iterator[Token]:
    """The tokens of `source`, then one with the empty text at the end."""
    index = 0
    line_number, line_start = 1, 0
    while True:
        space = _SPACE.match(source, index)
        if space:
            newlines = space.group().count("\n")
            if newlines:
                line_number += newlines
                line_start = source.rindex("\n", index, space.end()) + 1
            index = space.end()
        position = Position(line_number, index - line_start + 1)
        if index == len(source):
            yield Token("", position)
            return
        piece = _PIECES[form].match(source, index)
        if piece is None:
            raise KarelSyntaxError(source_name, position, _EXPECTED_CHARACTER[form], repr(source[index]))
        yield Token(piece.group(), position)
        index = piece.end()
