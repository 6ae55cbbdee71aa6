"""PHP steps as data: the one form in which walks, inference, files and reports hold call structures.

What only some of them need (masks, probabilities, annotations) stands beside the steps, in a wrapper of its own.

Letters: S steps, N traces, U choices, M some of the steps.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from hvil.machine.callgraph import CallGraph


class Steps(NamedTuple):
    """The PHP steps of a set of traces: trace after trace, in the order in which they are taken."""

    row: Int[np.ndarray, "S"]
    """The row whose observation the step sees; rows count through all traces of the set."""
    procedure: Int[np.ndarray, "S"]
    """The procedure that takes the step: the top of the stack."""
    counter: Int[np.ndarray, "S"]
    """τ, how many steps its frame has taken before."""
    last: Int[np.ndarray, "S"]
    """The choice that its frame took last; -1 for none."""
    depth: Int[np.ndarray, "S"]
    """Height of the stack before the step; 1 for the root alone."""
    choice: Int[np.ndarray, "S"]
    """u, the step itself: an action, ∅ or a call (`CallGraph.terminate` has the numbering)."""
    offsets: Int[np.ndarray, "N_plus_1"]
    """The steps of trace i are `offsets[i]:offsets[i+1]`."""

    @property
    def trace(self) -> Int[np.ndarray, "S"]:
        """The trace of each step."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def time(self, row_offsets: Int[np.ndarray, "N_plus_1"]) -> Int[np.ndarray, "S"]:
        """The time of each step within its trace; `row_offsets` says where the rows of each trace begin."""
        return np.asarray(self.row - row_offsets[self.trace])


class Walk(NamedTuple):
    """The steps that the posterior took in its walks over some traces, and what was possible at each of them."""

    steps: Steps
    """Walk after walk. If a trace has several walks, `steps.offsets` and `steps.trace` count walks, not traces."""
    annotated: Bool[np.ndarray, "S"]
    """Whether the step came from an annotation and was not sampled."""
    posterior_possible: Bool[np.ndarray, "S U"]
    """The choices that the posterior's mask allows."""
    policy_possible: Bool[np.ndarray, "S U"]
    """The choices that the policy's mask allows."""


def most_steps(graph: CallGraph, lengths: Int[np.ndarray, "N"]) -> Int[np.ndarray, "N"]:
    """A bound on the PHP steps of traces of so many actions.

    At each action at most max_depth - 1 frames return and as many are called; at the end at most max_depth return.
    No trace reaches the bound, because nothing can return at its first action.
    """
    return lengths * (2 * graph.max_depth - 1) + graph.max_depth


def room_for_walk(graph: CallGraph, size: int, walks: int) -> Walk:
    """Arrays for at most `size` steps of so many walks, to be filled."""
    row, procedure, counter, last, depth, choice = (np.empty(size, dtype=np.int64) for _ in range(6))
    offsets = np.zeros(walks + 1, dtype=np.int64)
    return Walk(
        steps=Steps(row, procedure, counter, last, depth, choice, offsets),
        annotated=np.zeros(size, dtype=bool),
        posterior_possible=np.empty((size, graph.step_count), dtype=bool),
        policy_possible=np.empty((size, graph.step_count), dtype=bool),
    )


def selected(walk: Walk, which: slice | Int[np.ndarray, "M"]) -> Walk:
    """Only some of the steps, with the same offsets: the arrays without the room that the walks did not use."""
    steps = walk.steps
    return Walk(Steps._make([*(column[which] for column in steps[:-1]), steps.offsets]), *(a[which] for a in walk[1:]))


def joined(parts: Sequence[Steps]) -> Steps:
    """The steps of several sets of traces as those of one set, in the same order.

    The root returns at the last row of each trace, so a part's last step tells how many rows the part has.
    """
    first_rows = np.cumsum([0, *(int(part.row[-1]) + 1 for part in parts)])
    first_steps = np.cumsum([0, *(len(part.row) for part in parts)])
    columns = [np.concatenate(column) for column in zip(*(part[1:-1] for part in parts), strict=True)]
    rows = np.concatenate([part.row + first for part, first in zip(parts, first_rows, strict=False)])
    offsets = [part.offsets[1:] + first for part, first in zip(parts, first_steps, strict=False)]
    return Steps._make([rows, *columns, np.concatenate([[0], *offsets])])
