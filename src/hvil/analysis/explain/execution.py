"""Runs the tree of a program along recorded episodes: where does it agree, and what should its conditions have said?

There are two runtimes of programs. This one serves the search: it runs candidates that nobody prints, takes millions
of steps, and can go back and ask what another answer to a condition would have led to. The other one (`interpreter`)
runs the text; all that is reported about a program is measured there (`text`), and it is what acts (`program_policy`).
The tests show that both do the same. `For` does not occur in candidates, because `loops` recognises counting loops
after the search.
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

IDLE_LIMIT = 1_000
"""Instructions without an action after which a candidate counts as stuck. The text of a program may do more
(`interpreter`), but most candidates that do are loops that never end, and thousands of episodes would wait for them."""
STUCK = CUT
"""What a stuck program does at a row. It agrees with nothing, as no row that is compared wants `CUT`."""

Path = tuple[int, ...]
"""The position of a statement in its procedure: child numbers from the block down, those of `else` after `then`."""


class Site(NamedTuple):
    """The position of a condition in a program."""

    procedure: int
    path: Path


class Instruction(NamedTuple):
    """One of five kinds: `step`, `call`, `ask`, `go`, `return`."""

    kind: str
    number: int = 0
    """The action of `step`, the procedure of `call`, the condition of `ask`."""
    target: int = 0
    """Where `go` goes on, and `ask` if its condition is false."""


@dataclass
class Code:
    """A program as instructions."""

    instructions: list[Instruction] = field(default_factory=list)
    entries: dict[int, int] = field(default_factory=dict)
    """Where each procedure begins."""
    conditions: list[Condition] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    """Where each condition stands."""


def compile_program(program: Program) -> Code:
    """Lay out the blocks one after another."""
    code = Code()
    for procedure, block in program.blocks.items():
        code.entries[procedure] = len(code.instructions)
        _compile_block(code, program, procedure, block, ())
        code.instructions.append(Instruction("return"))
    return code


def _compile_block(code: Code, program: Program, procedure: int, block: Block, path: Path, first: int = 0) -> None:
    """Add the instructions of a block, whose statements are numbered from `first` on in their paths."""
    out = code.instructions
    for number, statement in enumerate(block, start=first):
        here = (*path, number)
        if isinstance(statement, Step):
            callee = program.callee(statement.step)
            out.append(Instruction("step", statement.step) if callee is None else Instruction("call", callee))
            continue
        assert isinstance(statement, If | While)
        ask = len(out)
        out.append(Instruction("ask", len(code.conditions)))
        code.conditions.append(statement.condition)
        code.sites.append(Site(procedure, here))
        body, *rest = bodies(statement)
        otherwise = rest[0] if rest else ()
        _compile_block(code, program, procedure, body, here)
        leave = len(out)
        if isinstance(statement, While):
            out.append(Instruction("go", target=ask))
        elif otherwise:
            out.append(Instruction("go"))
        out[ask] = out[ask]._replace(target=len(out))
        if otherwise:
            _compile_block(code, program, procedure, otherwise, here, first=len(body))
            out[leave] = out[leave]._replace(target=len(out))


@dataclass(slots=True)
class _State:
    """A program in the middle of a run."""

    address: int
    frames: list[list[int]]
    """Return address, counter and last step of each."""

    def copy(self) -> "_State":
        return _State(self.address, [list(frame) for frame in self.frames])


class Question(NamedTuple):
    """A question to a condition whose answer decides which action comes next."""

    condition: int
    """The number of the condition in the code."""
    row: int
    counter: int
    last: int
    answer: bool
    """The answer that leads to the policy's next action."""


class Visit(NamedTuple):
    """An invocation of a procedure, by the rows at which it was called and at which it returned."""

    procedure: int
    entry: int
    exit: int


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

    def questions(self, first: int, actions: Sequence[int]) -> list[Question]:
        """The questions whose answers matter if the program is to take these actions on the rows from `first` on.

        The run gives each condition the answer that it should have, and ends where neither answer would do.
        """
        deciding: list[Question] = []
        state = self._start()
        row, end = first, first + len(actions)
        for _ in range(IDLE_LIMIT * len(actions)):
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
                    deciding.append(Question(number, row, counter, last, answer))
            step = self._execute(state, row, answer)
            if step is not None:
                if step != wanted:
                    break
                row += 1
        return deciding

    def visits(self, first: int, actions: Sequence[int]) -> list[Visit] | None:
        """The invocations if the program takes exactly these actions on the rows from `first` on, else None."""
        found: list[Visit] = []
        state = self._start()
        open_visits = [(self.program.root, first)]
        row, end = first, first + len(actions)
        for _ in range(IDLE_LIMIT * len(actions)):
            kind, number, _ = self.code.instructions[state.address]
            step = self._execute(state, row)
            if kind == "call":
                open_visits.append((number, row))
            elif kind == "return":
                found.append(Visit(*open_visits.pop(), row))
            if step is not None:
                if step != actions[row - first]:
                    return None
                row += 1
            if row == end or not state.frames:
                break
        return found if row == end and not state.frames else None

    def _start(self) -> _State:
        return _State(self.code.entries[self.program.root], [[-1, 0, NO_STEP]])

    def _advance(self, state: _State, row: int, answer: bool | None = None) -> int:
        """Run up to the next action, which is returned; ∅ at the end, `STUCK` if there is none.

        Args:
            state: where the program is; it is changed.
            row: the observation.
            answer: what the next instruction, a condition, is made to say.
        """
        for _ in range(IDLE_LIMIT):
            step = self._execute(state, row, answer)
            if step is not None:
                return step
            answer = None
        return STUCK

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
            state.address = target
        else:
            state.address = state.frames.pop()[0]
            return None if state.frames else self.program.terminate
        return None


def agreement(program: Program, facts: Facts, recording: Recording, least: float = 0.0) -> Bool[np.ndarray, "N"]:
    """In which episodes the program takes exactly the policy's actions, including the end.

    Once the share of such episodes can no longer be `least`, the rest is not looked at and counts as disagreement.
    """
    runner = Runner(program, facts)
    actions = recording.emitted.tolist()
    result = np.zeros(len(recording), dtype=bool)
    misses_left = len(recording) - least * len(recording)
    for i, (first, end) in enumerate(itertools.pairwise(recording.row_offsets.tolist())):
        result[i] = runner.agrees(first, actions[first:end])
        misses_left -= not result[i]
        if misses_left < 0:
            break
    return result
