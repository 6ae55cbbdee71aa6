"""Translates a Karel program into a table of integers, which `kernels` runs fast on many worlds.

The meaning is that of `interpreter`, event for event; a test compares them.

Letters: N worlds or runs, S actions of all runs together.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8, Int16, Int32

from hvil.domains.karel import kernels
from hvil.domains.karel.interpreter import MAX_EVENTS, procedure_names
from hvil.domains.karel.syntax import (
    ACTIONS,
    PREDICATES,
    Action,
    Block,
    CoveragePoint,
    If,
    Path,
    Program,
    Repeat,
    Statement,
    While,
    coverage_points,
    rounds,
)


class Code(NamedTuple):
    """A compiled program."""

    instructions: Int32[np.ndarray, "instructions 4"]
    """Operation and three arguments; `kernels` says what each means."""
    points: tuple[CoveragePoint, ...]
    """What the columns of a coverage table stand for."""
    procedures: tuple[str, ...]
    """The teacher's procedures, `run` first."""
    depth: int
    """Frames on the deepest stack."""
    registers: int
    """Counters of nested `repeat`s."""


class Worlds(NamedTuple):
    """N worlds in arrays of one size; what lies outside a smaller world is wall."""

    cells: Int8[np.ndarray, "N rows columns"]
    robots: Int16[np.ndarray, "N 3"]
    """Row, column, orientation."""


class Runs(NamedTuple):
    """How a program ended on N worlds."""

    outcomes: Int8[np.ndarray, "N"]
    """Numbers of `interpreter.Outcome`."""
    lengths: Int32[np.ndarray, "N"]
    """Numbers of actions."""
    covered: Bool[np.ndarray, "N points"]
    final: Worlds


class Recording(NamedTuple):
    """The traces of N runs, one after another: S actions, S + N observations."""

    observations: Float[np.ndarray, "rows 4"]
    actions: Int32[np.ndarray, "S"]
    offsets: Int[np.ndarray, "N+1"]
    stacks: Int16[np.ndarray, "S depth"]
    kept: Int16[np.ndarray, "S"]


def compile_program(program: Program) -> Code:
    """The program as a table of instructions, with its coverage points and procedures."""
    compiler = _Compiler(program)
    compiler.block(program.body, ())
    compiler.emit(kernels.HALT)
    return Code(
        instructions=np.array(compiler.instructions, dtype=np.int32),
        points=compiler.points,
        procedures=tuple(compiler.procedures.values()),
        depth=compiler.depth,
        registers=compiler.registers,
    )


def run(code: Code, worlds: Worlds) -> Runs:
    """Run a program on each of the worlds, without keeping the traces."""
    count = len(worlds.robots)
    covered = np.zeros((count, len(code.points)), dtype=np.bool_)
    outcomes, lengths = np.zeros(count, dtype=np.int8), np.zeros(count, dtype=np.int32)
    final = Worlds(worlds.cells.copy(), worlds.robots.copy())
    kernels.run_all(
        code.instructions, code.depth, code.registers, MAX_EVENTS, final.cells, final.robots, outcomes, lengths, covered
    )
    return Runs(outcomes=outcomes, lengths=lengths, covered=covered, final=final)


def record(code: Code, worlds: Worlds, lengths: Int32[np.ndarray, "N"]) -> Recording:
    """Run again, on worlds whose runs have these lengths, and keep the traces."""
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    total = int(offsets[-1])
    recording = Recording(
        observations=np.zeros((total + len(lengths), 4), dtype=np.float32),
        actions=np.zeros(total, dtype=np.int32),
        offsets=offsets,
        stacks=np.full((total, code.depth), -1, dtype=np.int16),
        kept=np.zeros(total, dtype=np.int16),
    )
    kernels.record_all(
        code.instructions, code.depth, code.registers, MAX_EVENTS, worlds.cells.copy(), worlds.robots.copy(), *recording
    )
    return recording


class _Compiler:
    """Emits instructions in the order of the source; it fills in a jump forward when it reaches the target."""

    def __init__(self, program: Program) -> None:
        self.points = coverage_points(program)
        self.point_numbers = {(p.path, p.outcome): number for number, p in enumerate(self.points)}
        self.procedures = procedure_names(program)
        self.procedure_numbers = {key: number for number, key in enumerate(self.procedures)}
        self.instructions: list[list[int]] = []
        self.depth = self.frames = 1
        self.registers = self.loops = 0

    def emit(self, operation: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        self.instructions.append([operation, a, b, c])
        return len(self.instructions) - 1

    def aim(self, instruction: int) -> None:
        """Let the jump in `instruction` lead to what comes next."""
        self.instructions[instruction][2] = len(self.instructions)

    def block(self, block: Block, path: Path, first: int = 0) -> None:
        for number, statement in enumerate(block, start=first):
            self.statement(statement, (*path, number))

    def procedure(self, keyword: str, block: Block, path: Path, first: int = 0) -> None:
        self.emit(kernels.CALL, self.procedure_numbers[path, keyword])
        self.frames += 1
        self.depth = max(self.depth, self.frames)
        self.block(block, path, first)
        self.frames -= 1
        self.emit(kernels.RETURN)

    def statement(self, statement: Statement, path: Path) -> None:
        point = self.point_numbers[path, None]
        if isinstance(statement, Action):
            self.emit(kernels.ACT, ACTIONS.index(statement.name), 0, point)
        elif isinstance(statement, If):
            unless = self.branch(statement, point)
            self.procedure("if", statement.then, path)
            if statement.otherwise is None:
                self.aim(unless)
            else:
                end = self.emit(kernels.JUMP)
                self.aim(unless)
                self.procedure("else", statement.otherwise, path, first=len(statement.then))
                self.aim(end)
        elif isinstance(statement, While):
            unless = self.branch(statement, point)
            self.procedure("while", statement.body, path)
            self.emit(kernels.JUMP, 0, unless)
            self.aim(unless)
        elif isinstance(statement, Repeat):
            # More rounds than events cannot be run anyway, and the number must fit a register.
            self.emit(kernels.SET, self.loops, min(rounds(statement), MAX_EVENTS), point)
            loop = self.emit(kernels.LOOP, self.loops)
            self.loops += 1
            self.registers = max(self.registers, self.loops)
            self.procedure("repeat", statement.body, path)
            self.loops -= 1
            self.emit(kernels.JUMP, 0, loop)
            self.aim(loop)

    def branch(self, statement: If | While, point: int) -> int:
        condition = statement.condition
        return self.emit(kernels.BRANCH, 2 * PREDICATES.index(condition.predicate) + condition.negated, 0, point)
