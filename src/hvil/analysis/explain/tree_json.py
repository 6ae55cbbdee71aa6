"""The tree of a program as JSON, and back. What is read is checked: it may use only words of its vocabulary."""

from collections.abc import Mapping, Sequence
from typing import Any

from hvil.analysis.explain.program import (
    Block,
    Comparison,
    Condition,
    For,
    If,
    Literal,
    Program,
    Statement,
    Step,
    While,
)
from hvil.analysis.explain.vocabulary import LAST_IS, Vocabulary, square


def program_to_mapping(program: Program) -> dict[str, Any]:
    """A program as JSON."""
    blocks = [[procedure, _block_to_list(block)] for procedure, block in program.blocks.items()]
    return {"root": program.root, "blocks": blocks}


def program_from_mapping(mapping: Mapping[str, Any], words: Vocabulary) -> Program:
    """A program from JSON.

    Raises:
        KeyError, TypeError, ValueError: it is not one, or it uses words that the vocabulary does not have.
    """
    reader = _Reader(words)
    blocks = {reader.procedure(procedure): reader.block(block) for procedure, block in mapping["blocks"]}
    if mapping["root"] not in blocks:
        raise ValueError("the root has no block")
    return Program(root=mapping["root"], terminate=words.terminate, blocks=blocks)


def literals_to_list(parts: Sequence[Literal]) -> list[list[Any]]:
    """Literals as JSON."""
    return [[part.test.feature, part.test.threshold, part.negated] for part in parts]


def literals_from_list(parts: Sequence[Sequence[Any]], words: Vocabulary) -> tuple[Literal, ...]:
    """Literals from JSON; raises what `program_from_mapping` raises."""
    return tuple(_Reader(words).literal(*part) for part in parts)


def _block_to_list(block: Block) -> list[dict[str, Any]]:
    return [_statement_to_mapping(statement) for statement in block]


def _statement_to_mapping(statement: Statement) -> dict[str, Any]:
    if isinstance(statement, Step):
        return {"step": statement.step}
    if isinstance(statement, While):
        return {"while": _condition_to_list(statement.condition), "body": _block_to_list(statement.body)}
    if isinstance(statement, For):
        count = [statement.quantity, statement.factor, statement.offset]
        return {"for": count, "body": _block_to_list(statement.body)}
    assert isinstance(statement, If)
    return {
        "if": _condition_to_list(statement.condition),
        "then": _block_to_list(statement.then),
        "else": _block_to_list(statement.otherwise),
    }


def _condition_to_list(condition: Condition) -> list[list[list[Any]]]:
    return [literals_to_list(clause) for clause in condition.clauses]


class _Reader:
    """Reads trees that use the words of a vocabulary."""

    def __init__(self, words: Vocabulary) -> None:
        self.procedures = range(len(words.procedures))
        self.steps = set(words.step_names)
        lasts = {LAST_IS + name for name in ("", *words.step_names.values())}
        self.features = words.features.keys() | lasts
        counts = {name for name, kind in words.kinds.items() if kind == "count"}
        self.quantities = {None} | counts | set(map(square, counts))

    def procedure(self, value: Any) -> int:
        """The number of a procedure."""
        if type(value) is not int or value not in self.procedures:
            raise ValueError(f"no procedure {value!r}")
        return value

    def block(self, values: Sequence[Mapping[str, Any]]) -> Block:
        """A block."""
        return tuple(map(self.statement, values))

    def statement(self, value: Mapping[str, Any]) -> Statement:
        """A statement."""
        if "step" in value:
            if type(value["step"]) is not int or value["step"] not in self.steps:
                raise ValueError(f"no step {value['step']!r}")
            return Step(value["step"])
        if "while" in value:
            return While(self.condition(value["while"]), self.block(value["body"]))
        if "for" in value:
            quantity, factor, offset = value["for"]
            if quantity not in self.quantities:
                raise ValueError(f"no quantity {quantity!r}")
            return For(quantity, int(factor), int(offset), self.block(value["body"]))
        return If(self.condition(value["if"]), self.block(value["then"]), self.block(value["else"]))

    def condition(self, clauses: Sequence[Sequence[Sequence[Any]]]) -> Condition:
        """A condition."""
        return Condition(tuple(tuple(self.literal(*part) for part in clause) for clause in clauses))

    def literal(self, feature: Any, threshold: Any, negated: Any) -> Literal:
        """A literal."""
        if feature not in self.features:
            raise ValueError(f"no feature {feature!r}")
        return Literal(Comparison(feature, float(threshold)), bool(negated))
