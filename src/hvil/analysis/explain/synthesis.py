"""The smallest structured program that does what is demanded: bottom-up search over blocks, up to their meaning.

What is demanded is a `Demands` machine: situations, the step wanted in each, and the situations that may follow. A
block's meaning is, for each situation it is started in, the set of situations it may end in, or failure, if it would
take a step that is not wanted. Blocks of the same meaning are one block, the smallest; so few remain. Sets of
situations are bit masks. Noise and numbers are left to `refinement`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hvil.analysis.explain.syntax import Block, Comparison, Condition, If, Statement, Step, While, literal

EASY = 1_500
"""With more blocks than this, the first program found is good enough."""
PAIRED = 60
"""Situations after a first statement that are looked at when the search has failed."""
END = -1
"""What is wanted in a situation where the procedure returns."""


class Demands(NamedTuple):
    """What a program has to do."""

    wanted: Sequence[int]
    """The step wanted in each situation, or `END`."""
    following: Sequence[int]
    """The situations that were seen after that step."""
    starts: int
    """Where an invocation may begin."""
    tests: Sequence[Comparison]
    truth: Sequence[int]
    """For each test, the situations in which it holds."""

    @property
    def everything(self) -> int:
        """All situations."""
        return (1 << len(self.wanted)) - 1

    @property
    def ends(self) -> int:
        """The situations in which the procedure returns."""
        return sum(1 << i for i, step in enumerate(self.wanted) if step == END)


class Meaning(NamedTuple):
    """What a block does."""

    images: tuple[int, ...]
    """For each situation, those in which the block may end; 0 where it fails."""
    fails: int
    """Situations in which it would take a step that is not wanted."""
    idle: int
    """Situations in which it does nothing."""


class Found(NamedTuple):
    """A block of the search."""

    block: Block
    meaning: Meaning


class Budget(NamedTuple):
    """When to give up."""

    size: int = 8
    """Statements."""
    blocks: int = 12_000
    """Blocks of different meaning."""


def bits(mask: int) -> Iterator[int]:
    """The situations in a set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def nothing(demands: Demands) -> Meaning:
    """The empty block."""
    return Meaning(tuple(1 << i for i in range(len(demands.wanted))), 0, demands.everything)


def step_meaning(demands: Demands, step: int) -> Meaning:
    """One step."""
    right = [wanted == step for wanted in demands.wanted]
    images = tuple(following if ok else 0 for ok, following in zip(right, demands.following, strict=True))
    return Meaning(images, sum(1 << i for i, ok in enumerate(right) if not ok), 0)


def sequence(first: Meaning, second: Meaning) -> Meaning:
    """One after the other."""
    images, fails = list(first.images), first.fails
    for i, image in enumerate(first.images):
        if image & second.fails:
            fails |= 1 << i
            images[i] = 0
        elif image:
            images[i] = union(second.images, image)
    return Meaning(tuple(images), fails, first.idle & second.idle)


def union(images: Sequence[int], mask: int) -> int:
    """The situations that may follow those of a set."""
    result = 0
    while mask:
        low = mask & -mask
        result |= images[low.bit_length() - 1]
        mask ^= low
    return result


def choice(true: int, then: Meaning, otherwise: Meaning) -> Meaning:
    """`if` with an `else`."""
    images = tuple(
        a if true >> i & 1 else b for i, (a, b) in enumerate(zip(then.images, otherwise.images, strict=True))
    )
    return Meaning(
        images, (then.fails & true) | (otherwise.fails & ~true), (then.idle & true) | (otherwise.idle & ~true)
    )


def loop(true: int, body: Meaning, everything: int) -> Meaning:
    """`while`: where the body fails, or would do nothing for ever, it fails."""
    bad = true & (body.fails | body.idle)
    while True:
        worse = bad
        for i in bits(true & ~bad):
            if body.images[i] & bad:
                worse |= 1 << i
        if worse == bad:
            break
        bad = worse
    images = [0 if bad >> i & 1 else 1 << i for i in range(len(body.images))]
    going = true & ~bad
    reach = {i: body.images[i] for i in bits(going)}
    changed = True
    while changed:
        changed = False
        for i, image in reach.items():
            inner = image & going
            grown = image
            while inner:
                low = inner & -inner
                grown |= reach[low.bit_length() - 1]
                inner ^= low
            if grown != image:
                reach[i] = grown
                changed = True
    for i, image in reach.items():
        images[i] = image & ~true
    return Meaning(tuple(images), bad, everything & ~true)


