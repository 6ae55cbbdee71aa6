"""Running extracted programs along recorded episodes: which take the policy's actions, and what conditions decide.

The program as text runs on its own (`printing`); the tests show that both do the same.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from hvil.analysis.explain.episodes import CUT, Recording
from hvil.analysis.explain.syntax import Block, Comparison, Condition, If, Return, Step, While, bodies
from hvil.analysis.explain.synthesis import END
from hvil.analysis.explain.vocabulary import COUNTER, LAST, Vocabulary

IDLE = 10_000
"""Instructions without an action after which a program is stuck."""


@dataclass(frozen=True)
class Program:
    """A block for each procedure that is used."""

    root: int
    actions: int
    """How many; a step of this number or more is a call."""
    blocks: Mapping[int, Block]


Path = tuple[int, ...]
"""A statement's place in its procedure: child numbers from the block down, `else` after `then`."""


class Site(NamedTuple):
    """A condition of a program."""

    procedure: int
    path: Path


Compiled = Callable[[int, int, int], bool]
"""A condition, compiled: from row, counter and last step to its truth."""


@dataclass
class Code:
    """A program as instructions (kind, number, target): step, call, ask (a condition, target if false), go, return."""

    instructions: list[tuple[str, int, int]] = field(default_factory=list)
    entries: dict[int, int] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)


def compile_program(program: Program) -> Code:
    """Lay the blocks out, one after another."""
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
            called = statement.step - program.actions
            out.append(("step", statement.step, 0) if called < 0 else ("call", called, 0))
        elif isinstance(statement, Return):
            out.append(("return", 0, 0))
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


class Facts:
    """What conditions may ask: quantities at each row, and the frame."""

    def __init__(self, words: Vocabulary, recording: Recording) -> None:
        self.words = words
        self.values = words.values(recording.observations)
        self._lists = {name: values.tolist() for name, values in self.values.items()}
        self._steps = {name: i for i, name in enumerate(words.step_names)}

    def comparison(self, test: Comparison) -> Compiled:
        """One comparison, compiled."""
        threshold = test.threshold
        if test.feature.startswith(LAST + "="):
            wanted = self._steps.get(test.feature.removeprefix(LAST + "="), -1)
            return lambda row, counter, last: last == wanted
        feature = self.words.features[test.feature]
        if not feature.right:
            if feature.left == COUNTER:
                return lambda row, counter, last: counter > threshold
            column = self._lists[feature.left]
            return lambda row, counter, last: bool(column[row] > threshold)
        right, factor = self._lists[feature.right], feature.factor
        if feature.left == COUNTER:
            return lambda row, counter, last: bool(counter - factor * right[row] > threshold)
        left = self._lists[feature.left]
        return lambda row, counter, last: bool(left[row] - factor * right[row] > threshold)

    def condition(self, condition: Condition) -> Compiled:
        """A condition, compiled."""
        clauses = [[(self.comparison(part.test), part.negated) for part in clause] for clause in condition.clauses]
        if len(clauses) == 1 and len(clauses[0]) == 1:
            test, negated = clauses[0][0]
            return (lambda row, counter, last: not test(row, counter, last)) if negated else test
        return lambda row, counter, last: any(
            all(test(row, counter, last) != negated for test, negated in clause) for clause in clauses
        )


@dataclass(slots=True)
class _State:
    """A program in the middle of a run."""

    at: int
    frames: list[list[int]]
    """Return address, counter and last step of each."""

    def copy(self) -> "_State":
        return _State(self.at, [list(frame) for frame in self.frames])


class Asked(NamedTuple):
    """A condition that decided what came next."""

    site: int
    row: int
    counter: int
    last: int
    right: bool
    """The outcome that leads to the policy's next action."""


class Runner:
    """A program, ready to run along the episodes of a recording."""

    def __init__(self, program: Program, facts: Facts) -> None:
        self.program = program
        self.code = compile_program(program)
        self.conditions = [facts.condition(condition) for condition in self.code.conditions]

    def start(self) -> _State:
        """Before the first step."""
        return _State(self.code.entries[self.program.root], [[-1, 0, -1]])

    def instruction(self, state: _State, row: int, answer: bool | None = None) -> int | None:
        """Execute one instruction: the action it takes, `END` at the end of the program, else None."""
        kind, number, target = self.code.instructions[state.at]
        frame = state.frames[-1]
        state.at += 1
        if kind == "ask":
            holds = self.conditions[number](row, frame[1], frame[2]) if answer is None else answer
            if not holds:
                state.at = target
        elif kind == "step":
            frame[1] += 1
            frame[2] = number
            return number
        elif kind == "call":
            frame[1] += 1
            frame[2] = self.program.actions + number
            state.frames.append([state.at, 0, -1])
            state.at = self.code.entries[number]
        elif kind == "go":
            state.at = number
        else:
            state.at = state.frames.pop()[0]
            return None if state.frames else END
        return None

    def advance(self, state: _State, row: int, answer: bool | None = None) -> int:
        """Run up to the next action or the end; `answer` replaces that of the first condition, if it comes at once."""
        for _ in range(IDLE):
            step = self.instruction(state, row, answer)
            if step is not None:
                return step
            answer = None
        return CUT

    def agrees(self, first: int, actions: Sequence[int]) -> bool:
        """Whether the program takes these actions on the rows from `first` on."""
        state = self.start()
        return all(wanted == CUT or self.advance(state, first + i) == wanted for i, wanted in enumerate(actions))

    def asked(self, first: int, actions: Sequence[int]) -> list[Asked]:
        """The conditions that mattered, each then answered rightly; up to where no answer is right."""
        found: list[Asked] = []
        state = self.start()
        row, end = first, first + len(actions)
        for _ in range(IDLE):
            if row == end or not state.frames or (wanted := actions[row - first]) == CUT:
                break
            kind, number, _ = self.code.instructions[state.at]
            answer = None
            if kind == "ask":
                right = [self.advance(state.copy(), row, option) == wanted for option in (False, True)]
                if not any(right):
                    break
                if right[0] != right[1]:
                    answer = right[1]
                    _, counter, last = state.frames[-1]
                    found.append(Asked(number, row, counter, last, answer))
            step = self.instruction(state, row, answer)
            if step is not None:
                if step != wanted:
                    break
                row += 1
        return found


def agreement(program: Program, facts: Facts, recording: Recording) -> Bool[np.ndarray, "N"]:
    """In which episodes the program takes exactly the policy's actions, the end included."""
    runner = Runner(program, facts)
    actions = recording.actions.tolist()
    ends = recording.offsets.tolist()
    return np.array([runner.agrees(a, actions[a:b]) for a, b in itertools.pairwise(ends)], dtype=bool)
