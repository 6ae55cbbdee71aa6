"""Reads Karel programs in the curly and in the token form into the tree of `syntax`.

Recursive descent, one method a construct. What does not parse is a `KarelSyntaxError`.
"""

from collections.abc import Callable
from typing import ClassVar

from hvil.domains.karel.lexer import Form, KarelSyntaxError, Token, detect_form, tokens
from hvil.domains.karel.syntax import (
    ACTIONS,
    PREDICATES,
    Action,
    Block,
    Condition,
    If,
    Program,
    Repeat,
    Statement,
    While,
)

MAX_NESTING = 64
"""Deeper programs are refused: nobody writes them, and they would exhaust Python's own stack."""

_A_STATEMENT = "a statement (an action, if, while or repeat)"
_A_TOKEN_STATEMENT = "a statement (an action, IF, IFELSE, WHILE or REPEAT)"
_A_PREDICATE = "a predicate (" + ", ".join(PREDICATES) + ")"


def parse(source: str, form: Form | None = None, source_name: str = "program") -> Program:
    """The program that `source` spells.

    Args:
        source: the text.
        form: how it is written; None finds out (the token form starts with `DEF`).
        source_name: what error messages call it, such as a file name.

    Raises:
        KarelSyntaxError: with the line, the column and what was expected there.
    """
    form = form or detect_form(source)
    reader = _TokenReader if form is Form.TOKENS else _CurlyReader
    return reader(source, source_name).program()


class _Reader:
    """The cursor, and what both forms share."""

    form: ClassVar[Form]

    def __init__(self, source: str, source_name: str) -> None:
        self.source_name = source_name
        self._tokens = tokens(source, self.form, source_name)
        self.current = next(self._tokens)
        self.nesting = 0

    def advance(self) -> Token:
        token = self.current
        if token.text:
            self.current = next(self._tokens)
        return token

    def fail(self, expected: str) -> KarelSyntaxError:
        return KarelSyntaxError(self.source_name, self.current.position, expected, str(self.current))

    def expect(self, *texts: str) -> None:
        for text in texts:
            if self.current.text != text:
                raise self.fail(f"{text!r}" if text else "the end of the program")
            self.advance()

    def one_of(self, names: tuple[str, ...], expected: str) -> str:
        if self.current.text not in names:
            raise self.fail(expected)
        return self.advance().text

    def number(self, prefix: str, expected: str) -> int:
        digits = self.current.text.removeprefix(prefix)
        if not digits.isdigit() or len(digits) > 9:
            raise self.fail(expected)
        self.advance()
        return int(digits)

    def block(self, opening: str, closing: str, statement: Callable[[], Statement]) -> Block:
        if self.nesting == MAX_NESTING:
            raise self.fail(f"at most {MAX_NESTING} nested blocks")
        self.expect(opening)
        self.nesting += 1
        statements = [statement()]
        while self.current.text != closing:
            statements.append(statement())
        self.nesting -= 1
        self.expect(closing)
        return tuple(statements)


class _CurlyReader(_Reader):
    """`def run() { while (not frontIsClear()) { turnLeft(); } }`."""

    form = Form.CURLY

    def program(self) -> Program:
        if self.current.text != "def":
            raise self.fail("'def run()' (or 'DEF run m(' in the token form)")
        self.expect("def", "run", "(", ")")
        body = self.body()
        self.expect("")
        return Program(body)

    def body(self) -> Block:
        return self.block("{", "}", self.statement)

    def statement(self) -> Statement:
        position = self.current.position
        keyword = self.one_of((*ACTIONS, "if", "while", "repeat"), _A_STATEMENT)
        if keyword == "if":
            condition, then = self.condition(), self.body()
            if self.current.text != "else":
                return If(condition, then, position=position)
            self.advance()
            return If(condition, then, self.body(), position=position)
        if keyword == "while":
            return While(self.condition(), self.body(), position=position)
        if keyword == "repeat":
            self.expect("(")
            count = self.number("", "a number of repetitions")
            self.expect(")")
            return Repeat(count, self.body(), position=position)
        self.expect("(", ")", ";")
        return Action(keyword, position=position)

    def condition(self) -> Condition:
        self.expect("(")
        negated = self.current.text == "not"
        if negated:
            self.advance()
        bracketed = negated and self.current.text == "("
        if bracketed:
            self.advance()
        predicate = self.one_of(PREDICATES, _A_PREDICATE if negated else f"'not' or {_A_PREDICATE}")
        self.expect("(", ")")
        if bracketed:
            self.expect(")")
        self.expect(")")
        return Condition(predicate, negated)


class _TokenReader(_Reader):
    """`DEF run m( WHILE c( not c( frontIsClear c) c) w( turnLeft w) m)`."""

    form = Form.TOKENS

    def program(self) -> Program:
        self.expect("DEF", "run")
        body = self.block("m(", "m)", self.statement)
        self.expect("")
        return Program(body)

    def statement(self) -> Statement:
        position = self.current.position
        keyword = self.one_of((*ACTIONS, "IF", "IFELSE", "WHILE", "REPEAT"), _A_TOKEN_STATEMENT)
        if keyword == "IF":
            return If(self.condition(), self.block("i(", "i)", self.statement), position=position)
        if keyword == "IFELSE":
            condition, then = self.condition(), self.block("i(", "i)", self.statement)
            self.expect("ELSE")
            return If(condition, then, self.block("e(", "e)", self.statement), position=position)
        if keyword == "WHILE":
            return While(self.condition(), self.block("w(", "w)", self.statement), position=position)
        if keyword == "REPEAT":
            count = self.number("R=", "R=NUMBER, a number of repetitions")
            return Repeat(count, self.block("r(", "r)", self.statement), position=position)
        return Action(keyword, position=position)

    def condition(self) -> Condition:
        self.expect("c(")
        negated = self.current.text == "not"
        if negated:
            self.advance()
            self.expect("c(")
        predicate = self.one_of(PREDICATES, _A_PREDICATE if negated else f"'not' or {_A_PREDICATE}")
        if negated:
            self.expect("c)")
        self.expect("c)")
        return Condition(predicate, negated)
