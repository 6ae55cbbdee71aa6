"""What a program has to do (`Demands`), and what a block of statements does about it (`Meaning`).

`demands` makes the first from what a policy did; `synthesis` searches among blocks by the second. Situations are
numbered, and sets of situations are bit masks: bit i stands for situation i.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hvil.analysis.explain.program import Block, Comparison, Condition, If, Statement, Step, While


class Demands(NamedTuple):
    """A machine of situations: the step that is wanted in each, and the situations that may follow."""

    wanted: Sequence[int]
    """The step that is wanted in each situation."""
    following: Sequence[int]
    """The situations that were seen after that step; none after ∅."""
    starts: int
    """The situations in which an invocation may begin."""
    tests: Sequence[Comparison]
    truth: Sequence[int]
    """For each test, the situations in which it holds."""
    terminate: int
    """The step that stands for ∅: in a situation where it is wanted, the procedure returns."""

    @property
    def everything(self) -> int:
        """All situations."""
        return (1 << len(self.wanted)) - 1

    @property
    def ends(self) -> int:
        """The situations in which the procedure returns."""
        return sum(1 << i for i, step in enumerate(self.wanted) if step == self.terminate)


class Meaning(NamedTuple):
    """What a block does in each situation."""

    images: tuple[int, ...]
    """For each situation that the block starts in, those that it may end in; 0 where it fails."""
    fails: int
    """The situations in which it would take a step that is not wanted, or never come to an end."""
    idle: int
    """The situations in which it does nothing."""


class Fragment(NamedTuple):
    """A block and its meaning."""

    block: Block
    meaning: Meaning


def bits(mask: int) -> Iterator[int]:
    """The situations in a set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def union(images: Sequence[int] | Mapping[int, int], mask: int) -> int:
    """The union of the images of a set's situations."""
    # The search spends most of its time here: `bits` written out is faster than the generator.
    result = 0
    while mask:
        low = mask & -mask
        result |= images[low.bit_length() - 1]
        mask ^= low
    return result


def empty_meaning(demands: Demands) -> Meaning:
    """The meaning of the empty block."""
    images = tuple(1 << i for i in range(len(demands.wanted)))
    return Meaning(images=images, fails=0, idle=demands.everything)


def step_meaning(demands: Demands, step: int) -> Meaning:
    """The meaning of one step."""
    right = [wanted == step for wanted in demands.wanted]
    images = tuple(following if ok else 0 for ok, following in zip(right, demands.following, strict=True))
    return Meaning(images=images, fails=sum(1 << i for i, ok in enumerate(right) if not ok), idle=0)


def sequence_meaning(first: Meaning, second: Meaning) -> Meaning:
    """The meaning of one block after another."""
    images, fails = list(first.images), first.fails
    for i, image in enumerate(first.images):
        if image & second.fails:
            fails |= 1 << i
            images[i] = 0
        elif image:
            images[i] = union(second.images, image)
    return Meaning(images=tuple(images), fails=fails, idle=first.idle & second.idle)


def branch_meaning(true: int, then: Meaning, otherwise: Meaning) -> Meaning:
    """The meaning of `if` with an `else`; `true` are the situations in which the condition holds."""
    images = tuple(
        a if true >> i & 1 else b for i, (a, b) in enumerate(zip(then.images, otherwise.images, strict=True))
    )
    return Meaning(
        images=images,
        fails=(then.fails & true) | (otherwise.fails & ~true),
        idle=(then.idle & true) | (otherwise.idle & ~true),
    )


def loop_meaning(true: int, body: Meaning, everything: int) -> Meaning:
    """The meaning of `while`: it fails where it may come to a round that fails, or that does nothing for ever."""
    fails = _may_reach(true & (body.fails | body.idle), true, body)
    going = true & ~fails
    ends = _closure({i: body.images[i] for i in bits(going)}, going)
    images = [0 if fails >> i & 1 else 1 << i for i in range(len(body.images))]
    for i, image in ends.items():
        images[i] = image & ~true
    return Meaning(images=tuple(images), fails=fails, idle=everything & ~true)


def _may_reach(bad: int, true: int, body: Meaning) -> int:
    """The situations from which rounds of a loop may lead to a bad one, these included."""
    while True:
        grown = bad
        for i in bits(true & ~bad):
            if body.images[i] & bad:
                grown |= 1 << i
        if grown == bad:
            return bad
        bad = grown


def _closure(reach: dict[int, int], going: int) -> dict[int, int]:
    """For each situation in which a loop goes on, all that one or more rounds may lead to.

    Args:
        reach: for each of them, what one round may lead to; it is changed.
        going: the same situations as a set.
    """
    changed = True
    while changed:
        changed = False
        for i, image in reach.items():
            grown = image | union(reach, image & going)
            if grown != image:
                reach[i] = grown
                changed = True
    return reach


def meaning_of(demands: Demands, block: Block) -> Meaning | None:
    """The meaning of any block; None if it asks a test that the demands do not have."""
    result = empty_meaning(demands)
    for statement in block:
        inner = _statement_meaning(demands, statement)
        if inner is None:
            return None
        result = sequence_meaning(result, inner)
    return result


def _statement_meaning(demands: Demands, statement: Statement) -> Meaning | None:
    if isinstance(statement, Step):
        return step_meaning(demands, statement.step)
    if isinstance(statement, If | While):
        true = _truth_of(demands, statement.condition)
        if true is None:
            return None
        if isinstance(statement, While):
            body = meaning_of(demands, statement.body)
            return None if body is None else loop_meaning(true, body, demands.everything)
        then, otherwise = (meaning_of(demands, block) for block in (statement.then, statement.otherwise))
        return None if then is None or otherwise is None else branch_meaning(true, then, otherwise)
    return None


def _truth_of(demands: Demands, condition: Condition) -> int | None:
    """The situations in which a condition holds; None if it asks a test that the demands do not have."""
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
