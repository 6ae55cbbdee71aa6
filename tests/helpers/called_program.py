"""The text of a program run by Python itself, as functions that call each other: an oracle for the interpreter."""

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

IDLE_ROUNDS = 10_000


class _Over(Exception):
    """The observations are used up."""


class _Stuck(Exception):
    """The program does nothing for ever."""


class _Ticking(ast.NodeTransformer):
    """Makes every round of a `while` tick, so that a loop that does nothing for ever can be stopped."""

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(ast.Call(ast.Name("tick", ast.Load()), [], [])))
        return ast.fix_missing_locations(node)


def called(source: str, actions: Sequence[str], rows: Sequence[Mapping[str, object]]) -> tuple[list[int], bool]:
    """The actions at these rows, up to ∅ (the number of actions) at the end; and whether the program got stuck."""
    tree = ast.parse(source)
    names: dict[str, Any] = {"__builtins__": {"range": range}}
    exec(compile(_Ticking().visit(tree), "<program>", "exec"), names)
    frames: list[tuple[int, object]] = []
    taken: list[int] = []
    idle = 0

    def tick() -> None:
        nonlocal idle
        idle += 1
        if idle > IDLE_ROUNDS:
            raise _Stuck

    def show_frame() -> None:
        if frames:
            names["counter"], names["last"] = frames[-1]

    def count(step: object) -> None:
        frames[-1] = frames[-1][0] + 1, step
        show_frame()

    def action(number: int) -> Callable[[], None]:
        def act() -> None:
            nonlocal idle
            idle = 0
            count(act)
            taken.append(number)
            if len(taken) == len(rows):
                raise _Over
            names.update(rows[len(taken)])

        return act

    def procedure(body: Callable[[], None]) -> Callable[[], None]:
        def call() -> None:
            if frames:
                count(call)
            frames.append((0, None))
            show_frame()
            body()
            frames.pop()
            show_frame()

        return call

    procedures = [part.name for part in tree.body if isinstance(part, ast.FunctionDef)]
    names |= {name: procedure(names[name]) for name in procedures}
    names |= {name: action(number) for number, name in enumerate(actions)}
    names |= {"tick": tick, **rows[0]}
    try:
        names[procedures[0]]()
    except _Over:
        return taken, False
    except (_Stuck, RecursionError):
        return taken, True
    return [*taken, len(actions)], False