def meaning_of(demands: Demands, block: Block) -> Meaning | None:
    """The meaning of any block over the machine's tests; None if it uses a test that the machine does not know."""
    result = nothing(demands)
    for statement in block:
        inner = _statement_meaning(demands, statement)
        if inner is None:
            return None
        result = sequence(result, inner)
    return result


def _statement_meaning(demands: Demands, statement: Statement) -> Meaning | None:
    if isinstance(statement, Step):
        return step_meaning(demands, statement.step)
    if isinstance(statement, If | While):
        true = truth_of(demands, statement.condition)
        if true is None:
            return None
        if isinstance(statement, While):
            body = meaning_of(demands, statement.body)
            return None if body is None else loop(true, body, demands.everything)
        then, otherwise = meaning_of(demands, statement.then), meaning_of(demands, statement.otherwise)
        return None if then is None or otherwise is None else choice(true, then, otherwise)
    return None


def truth_of(demands: Demands, condition: Condition) -> int | None:
    """The situations in which a condition holds."""
    result = 0
    for clause in condition.clauses:
        true = demands.everything
        for part in clause:
            if part.test not in demands.tests:
                return None
            holds = demands.truth[list(demands.tests).index(part.test)]
            true &= ~holds if part.negated else holds
        result |= true
    return result


class Goal(NamedTuple):
    """Steps that come first in any case, and where they lead."""

    prefix: Block
    starts: int


def synthesise(demands: Demands, library: Sequence[Found] = (), budget: Budget | None = None) -> Block | None:
    """The smallest program that takes the wanted steps and ends where wanted; None if the budget has none.

    Args:
        demands: what it has to do.
        library: calls whose bodies are known, tried before steps of the same size.
        budget: when to give up.
    """
    return _Search(demands, library, budget or Budget()).run()


