"""Runs the tree of a program along recorded episodes: where does it agree, and what should its conditions have said?

There are two runtimes of programs. This one serves the search: it runs candidates that nobody prints, takes millions
of steps, and can go back and ask what another answer to a condition would have led to. The other one (`stage`) runs the
text; all that is reported about a program is measured there (`text`). The tests show that both do the same.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from hvil.analysis.episodes import CUT
from hvil.analysis.explain.evidence import Recording
from hvil.analysis.explain.facts import Facts
from hvil.analysis.explain.program import NO_STEP, Block, Condition, If, Program, Step, While, bodies, call_step
from hvil.analysis.explain.stage import IDLE_LIMIT

Path = tuple[int, ...]
"""The position of a statement in its procedure: child numbers from the block down, those of `else` after `then`."""


class Site(NamedTuple):
    """The position of a condition in a program."""

    procedure: int
    path: Path


@dataclass
class Code:
    """A program as instructions (kind, number, target): step, call, ask (a condition, target if false), go, return."""

    instructions: list[tuple[str, int, int]] = field(default_factory=list)
    entries: dict[int, int] = field(default_factory=dict)
    """Where each procedure begins."""
    sites: list[Site] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)


def compile_program(program: Program) -> Code:
    """Lay out the blocks one after another."""
    code = Code()
    for procedure, block in program.blocks.items():
        code.entries[procedure] = len(code.instructions)
        _compile_block(code, program, procedure, block, ())
        code.instructions.append(("return", 0, 0))
    return code


def _compile_block(code: Code, program: Program, procedure: int, block: Block, path: Path, first: int = 0) -> None:
    out = code.instructions
    for number, statement in enumerate(block, start=first):
        here = (*path, number)
        if isinstance(statement, Step):
            callee = program.callee(statement.step)
            out.append(("step", statement.step, 0) if callee is None else ("call", callee, 0))
        elif isinstance(statement, If | While):
            asked = len(out)
            code.sites.append(Site(procedure, here))
            code.conditions.append(statement.condition)
            out.append(("ask", len(code.sites) - 1, 0))
            _compile_block(code, program, procedure, bodies(statement)[0], here)
            if isinstance(statement, While):
                out.append(("go", asked, 0))
            elif statement.otherwise:
                leave = len(out)
                out.append(("go", 0, 0))
                _compile_block(code, program, procedure, statement.otherwise, here, len(statement.then))
                out[leave] = ("go", len(out), 0)
                out[asked] = ("ask", out[asked][1], leave + 1)
                continue
            out[asked] = ("ask", out[asked][1], len(out))


@dataclass(slots=True)
class _State:
    """A program in the middle of a run."""

    address: int
    frames: list[list[int]]
    """Return address, counter and last step of each."""

    def copy(self) -> "_State":
        return _State(self.address, [list(frame) for frame in self.frames])


class Asked(NamedTuple):
    """A condition whose answer decided what came next."""

    site: int
    row: int
    counter: int
    last: int
    answer: bool
    """The answer that leads to the policy's next action."""


class Runner:
    """A program that is ready to run along the episodes of a recording."""

    def __init__(self, program: Program, facts: Facts) -> None:
        self.program = program
        self.code = compile_program(program)
        self.conditions = [facts.condition(condition) for condition in self.code.conditions]

    def agrees(self, first: int, actions: Sequence[int]) -> bool:
        """Whether the program takes these actions on the rows from `first` on."""
        state = self._start()
        return all(wanted == CUT or self._advance(state, first + i) == wanted for i, wanted in enumerate(actions))

    def asked(self, first: int, actions: Sequence[int]) -> list[Asked]:
        """The conditions whose answers matter if the program is to take these actions on the rows from `first` on.

        Each condition is given the answer that it should have; the run ends where neither answer would do.
        """
        deciding: list[Asked] = []
        state = self._start()
        row, end = first, first + len(actions)
        for _ in range(IDLE_LIMIT):
            if row == end or not state.frames or (wanted := actions[row - first]) == CUT:
                break
            kind, number, _ = self.code.instructions[state.address]
            answer = None
            if kind == "ask":
                right = [self._advance(state.copy(), row, option) == wanted for option in (False, True)]
                if not any(right):
                    break
                if right[0] != right[1]:
                    answer = right[1]
                    _, counter, last = state.frames[-1]
                    deciding.append(Asked(number, row, counter, last, answer))
            step = self._execute(state, row, answer)
            if step is not None:
                if step != wanted:
                    break
                row += 1
        return deciding

    def _start(self) -> _State:
        return _State(self.code.entries[self.program.root], [[-1, 0, NO_STEP]])

    def _advance(self, state: _State, row: int, answer: bool | None = None) -> int:
        """Run up to the next action or the end; `answer` is given to a condition that stands right at the start."""
        for _ in range(IDLE_LIMIT):
            step = self._execute(state, row, answer)
            if step is not None:
                return step
            answer = None
        return CUT

    def _execute(self, state: _State, row: int, answer: bool | None = None) -> int | None:
        """Execute one instruction and return the action that it takes, ∅ at the end of the program, else None."""
        kind, number, target = self.code.instructions[state.address]
        frame = state.frames[-1]
        state.address += 1
        if kind == "ask":
            holds = self.conditions[number](row, frame[1], frame[2]) if answer is None else answer
            if not holds:
                state.address = target
        elif kind == "step":
            frame[1] += 1
            frame[2] = number
            return number
        elif kind == "call":
            frame[1] += 1
            frame[2] = call_step(number, self.program.terminate)
            state.frames.append([state.address, 0, NO_STEP])
            state.address = self.code.entries[number]
        elif kind == "go":
            state.address = number
        else:
            state.address = state.frames.pop()[0]
            return None if state.frames else self.program.terminate
        return None


def agreement(program: Program, facts: Facts, recording: Recording) -> Bool[np.ndarray, "N"]:
    """In which episodes the program takes exactly the policy's actions, including the end."""
    runner = Runner(program, facts)
    actions = recording.emitted.tolist()
    ends = recording.row_offsets.tolist()
    return np.array([runner.agrees(a, actions[a:b]) for a, b in itertools.pairwise(ends)], dtype=bool)
