"""Runs a Karel program on a world, in plain Python: the specification of the language's meaning.

It reports how a run ended and what it covered. Batches of runs are left to `compiler` and `kernels`, which tests
compare with this.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from hvil.domains.karel.printer import describe
from hvil.domains.karel.syntax import (
    ACTIONS,
    Action,
    Block,
    If,
    Path,
    Program,
    Repeat,
    Statement,
    While,
    rounds,
)
from hvil.domains.karel.world import Crash, World

MAX_EVENTS = 1_000
"""Actions plus conditions; a run that reaches this many is stopped and counts as not terminating."""


Body = tuple[Path, str]
"""A loop body or branch: the path of its statement, and the keyword before it."""
ROOT: Body = ((), "run")


class Outcome(IntEnum):
    """How a run ended."""

    FINISHED = 0
    CRASHED = 1
    UNFINISHED = 2


@dataclass
class Execution:
    """What happened in a run."""

    outcome: Outcome = Outcome.FINISHED
    report: str = ""
    """For people: how it ended, and where in the program and the world."""
    events: int = 0
    actions: list[int] = field(default_factory=list)
    """The actions that succeeded; a crash is not among them."""
    observations: list[tuple[bool, bool, bool, bool]] = field(default_factory=list)
    """What the robot sensed before each action, and at the end."""
    stacks: list[tuple[str, ...]] = field(default_factory=list)
    """The procedures that were running at each action, from `run` on."""
    kept: list[int] = field(default_factory=list)
    """How many frames of that stack are the same invocations as at the action before (1 at the first)."""
    covered: set[tuple[Path, bool | None]] = field(default_factory=set)
    """The statements that were executed (None) and the outcomes that their conditions took."""


class _Stopped(Exception):
    """The run is over before the end of the program."""


def execute(program: Program, world: World, max_events: int = MAX_EVENTS) -> Execution:
    """Run `program` on `world`, which changes: pass a copy to keep the world, or an environment's world to drive it."""
    run = _Run(world, max_events, procedure_names(program))
    try:
        run.block(program.body, ())
        run.result.report = f"finished after {len(run.result.actions)} actions"
    except _Stopped:
        pass
    run.result.observations.append(world.observation())
    return run.result


def procedure_names(program: Program) -> dict[Body, str]:
    """The procedures of the teacher: `run`, then one a loop body or branch, keyed by statement and keyword.

    They are named by keyword and number, in the order of the source: `while_1`, `if_1`, `else_1`.
    """
    names: dict[Body, str] = {ROOT: "run"}
    counts: dict[str, int] = {}
    for body, _ in _bodies(program.body, ROOT):
        keyword = body[1]
        counts[keyword] = counts.get(keyword, 0) + 1
        names[body] = f"{keyword}_{counts[keyword]}"
    return names


def procedure_calls(program: Program) -> dict[str, list[str]]:
    """For each procedure of the teacher, by name, those it may call: the bodies directly inside it."""
    names = procedure_names(program)
    calls: dict[str, list[str]] = {name: [] for name in names.values()}
    for body, owner in _bodies(program.body, ROOT):
        calls[names[owner]].append(names[body])
    return calls


def _bodies(block: Block, owner: Body, first: int = 0) -> Iterator[tuple[Body, Body]]:
    """The loop bodies and branches in a block, each with the one that it stands directly inside."""
    for number, statement in enumerate(block, start=first):
        here = (*owner[0], number)
        if isinstance(statement, If):
            yield (here, "if"), owner
            yield from _bodies(statement.then, (here, "if"))
            if statement.otherwise is not None:
                yield (here, "else"), owner
                yield from _bodies(statement.otherwise, (here, "else"), first=len(statement.then))
        elif isinstance(statement, (While, Repeat)):
            body = here, "while" if isinstance(statement, While) else "repeat"
            yield body, owner
            yield from _bodies(statement.body, body)


class _Run:
    """The state of one run: the world, the events so far, the stack of procedures."""

    def __init__(self, world: World, max_events: int, names: dict[Body, str]) -> None:
        self.world = world
        self.max_events = max_events
        self.names = names
        self.result = Execution()
        self.stack = ["run"]
        # How many frames are the same invocations as at the action before. An invocation that takes no action leaves
        # no mark, because a procedure of the policy cannot return without acting.
        self.kept = 1

    def block(self, block: Block, path: Path, first: int = 0) -> None:
        for number, statement in enumerate(block, start=first):
            self.statement(statement, (*path, number))

    def procedure(self, keyword: str, block: Block, path: Path, first: int = 0) -> None:
        self.stack.append(self.names[path, keyword])
        self.block(block, path, first)
        self.stack.pop()
        self.kept = min(self.kept, len(self.stack))

    def statement(self, statement: Statement, path: Path) -> None:
        self.result.covered.add((path, None))
        if isinstance(statement, Action):
            self.action(statement)
        elif isinstance(statement, If):
            if self.condition(statement, path):
                self.procedure("if", statement.then, path)
            elif statement.otherwise is not None:
                self.procedure("else", statement.otherwise, path, first=len(statement.then))
        elif isinstance(statement, While):
            while self.condition(statement, path):
                self.procedure("while", statement.body, path)
        elif isinstance(statement, Repeat):
            for _ in range(rounds(statement)):
                self.procedure("repeat", statement.body, path)

    def action(self, statement: Action) -> None:
        observation = self.world.observation()
        try:
            self.world.perform(ACTIONS.index(statement.name))
        except Crash as crash:
            self.result.events += 1
            self.stop(Outcome.CRASHED, f"crashed at {statement.position}: {crash}")
        self.result.observations.append(observation)
        self.result.actions.append(ACTIONS.index(statement.name))
        self.result.stacks.append(tuple(self.stack))
        self.result.kept.append(self.kept)
        self.kept = len(self.stack)
        self.event(statement)

    def condition(self, statement: If | While, path: Path) -> bool:
        outcome = self.world.holds(statement.condition.predicate) != statement.condition.negated
        self.result.covered.add((path, outcome))
        self.event(statement)
        return outcome

    def event(self, statement: Statement) -> None:
        self.result.events += 1
        if self.result.events >= self.max_events:
            where = f"`{describe(statement)}` at {statement.position}"
            self.stop(Outcome.UNFINISHED, f"did not terminate: stopped after {self.max_events} events in {where}")

    def stop(self, outcome: Outcome, report: str) -> None:
        self.result.outcome = outcome
        self.result.report = f"{report}, after {len(self.result.actions)} actions"
        raise _Stopped
