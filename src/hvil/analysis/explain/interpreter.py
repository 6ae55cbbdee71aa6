"""Runs the text of a program, one action at a time: a pure function of what is observed and of a memory of plain data.

The text is Python, but a program may stop at any action and go on later, wherever its memory was kept meanwhile. So the
text is not called but interpreted: `def`, `if`, `while`, `for _ in range(...)`, `pass` and calls without arguments. An
action or procedure is called by its word, and conditions read the words of what is observed. Two more words are about
the procedure that is running: `counter` is the number of steps that it has taken, `last` the last of them.

All programs run here: those that are measured (`text`), those that act (`program_policy`), and those in the files of
`hvil explain --python`, into which this module is copied. Hence it needs nothing but the standard library.
"""

import ast
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

IDLE_LIMIT = 10_000
"""Instructions without an action after which a program counts as stuck: far more than a printable program has."""
DEPTH_LIMIT = 1_000
"""Procedures inside each other after which a program counts as stuck: Python itself goes about as deep."""

Memory = tuple[tuple[int, int, str | None, tuple[int, ...]], ...]
"""Where a program is: for each procedure that has begun, the outermost first, the address of its next instruction, its
counter, its last step, and the rounds that are left of each `for` around the address. Empty once the program ended."""

STUCK: Memory = ((-1, 0, None, ()),)
"""The memory of a program that does nothing for ever, or calls procedures without end."""


class Instruction(NamedTuple):
    """One of seven kinds: `act`, `call`, `return`, `ask`, `go`, `repeat` (begins a `for`), `next` (begins a round)."""

    kind: str
    value: Any = None
    """The word of the action or procedure, or the code of the condition or of the number of rounds."""
    target: int = 0
    """Where to go on: after `go`, after `ask` if its condition is false, after `next` if no round is left."""


class Interpreter:
    """A program that is ready to run; it has no state of its own."""

    def __init__(self, source: str, actions: Sequence[str]) -> None:
        """Read the text.

        Args:
            source: the procedures, the root first.
            actions: the words of the actions, in the order of their numbers.

        Raises:
            ValueError: the text has something that programs do not have.
        """
        self.terminate = len(actions)
        """What is done at the end: the number of actions, which stands for ∅."""
        procedures = [_procedure(part) for part in ast.parse(source).body]
        self._actions = {word: number for number, word in enumerate(actions)}
        self._entries: dict[str, int] = dict.fromkeys((procedure.name for procedure in procedures), 0)
        self._words: dict[str, Any] = {word: word for word in (*self._actions, *self._entries)}
        """What the word of a step means in a condition: itself."""
        self._globals = {"__builtins__": {}, **self._words}
        self._code: list[Instruction] = []
        for procedure in procedures:
            self._entries[procedure.name] = len(self._code)
            self._add(procedure.body)
            self._code.append(Instruction("return"))
        self._start: Memory = ((self._entries[procedures[0].name], 0, None, ()),)

    def act(self, observed: Mapping[str, object], memory: Sequence[Any] | None = None) -> tuple[int, Memory]:
        """The next action, and the memory to go on with; the number of actions once the program has ended or is stuck.

        Args:
            observed: the words of what is observed now, with their values.
            memory: what this function gave at the action before; None at the start. Lists may stand for its tuples.
        """
        frames = [(at, counter, last, tuple(rounds)) for at, counter, last, rounds in memory or ()]
        if memory is None:
            frames = list(self._start)
        if tuple(frames) == STUCK:
            return self.terminate, STUCK
        names = dict(observed)
        for _ in range(IDLE_LIMIT):
            if not frames:
                return self.terminate, ()
            at, counter, last, rounds = frames.pop()
            kind, value, target = self._code[at]
            at += 1
            if kind in ("act", "call"):
                frames.append((at, counter + 1, value, rounds))
                if kind == "act":
                    return self._actions[value], tuple(frames)
                at, counter, last, rounds = self._entries[value], 0, None, ()
                if len(frames) == DEPTH_LIMIT:
                    break
            elif kind in ("ask", "repeat"):
                # `is` compares a step with the very word that it stands for, also if the memory was stored meanwhile.
                names["counter"], names["last"] = counter, last and self._words[last]
                answer = eval(value, self._globals, names)
                if kind == "repeat":
                    rounds = (*rounds, answer)
                elif not answer:
                    at = target
            elif kind == "next":
                *outer, left = rounds
                rounds = (*outer, left - 1) if left > 0 else tuple(outer)
                at = at if left > 0 else target
            elif kind == "go":
                at = target
            else:
                continue
            frames.append((at, counter, last, rounds))
        return self.terminate, STUCK

    def _add(self, block: Sequence[ast.stmt]) -> None:
        """Add the instructions of a block."""
        code = self._code
        for statement in block:
            here = len(code)
            match statement:
                case ast.Pass():
                    pass
                case ast.Expr(ast.Call(ast.Name(word), [], [])) if word in self._words:
                    code.append(Instruction("act" if word in self._actions else "call", word))
                case ast.While(condition, body, []):
                    code.append(Instruction("ask"))
                    self._add(body)
                    code.append(Instruction("go", target=here))
                    code[here] = Instruction("ask", _compiled(condition), len(code))
                case ast.For(ast.Name("_"), ast.Call(ast.Name("range"), [count], []), body, []):
                    code += [Instruction("repeat", _compiled(count)), Instruction("next")]
                    self._add(body)
                    code.append(Instruction("go", target=here + 1))
                    code[here + 1] = Instruction("next", target=len(code))
                case ast.If(condition, body, otherwise):
                    code.append(Instruction("ask"))
                    self._add(body)
                    leave = len(code)
                    code.append(Instruction("go"))
                    code[here] = Instruction("ask", _compiled(condition), len(code))
                    self._add(otherwise)
                    code[leave] = Instruction("go", target=len(code))
                case _:
                    raise _not_a_program(statement)


def _procedure(part: ast.stmt) -> ast.FunctionDef:
    if not isinstance(part, ast.FunctionDef):
        raise _not_a_program(part)
    return part


def _not_a_program(part: ast.stmt) -> ValueError:
    return ValueError(f"line {part.lineno}: {ast.unparse(part)!r} cannot stand there in a program")


def _compiled(expression: ast.expr) -> Any:
    return compile(ast.Expression(expression), "<program>", "eval")
