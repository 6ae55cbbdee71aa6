"""Programs as Python text: the procedures as functions, the root first."""

from collections.abc import Mapping, Sequence

from hvil.analysis.explain.program import Block, For, If, Program, Statement, Step, While
from hvil.analysis.explain.vocabulary import Vocabulary

_INDENT = "    "


def print_procedure(words: Vocabulary, procedure: int, block: Block, comments: Sequence[str] = ()) -> list[str]:
    """One procedure as lines, with comments below its name."""
    about = [_INDENT + line for line in comments]
    return [f"def {words.procedures[procedure]}():", *about, *_block_lines(words, block)]


def print_program(words: Vocabulary, program: Program, comments: Mapping[int, Sequence[str]] | None = None) -> str:
    """All procedures, the root first, separated by empty lines; `comments` are those of each procedure."""
    order, about = dict.fromkeys((program.root, *program.blocks)), comments or {}
    parts = [
        print_procedure(words, procedure, program.blocks[procedure], about.get(procedure, ())) for procedure in order
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _block_lines(words: Vocabulary, block: Block) -> list[str]:
    return [_INDENT + line for statement in block for line in _lines(words, statement)] or [_INDENT + "pass"]


def _lines(words: Vocabulary, statement: Statement) -> list[str]:
    if isinstance(statement, Step):
        return [f"{words.step_names[statement.step]}()"]
    if isinstance(statement, While):
        return [f"while {words.condition_text(statement.condition)}:", *_block_lines(words, statement.body)]
    if isinstance(statement, For):
        return [f"for _ in range({words.count_text(statement)}):", *_block_lines(words, statement.body)]
    assert isinstance(statement, If)
    lines = [f"if {words.condition_text(statement.condition)}:", *_block_lines(words, statement.then)]
    otherwise = statement.otherwise
    if len(otherwise) == 1 and isinstance(otherwise[0], If):
        inner = _lines(words, otherwise[0])
        return [*lines, "el" + inner[0], *inner[1:]]
    return [*lines, "else:", *_block_lines(words, otherwise)] if otherwise else lines
