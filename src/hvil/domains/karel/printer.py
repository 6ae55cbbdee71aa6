"""Writes Karel programs in the curly and in the token form; `parser` reads back the same tree."""

from hvil.domains.karel.lexer import Form
from hvil.domains.karel.syntax import (
    Action,
    Block,
    Condition,
    CoveragePoint,
    If,
    Program,
    Repeat,
    Statement,
    While,
)

_INDENT = "    "


def print_program(program: Program, form: Form = Form.CURLY, one_line: bool = False) -> str:
    """The source of `program`.

    Args:
        program: the tree.
        form: curly, or the token form (always one line).
        one_line: the curly form as the paper prints it, instead of one statement a line.
    """
    if form is Form.TOKENS:
        return " ".join(["DEF", "run", "m(", *_block_tokens(program.body), "m)"])
    lines = ["def run() {", *_block_lines(program.body), "}"]
    return " ".join(line.strip() for line in lines) if one_line else "\n".join(lines) + "\n"


def describe(statement: Statement) -> str:
    """The head of a statement as a reader knows it: `while (noMarkersPresent())`."""
    if isinstance(statement, Action):
        return f"{statement.name}()"
    if isinstance(statement, Repeat):
        return f"repeat({statement.count})"
    assert isinstance(statement, (If, While))
    keyword = "if" if isinstance(statement, If) else "while"
    return f"{keyword} ({_curly_condition(statement.condition)})"


def describe_point(point: CoveragePoint) -> str:
    """A statement or branch with its position in the source, for messages."""
    head = f"`{describe(point.statement)}` at {point.statement.position}"
    if point.outcome is None:
        return f"the statement {head}"
    return f"the branch where {head} is {'true' if point.outcome else 'false'}"


def _curly_condition(condition: Condition) -> str:
    return ("not " if condition.negated else "") + f"{condition.predicate}()"


def _block_lines(block: Block) -> list[str]:
    return [_INDENT + line for statement in block for line in _statement_lines(statement)]


def _statement_lines(statement: Statement) -> list[str]:
    if isinstance(statement, Action):
        return [f"{describe(statement)};"]
    head = f"{describe(statement)} {{"
    if isinstance(statement, If):
        otherwise = [] if statement.otherwise is None else ["} else {", *_block_lines(statement.otherwise)]
        return [head, *_block_lines(statement.then), *otherwise, "}"]
    assert isinstance(statement, (While, Repeat))
    return [head, *_block_lines(statement.body), "}"]


def _block_tokens(block: Block) -> list[str]:
    return [token for statement in block for token in _statement_tokens(statement)]


def _condition_tokens(condition: Condition) -> list[str]:
    inner = ["not", "c(", condition.predicate, "c)"] if condition.negated else [condition.predicate]
    return ["c(", *inner, "c)"]


def _statement_tokens(statement: Statement) -> list[str]:
    if isinstance(statement, Action):
        return [statement.name]
    if isinstance(statement, If):
        keyword = "IF" if statement.otherwise is None else "IFELSE"
        then = [keyword, *_condition_tokens(statement.condition), "i(", *_block_tokens(statement.then), "i)"]
        if statement.otherwise is None:
            return then
        return [*then, "ELSE", "e(", *_block_tokens(statement.otherwise), "e)"]
    if isinstance(statement, While):
        return ["WHILE", *_condition_tokens(statement.condition), "w(", *_block_tokens(statement.body), "w)"]
    assert isinstance(statement, Repeat)
    return ["REPEAT", f"R={statement.count}", "r(", *_block_tokens(statement.body), "r)"]