class _Search:
    """Blocks by size; those with one statement apart."""

    def __init__(self, demands: Demands, library: Sequence[Found], budget: Budget) -> None:
        self.demands, self.budget, self.library = demands, budget, library
        self.everything, self.ends = demands.everything, demands.ends
        self.conditions = [
            (condition, true)
            for test, holds in zip(demands.tests, demands.truth, strict=True)
            for condition, true in (
                (literal(test), holds),
                (literal(test, negated=True), self.everything & ~holds),
            )
            if true not in (0, self.everything)
        ]
        self.statements: list[list[Found]] = [[]]
        self.blocks: list[list[Found]] = [[]]
        self.seen: set[tuple[tuple[int, ...], int]] = {(nothing(demands).images, 0)}
        self.goals = self._goals()
        self.best: tuple[int, Block] | None = None

    def _goals(self) -> list[Goal]:
        """What must come first: known calls and steps that are right wherever an invocation may begin."""
        goals = {self.demands.starts: Goal((), self.demands.starts)}
        pending = list(goals.values())
        for prefix, starts in pending:
            if len(prefix) == self.budget.size:
                break
            wanted = {self.demands.wanted[i] for i in bits(starts)}
            if END in wanted:
                continue
            options = [call for call in self.library if not starts & call.meaning.fails]
            if len(wanted) == 1:
                (step,) = wanted
                options.append(Found((Step(step),), step_meaning(self.demands, step)))
            for block, meaning in options:
                goal = Goal(prefix + block, union(meaning.images, starts))
                if goal.starts not in goals:
                    goals[goal.starts] = goal
                    pending.append(goal)
        return sorted(goals.values(), key=lambda goal: len(goal.prefix))

    def run(self) -> Block | None:
        for goal in self.goals:
            if not goal.starts & ~self.ends:
                return goal.prefix
        for size in range(1, self.budget.size + 1):
            self.statements.append([])
            self.blocks.append([])
            for found in self._candidates(size):
                self._consider(found, size)
                if len(self.seen) > self.budget.blocks:
                    break
            if self._enough(size) or len(self.seen) > self.budget.blocks:
                break
        if self.best is None:
            self._pairs()
        return None if self.best is None else self.best[1]

    def _enough(self, size: int) -> bool:
        """Whether the best is the smallest, or to know it would take too long."""
        return self.best is not None and (self.best[0] <= size + 1 or len(self.seen) > EASY)

    def _candidates(self, size: int) -> Iterator[Found]:
        if size == 1:
            yield from self.library
            for step in sorted(set(self.demands.wanted) - {END}):
                yield Found((Step(step),), step_meaning(self.demands, step))
            return
        idle = nothing(self.demands)
        for inner in self.blocks[size - 1]:
            acts = self._acts(inner)
            for condition, true in self.conditions:
                if acts & true:
                    yield Found((If(condition, inner.block),), choice(true, inner.meaning, idle))
                    yield Found((While(condition, inner.block),), loop(true, inner.meaning, self.everything))
        for left in range(1, size - 1):
            for one in self.blocks[left]:
                acts = self._acts(one)
                useful = [(condition, true) for condition, true in self.conditions[::2] if acts & true]
                for two in self.blocks[size - 1 - left]:
                    others = self._acts(two)
                    for condition, true in useful:
                        if others & ~true:
                            meaning = choice(true, one.meaning, two.meaning)
                            yield Found((If(condition, one.block, two.block),), meaning)
        for left in range(1, size):
            for one in self.statements[left]:
                for two in self.blocks[size - left]:
                    yield Found(one.block + two.block, sequence(one.meaning, two.meaning))

    def _acts(self, found: Found) -> int:
        """Where a block does something, and nothing wrong."""
        return self.everything & ~found.meaning.fails & ~found.meaning.idle

    def _consider(self, found: Found, size: int) -> None:
        meaning = found.meaning
        acts = self._acts(found)
        key = (meaning.images, meaning.fails)
        if not acts or key in self.seen:
            return
        self.seen.add(key)
        self.blocks[size].append(found)
        if len(found.block) == 1:
            self.statements[size].append(found)
        for goal in self.goals:
            total = size + len(goal.prefix)
            if self.best is not None and total >= self.best[0]:
                break
            if self._reaches(goal.starts, meaning):
                self.best = total, goal.prefix + found.block
            elif self.best is None or total + 1 < self.best[0]:
                # Programs often end with a loop: look one statement ahead, where that is cheap.
                for condition, true in self.conditions:
                    if acts & true & goal.starts and self._loops(goal.starts, true, meaning):
                        self.best = total + 1, (*goal.prefix, While(condition, found.block))
                        break

    def _loops(self, starts: int, true: int, body: Meaning) -> bool:
        """Whether `while` with this body, from the starts on, ends where wanted."""
        reached, new = starts, starts
        bad = body.fails | body.idle
        while new:
            if new & true & bad or new & ~true & ~self.ends:
                return False
            new = union(body.images, new & true) & ~reached
            reached |= new
        return True

    def _reaches(self, starts: int, meaning: Meaning) -> bool:
        return not starts & meaning.fails and not union(meaning.images, starts) & ~self.ends

    def _pairs(self) -> None:
        """One statement more than the search could afford: any statement, then any small block."""
        everything = [(size, found) for size, level in enumerate(self.blocks) for found in level]
        images: dict[int, tuple[int, Block]] = {}
        for goal in self.goals:
            for size, found in everything:
                if len(images) < PAIRED and len(found.block) == 1 and not goal.starts & found.meaning.fails:
                    image = union(found.meaning.images, goal.starts)
                    images.setdefault(image, (size + len(goal.prefix), goal.prefix + found.block))
        for image, (cost, block) in images.items():
            for size, found in everything[:EASY]:
                if self.best is not None and cost + size >= self.best[0]:
                    break
                if self._reaches(image, found.meaning):
                    self.best = cost + size, block + found.block
