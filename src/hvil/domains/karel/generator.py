"""Draws random Karel worlds and keeps the runs that make good demonstrations.

Runs come in groups of five. A grid whose run crashes, does not terminate or takes no action is drawn again. A group is
kept if together its runs execute every statement and take both outcomes of every condition. Grids are drawn and run in
batches: since they are independent, cutting the stream of good runs into fives gives the same distribution as filling
one group after another.

Letters: N grids, K of them that are selected.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int16, Int32

from hvil.data.streams import random_generator
from hvil.domains.karel.compiler import Code, Recording, Worlds, compile_program, record, run
from hvil.domains.karel.interpreter import Outcome
from hvil.domains.karel.printer import describe_point
from hvil.domains.karel.syntax import Program
from hvil.domains.karel.world import MAX_MARKERS, WALL, World
from hvil.gate.errors import InputError

GROUP = 5
"""Demonstrations that together must cover the program."""
MIN_SIDE, MAX_SIDE = 2, 16
MAX_DRAWS = 100_000
"""Grids drawn without a new group before the generator gives up."""

_BATCH = 1_024
"""Grids drawn at a time. It is part of what a seed gives: another number draws other grids."""


class Grids(NamedTuple):
    """Random initial worlds."""

    worlds: Worlds
    sizes: Int16[np.ndarray, "N 2"]
    """Height and width inside the outer walls."""

    def take(self, index: Bool[np.ndarray, "N"] | Int[np.ndarray, "K"] | slice) -> "Grids":
        """Some of the grids."""
        return Grids(Worlds(self.worlds.cells[index], self.worlds.robots[index]), self.sizes[index])

    def world(self, index: int) -> World:
        """One of the grids, cut to its size."""
        return cut_world(self.worlds.cells[index], self.worlds.robots[index], self.sizes[index])


class Demonstrations(NamedTuple):
    """What the generator gives."""

    code: Code
    grids: Grids
    recording: Recording
    drawn: int
    """Random grids it took."""
    terminated: int
    """How many of them the program finished on without a crash."""


def cut_world(cells: np.ndarray, robot: np.ndarray, size: np.ndarray) -> World:
    """One world out of arrays of the common size."""
    row, column, orientation = (int(number) for number in robot)
    rows, columns = (int(number) + 2 for number in size)
    return World(cells[:rows, :columns].astype(np.int8), row, column, orientation)


def draw_grids(rng: np.random.Generator, count: int) -> Grids:
    """About `count` random worlds: the few without a free cell for the robot are left out."""
    sizes = rng.integers(MIN_SIDE, MAX_SIDE + 1, size=(count, 2))
    wall_ratio = _ratio(rng, count, low=0.32, high_limit=0.4)
    marker_ratio = _ratio(rng, count, low=0.25, high_limit=0.6)
    shape = (count, MAX_SIDE, MAX_SIDE)
    wall = rng.random(shape) < wall_ratio[:, None, None]
    marker = rng.random(shape) < marker_ratio[:, None, None]
    wall &= ~marker | (rng.random(shape) < 0.5)
    markers = np.minimum(rng.geometric(0.6, shape), MAX_MARKERS)
    side = np.arange(MAX_SIDE)
    inside = (side[:, None] < sizes[:, 0, None, None]) & (side < sizes[:, 1, None, None])
    free = inside & ~wall
    cells = np.full((count, MAX_SIDE + 2, MAX_SIDE + 2), WALL, dtype=np.int8)
    cells[:, 1:-1, 1:-1] = np.where(free, marker * markers, WALL)
    # The largest of independent random numbers is equally likely on each free cell: there the robot starts.
    starts = np.where(free, rng.random(shape), -1.0).reshape(count, -1).argmax(axis=1)
    robots = np.column_stack([starts // MAX_SIDE + 1, starts % MAX_SIDE + 1, rng.integers(4, size=count)])
    grids = Grids(Worlds(cells, robots.astype(np.int16)), sizes.astype(np.int16))
    return grids.take(np.flatnonzero(free.any(axis=(1, 2))))


def draw_world(rng: np.random.Generator, code: Code, max_draws: int = MAX_DRAWS) -> World:
    """A random world on which the program takes an action and finishes without a crash."""
    drawn = 0
    while drawn < max_draws:
        grids = draw_grids(rng, 16)
        runs = run(code, grids.worlds)
        good = np.flatnonzero((runs.outcomes == Outcome.FINISHED) & (runs.lengths > 0))
        if len(good):
            return grids.world(int(good[0]))
        drawn += len(runs.outcomes)
    raise InputError(f"gave up after {max_draws:,} random grids: on none the program acts and finishes")


def generate(
    program: Program,
    count: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
    max_draws: int = MAX_DRAWS,
) -> Demonstrations:
    """`count` demonstrations of `program`; the last group is cut if `count` is no multiple of five.

    Raises:
        InputError: `max_draws` grids gave no new group; the message names what was never reached.
    """
    if count < 1:
        raise InputError(f"{count} demonstrations: expected at least 1")
    code, rng = compile_program(program), random_generator(seed)
    search = _Search(code)
    since = 0
    while search.ready < count:
        before = search.ready
        since += search.add(draw_grids(rng, _BATCH))
        if search.ready > before:
            since = 0
            if progress is not None:
                progress(min(search.ready, count))
        elif since >= max_draws:
            raise InputError(search.complaint(since))
    grids = _joined([grids for grids, _ in search.groups]).take(slice(count))
    lengths = np.concatenate([lengths for _, lengths in search.groups])[:count]
    return Demonstrations(
        code=code,
        grids=grids,
        recording=record(code, grids.worlds, lengths),
        drawn=search.drawn,
        terminated=search.terminated,
    )


@dataclass
class _Search:
    """The groups so far, good runs that await the rest of their group, and counts for the error message."""

    code: Code
    groups: list[tuple[Grids, Int32[np.ndarray, "K"]]] = field(default_factory=list)
    ready: int = 0
    drawn: int = 0
    terminated: int = 0
    crashed: int = 0
    waiting: tuple[Grids, Int32[np.ndarray, "K"], Bool[np.ndarray, "K points"]] | None = None
    reached: Int[np.ndarray, "points"] | None = None
    """How many good runs reached each coverage point."""
    good: int = 0

    def add(self, grids: Grids) -> int:
        """Run on new grids, keep the groups that cover the program, and return the number of grids."""
        runs = run(self.code, grids.worlds)
        finished = runs.outcomes == Outcome.FINISHED
        good = finished & (runs.lengths > 0)
        self.drawn += len(finished)
        self.terminated += int(finished.sum())
        self.crashed += int((runs.outcomes == Outcome.CRASHED).sum())
        self.good += int(good.sum())
        grids, lengths, covered = grids.take(good), runs.lengths[good], runs.covered[good]
        self.reached = covered.sum(axis=0) + (0 if self.reached is None else self.reached)
        if self.waiting is not None:
            grids = _joined([self.waiting[0], grids])
            lengths = np.concatenate([self.waiting[1], lengths])
            covered = np.concatenate([self.waiting[2], covered])
        whole = len(lengths) // GROUP * GROUP
        covers = covered[:whole].reshape(-1, GROUP, covered.shape[1]).any(axis=1).all(axis=1)
        members = np.flatnonzero(np.repeat(covers, GROUP))
        if len(members):
            self.groups.append((grids.take(members), lengths[members]))
            self.ready += len(members)
        rest = slice(whole, None)
        self.waiting = grids.take(rest), lengths[rest], covered[rest]
        return len(finished)

    def complaint(self, draws: int) -> str:
        """Why there is no new group, in one line."""
        head = f"gave up after {draws:,} random grids"
        if not self.good:
            unfinished = self.drawn - self.terminated - self.crashed
            return (
                f"{head}: no run was a demonstration ({self.crashed:,} crashed, {unfinished:,} did not terminate, "
                f"{self.terminated:,} took no action)"
            )
        assert self.reached is not None
        never = np.flatnonzero(self.reached == 0)
        if len(never):
            more = f" (and {len(never) - 1} more)" if len(never) > 1 else ""
            return f"{head}: {describe_point(self.code.points[never[0]])} was never reached{more}"
        rarest = int(self.reached.argmin())
        return (
            f"{head}: no {GROUP} runs together cover the program; {describe_point(self.code.points[rarest])} was "
            f"reached in only {self.reached[rarest]:,} of {self.good:,} runs"
        )


def _ratio(rng: np.random.Generator, count: int, low: float, high_limit: float) -> Float[np.ndarray, "N"]:
    """Share of cells with a wall or marker: mostly near 0.06, sometimes hardly any, rarely many."""
    kind = rng.random(count)
    few = rng.uniform(0.0, 0.04, count)
    many = rng.uniform(0.15, high_limit, count)
    usual = np.maximum(0.0, rng.normal(0.06, 0.025, count))
    return np.where(kind < low, few, np.where(kind < low + 0.04, many, usual))


def _joined(parts: list[Grids]) -> Grids:
    cells = np.concatenate([part.worlds.cells for part in parts])
    robots = np.concatenate([part.worlds.robots for part in parts])
    return Grids(Worlds(cells, robots), np.concatenate([part.sizes for part in parts]))
