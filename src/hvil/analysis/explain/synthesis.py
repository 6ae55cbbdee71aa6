"""Searches for the smallest structured program that meets some demands.

The search makes blocks of smaller blocks, in the order of their size. Of all blocks with the same meaning it remembers
only the first, a smallest one, so few remain. Noise is left to `demands`, exact conditions are left to `refinement`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hvil.analysis.explain.meaning import (
    Demands,
    Fragment,
    Meaning,
    bits,
    branch_meaning,
    empty_meaning,
    loop_meaning,
    sequence_meaning,
    step_meaning,
    union,
)
from hvil.analysis.explain.program import Block, Condition, If, Step, While, literal

SIZE_LIMIT = 8
"""Statements of the largest blocks: there are too many larger ones to look at."""
BLOCK_LIMIT = 12_000
"""Blocks of different meanings after which the search gives up."""
PROOF_BLOCKS = 1_500
"""After its first program the search goes on, to prove that none is smaller, only up to this many blocks.

A level of the search is several times larger than the one before, so the proof can cost far more than the program."""
PAIR_STARTS = 60
"""After a search without a result, first statements are tried only up to this many different outcomes.

Each is combined with `PROOF_BLOCKS` blocks, so that the last attempt looks at no more than 90,000 programs."""


class Opening(NamedTuple):
    """Steps that a program can begin with, whatever comes after them."""

    prefix: Block
    starts: int
    """The situations that the prefix leads to, in which the rest of the program starts."""


class SizedBlock(NamedTuple):
    """A block and its number of statements."""

    size: int
    block: Block


def synthesise(
    demands: Demands,
    library: Sequence[Fragment] = (),
    *,
    size_limit: int = SIZE_LIMIT,
    block_limit: int | None = None,
) -> Block | None:
    """The smallest program that takes the wanted steps and ends where it should; None if the search gives up.

    Args:
        demands: what the program has to do.
        library: calls with the meaning of what they do; they are tried before steps of the same size.
        size_limit: statements of the largest blocks.
        block_limit: blocks after which the search gives up; by default `BLOCK_LIMIT`.
    """
    return _Search(demands, library, size_limit, BLOCK_LIMIT if block_limit is None else block_limit).run()


class _Search:
    """All blocks so far, by size; those of one statement also apart."""

    def __init__(self, demands: Demands, library: Sequence[Fragment], size_limit: int, block_limit: int) -> None:
        self.demands, self.library = demands, library
        self.size_limit, self.block_limit = size_limit, block_limit
        self.everything, self.ends = demands.everything, demands.ends
        useful = [
            (test, holds)
            for test, holds in zip(demands.tests, demands.truth, strict=True)
            if holds not in (0, self.everything)
        ]
        self.tests = [(literal(test), holds) for test, holds in useful]
        self.conditions: list[tuple[Condition, int]] = [
            option
            for test, holds in useful
            for option in ((literal(test), holds), (literal(test, negated=True), self.everything & ~holds))
        ]
        self.statements: list[list[Fragment]] = [[]]
        self.blocks: list[list[Fragment]] = [[]]
        self.meanings: set[tuple[tuple[int, ...], int]] = {(empty_meaning(demands).images, 0)}
        self.openings = self._openings()
        self.best: SizedBlock | None = None
        """The smallest program so far that meets the demands."""

    def _openings(self) -> list[Opening]:
        """All openings, the shortest first: calls and steps that are right wherever an invocation may have come to.

        Of the openings that lead to the same situations, only the first is kept.
        """
        openings = {self.demands.starts: Opening((), self.demands.starts)}
        pending = list(openings.values())
        for prefix, starts in pending:
            if len(prefix) == self.size_limit:
                break
            wanted = {self.demands.wanted[i] for i in bits(starts)}
            if self.demands.terminate in wanted:
                continue
            options = [call for call in self.library if not starts & call.meaning.fails]
            if len(wanted) == 1:
                (step,) = wanted
                options.append(Fragment((Step(step),), step_meaning(self.demands, step)))
            for block, meaning in options:
                opening = Opening(prefix + block, union(meaning.images, starts))
                if opening.starts not in openings:
                    openings[opening.starts] = opening
                    pending.append(opening)
        return sorted(openings.values(), key=lambda opening: len(opening.prefix))

    def run(self) -> Block | None:
        """Look at blocks of growing size until a program is good enough or a limit is reached."""
        for opening in self.openings:
            if not opening.starts & ~self.ends:
                return opening.prefix
        for size in range(1, self.size_limit + 1):
            self.statements.append([])
            self.blocks.append([])
            for fragment in self._fragments(size):
                self._consider(fragment, size)
                if len(self.meanings) > self.block_limit:
                    break
            if self._is_done(size) or len(self.meanings) > self.block_limit:
                break
        if self.best is None:
            self._try_pairs()
        return None if self.best is None else self.best.block

    def _is_done(self, size: int) -> bool:
        """Whether the best program is the smallest, or a proof of that would take too long.

        All programs up to this size have been seen, so one that is larger by one statement is a smallest one.
        """
        return self.best is not None and (self.best.size <= size + 1 or len(self.meanings) > PROOF_BLOCKS)

    def _fragments(self, size: int) -> Iterator[Fragment]:
        """All blocks of a size that can be made of smaller ones."""
        if size == 1:
            yield from self.library
            for step in sorted(set(self.demands.wanted) - {self.demands.terminate}):
                yield Fragment((Step(step),), step_meaning(self.demands, step))
            return
        yield from self._wrapped(size)
        yield from self._branches(size)
        for first_size in range(1, size):
            for first in self.statements[first_size]:
                for second in self.blocks[size - first_size]:
                    yield Fragment(first.block + second.block, sequence_meaning(first.meaning, second.meaning))

    def _wrapped(self, size: int) -> Iterator[Fragment]:
        """`if` without `else`, and `while`."""
        nothing = empty_meaning(self.demands)
        for inner in self.blocks[size - 1]:
            acts = self._acts(inner)
            for condition, true in self.conditions:
                if acts & true:
                    yield Fragment((If(condition, inner.block),), branch_meaning(true, inner.meaning, nothing))
                    yield Fragment((While(condition, inner.block),), loop_meaning(true, inner.meaning, self.everything))

    def _branches(self, size: int) -> Iterator[Fragment]:
        """`if` with `else`. Only plain tests are asked: a negated one is the same with its branches exchanged."""
        for then_size in range(1, size - 1):
            for then in self.blocks[then_size]:
                acts = self._acts(then)
                useful = [(condition, true) for condition, true in self.tests if acts & true]
                for otherwise in self.blocks[size - 1 - then_size]:
                    acts_otherwise = self._acts(otherwise)
                    for condition, true in useful:
                        if acts_otherwise & ~true:
                            meaning = branch_meaning(true, then.meaning, otherwise.meaning)
                            yield Fragment((If(condition, then.block, otherwise.block),), meaning)

    def _acts(self, fragment: Fragment) -> int:
        """The situations in which a block does something, and nothing wrong."""
        return self.everything & ~fragment.meaning.fails & ~fragment.meaning.idle

    def _consider(self, fragment: Fragment, size: int) -> None:
        """Remember a block whose meaning is new, and see whether it completes a program."""
        meaning = fragment.meaning
        acts = self._acts(fragment)
        key = (meaning.images, meaning.fails)
        if not acts or key in self.meanings:
            return
        self.meanings.add(key)
        self.blocks[size].append(fragment)
        if len(fragment.block) == 1:
            self.statements[size].append(fragment)
        for opening in self.openings:
            total = size + len(opening.prefix)
            if self.best is not None and total >= self.best.size:
                break
            if self._reaches_end(opening.starts, meaning):
                self.best = SizedBlock(total, opening.prefix + fragment.block)
            elif self.best is None or total + 1 < self.best.size:
                # Many programs end with a loop. Trying the block as its body is cheap and saves a level of the search.
                for condition, true in self.conditions:
                    if acts & true & opening.starts and self._loop_reaches_end(opening.starts, true, meaning):
                        self.best = SizedBlock(total + 1, (*opening.prefix, While(condition, fragment.block)))
                        break

    def _reaches_end(self, starts: int, meaning: Meaning) -> bool:
        """Whether a block leads from the starts to where the procedure returns."""
        return not starts & meaning.fails and not union(meaning.images, starts) & ~self.ends

    def _loop_reaches_end(self, starts: int, true: int, body: Meaning) -> bool:
        """Whether `while` with this body leads from the starts to where the procedure returns."""
        reached, new = starts, starts
        bad = body.fails | body.idle
        while new:
            if new & true & bad or new & ~true & ~self.ends:
                return False
            new = union(body.images, new & true) & ~reached
            reached |= new
        return True

    def _try_pairs(self) -> None:
        """Combine a statement with a small block: programs larger than any that the search has come to."""
        sized = [(size, fragment) for size, level in enumerate(self.blocks) for fragment in level]
        beginnings: dict[int, SizedBlock] = {}  # by the situations that they lead to
        for opening in self.openings:
            for size, fragment in sized:
                if len(beginnings) == PAIR_STARTS:
                    break
                if len(fragment.block) == 1 and not opening.starts & fragment.meaning.fails:
                    image = union(fragment.meaning.images, opening.starts)
                    beginnings.setdefault(
                        image, SizedBlock(size + len(opening.prefix), opening.prefix + fragment.block)
                    )
        for image, beginning in beginnings.items():
            for size, fragment in sized[:PROOF_BLOCKS]:
                total = beginning.size + size
                if self.best is not None and total >= self.best.size:
                    break
                if self._reaches_end(image, fragment.meaning):
                    self.best = SizedBlock(total, beginning.block + fragment.block)
