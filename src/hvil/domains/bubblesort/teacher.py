"""The bubble-sort teacher: its actions, observations, six procedures, and traces of many lists at once.

`task` and `environment` are built on it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from hvil.data.traces import Annotations, Traces
from hvil.gate.errors import InputError

ACTIONS = ("ptr1_left", "ptr1_right", "ptr2_left", "ptr2_right", "swap")
PTR1_LEFT, PTR1_RIGHT, PTR2_LEFT, PTR2_RIGHT, SWAP = range(len(ACTIONS))

PROCEDURES = ("bubble_sort", "bubble", "reset", "bstep", "lshift", "compswap")
CALL_GRAPH: dict[str, Any] = {
    "root": "bubble_sort",
    "procedures": {
        "bubble_sort": {"calls": ["bubble", "reset"]},
        "bubble": {"calls": ["bstep"]},
        "reset": {"calls": ["lshift"]},
        "bstep": {"calls": ["compswap"]},
        "lshift": {"calls": []},
        "compswap": {"calls": []},
    },
}
# The stacks on which the teacher takes its actions, from the root, as indices into PROCEDURES.
IN_BUBBLE, IN_BSTEP, IN_COMPSWAP, IN_LSHIFT = (0, 1), (0, 1, 3), (0, 1, 3, 5), (0, 2, 4)
MAX_DEPTH = 4

VALUES = 10
LENGTH_SCALE = 10.0
"""The argument is the length divided by this, so that it is of the size of the other numbers."""

POINTER1_AT_END, VALUE2, POINTER2_AT_END, LENGTH = VALUES, VALUES + 1, 2 * VALUES + 1, 2 * VALUES + 2
"""Columns of the observation; the one-hot value under pointer 1 begins at column 0."""

DEFAULT_LENGTHS = (2, 10)
"""The shortest and the longest list, as in the paper."""


def check_lengths(lengths: tuple[int, int]) -> None:
    """A range of lengths must be in order and begin at 2: one number is sorted by taking no action."""
    low, high = lengths
    if not 2 <= low <= high <= 1_000:
        raise InputError(f"lengths {low} to {high}: expected a range from at least 2 up to at most 1000")


def observation_names(length_argument: bool = True) -> tuple[str, ...]:
    """One name a column: one-hot value and end indicator of each pointer, then the argument."""
    names = [
        *(f"value1={value}" for value in range(VALUES)),
        "pointer1_at_end",
        *(f"value2={value}" for value in range(VALUES)),
        "pointer2_at_end",
    ]
    return (*names, "length") if length_argument else tuple(names)


class TeacherLength(NamedTuple):
    """The closed form of how long the teacher takes for one list of length n."""

    passes: int
    """n − 1."""
    moves: int
    """1 + 2(n − 1) + 2(n − 1) pointer moves a pass, so (n − 1)(4n − 3)."""
    swaps: int
    """The number of inversions: pairs in the wrong order."""

    @property
    def actions(self) -> int:
        """The length of the trace."""
        return self.moves + self.swaps


def teacher_length(numbers: Sequence[int]) -> TeacherLength:
    """Passes, moves and swaps of the teacher on one list, without running it."""
    n = len(numbers)
    swaps = sum(numbers[i] > numbers[j] for i in range(n) for j in range(i + 1, n))
    return TeacherLength(passes=n - 1, moves=(n - 1) * (4 * n - 3), swaps=swaps)


class _Schedule(NamedTuple):
    """What the teacher does on any list of one length; only whether a swap happens depends on the list."""

    actions: Int[np.ndarray, " slots"]
    pointer1: Int[np.ndarray, " slots"]
    """Before the action."""
    pointer2: Int[np.ndarray, " slots"]
    stacks: Int[np.ndarray, "slots depth"]
    kept: Int[np.ndarray, " slots"]
    """As if no swap happened. After a swap one frame more is kept: bstep, which was called before compswap."""


def _schedule(n: int) -> _Schedule:
    """The teacher's actions on a list of length n, with every swap that could happen."""
    slots: list[tuple[int, int, int, tuple[int, ...], int]] = []
    pointer1 = pointer2 = 0

    def take(action: int, stack: tuple[int, ...], kept: int) -> None:
        nonlocal pointer1, pointer2
        slots.append((action, pointer1, pointer2, (*stack, *[-1] * (MAX_DEPTH - len(stack))), kept))
        pointer1, pointer2 = moved(action, pointer1, pointer2, n)

    for _ in range(n - 1):
        take(PTR2_RIGHT, IN_BUBBLE, kept=1)
        while not (pointer1 == pointer2 == n - 1):
            take(SWAP, IN_COMPSWAP, kept=2)
            take(PTR1_RIGHT, IN_BSTEP, kept=2)
            take(PTR2_RIGHT, IN_BSTEP, kept=3)
        first = True
        while not (pointer1 == pointer2 == 0):
            take(PTR1_LEFT, IN_LSHIFT, kept=1 if first else 2)
            take(PTR2_LEFT, IN_LSHIFT, kept=3)
            first = False
    actions, pointers1, pointers2, stacks, kept = zip(*slots, strict=True)
    return _Schedule(np.array(actions), np.array(pointers1), np.array(pointers2), np.array(stacks), np.array(kept))


def moved(action: int, pointer1: int, pointer2: int, n: int) -> tuple[int, int]:
    """Where the pointers are after an action; at an end they stay."""
    if action == PTR1_LEFT:
        return max(pointer1 - 1, 0), pointer2
    if action == PTR1_RIGHT:
        return min(pointer1 + 1, n - 1), pointer2
    if action == PTR2_LEFT:
        return pointer1, max(pointer2 - 1, 0)
    if action == PTR2_RIGHT:
        return pointer1, min(pointer2 + 1, n - 1)
    return pointer1, pointer2


class _Runs(NamedTuple):
    """The teacher's runs on many lists of one length: the values under the pointers, and which swaps happen."""

    value1: Int[np.ndarray, "lists slots"]
    value2: Int[np.ndarray, "lists slots"]
    taken: Bool[np.ndarray, "lists slots"]
    final: Int[np.ndarray, "lists n"]


def _run(schedule: _Schedule, lists: Int[np.ndarray, "lists n"]) -> _Runs:
    lists = lists.copy()
    shape = (len(lists), len(schedule.actions))
    value1, value2 = np.empty(shape, np.int8), np.empty(shape, np.int8)
    taken = np.ones(shape, np.bool_)
    for slot, (action, p1, p2) in enumerate(zip(schedule.actions, schedule.pointer1, schedule.pointer2, strict=True)):
        first, second = lists[:, p1].copy(), lists[:, p2].copy()
        value1[:, slot], value2[:, slot] = first, second
        if action == SWAP:
            taken[:, slot] = first > second
            lists[:, p1], lists[:, p2] = np.minimum(first, second), np.maximum(first, second)
    return _Runs(value1, value2, taken, lists)


def teach(
    lists: Int[np.ndarray, "traces longest"],
    lengths: Int[np.ndarray, " traces"],
    length_argument: bool = True,
    attributes: Mapping[str, str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Traces:
    """The teacher's traces on the given lists (rows padded with −1), with its call structure.

    All lists of one length share a schedule, so the work is a few array operations for each of its slots.
    """
    groups = {int(n): np.flatnonzero(lengths == n) for n in np.unique(lengths)}
    schedules = {n: _schedule(n) for n in groups}
    runs = {n: _run(schedules[n], lists[members, :n]) for n, members in groups.items()}
    counts = np.empty(len(lists), np.int64)
    for n, members in groups.items():
        counts[members] = runs[n].taken.sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    flat = _FlatArrays(
        observations=np.zeros((int(offsets[-1]) + len(lists), len(observation_names(length_argument))), np.float32),
        actions=np.empty(int(offsets[-1]), np.int32),
        stacks=np.empty((int(offsets[-1]), MAX_DEPTH), np.int16),
        kept=np.empty(int(offsets[-1]), np.int16),
    )
    ready = 0
    for n, members in groups.items():
        _write(flat, offsets, members, schedules[n], runs.pop(n))
        ready += len(members)
        if progress is not None:
            progress(ready)
    return Traces(
        observations=flat.observations,
        actions=flat.actions,
        offsets=offsets,
        action_names=ACTIONS,
        observation_names=observation_names(length_argument),
        annotations=Annotations(procedures=PROCEDURES, stacks=flat.stacks, kept=flat.kept),
        metadata={"list": lists.astype(np.int8)},
        attributes=attributes or {},
    )


class _FlatArrays(NamedTuple):
    """The arrays of all traces together, to be filled."""

    observations: Float[np.ndarray, "rows columns"]
    actions: Int[np.ndarray, " steps"]
    stacks: Int[np.ndarray, "steps depth"]
    kept: Int[np.ndarray, " steps"]


def _write(
    flat: _FlatArrays,
    offsets: Int[np.ndarray, " traces_plus_1"],
    members: Int[np.ndarray, " lists"],
    schedule: _Schedule,
    runs: _Runs,
) -> None:
    """Write the traces of the lists of one length, whose numbers are `members`, into the arrays of all traces."""
    n = runs.final.shape[1]
    number, slots = np.nonzero(runs.taken)  # list by list, so the times of a trace come in order
    steps = offsets[members][number] + (np.cumsum(runs.taken, axis=1) - 1)[number, slots]
    flat.actions[steps] = schedule.actions[slots]
    flat.stacks[steps] = schedule.stacks[slots]
    after_swap = (schedule.actions[slots - 1] == SWAP) & runs.taken[number, slots - 1]
    flat.kept[steps] = schedule.kept[slots] + after_swap
    during = Views(
        value1=runs.value1[number, slots],
        value2=runs.value2[number, slots],
        pointer1=schedule.pointer1[slots],
        pointer2=schedule.pointer2[slots],
        n=np.full(len(slots), n),
    )
    _observe(flat.observations, steps + members[number], during)
    first_cell, first_value = np.zeros(len(members), np.int64), runs.final[:, 0]
    at_the_end = Views(
        value1=first_value, value2=first_value, pointer1=first_cell, pointer2=first_cell, n=np.full(len(members), n)
    )
    _observe(flat.observations, offsets[members + 1] + members, at_the_end)


class Views(NamedTuple):
    """What determines observations: the values under the pointers, the pointers' cells, the length of the list."""

    value1: Int[np.ndarray, " rows"]
    value2: Int[np.ndarray, " rows"]
    pointer1: Int[np.ndarray, " rows"]
    pointer2: Int[np.ndarray, " rows"]
    n: Int[np.ndarray, " rows"]


def _observe(observations: Float[np.ndarray, "all columns"], rows: Int[np.ndarray, " rows"], views: Views) -> None:
    """Write the observations of the given rows in place (they are zero before)."""
    observations[rows, views.value1] = 1.0
    observations[rows, POINTER1_AT_END] = (views.pointer1 == 0) | (views.pointer1 == views.n - 1)
    observations[rows, VALUE2 + views.value2] = 1.0
    observations[rows, POINTER2_AT_END] = (views.pointer2 == 0) | (views.pointer2 == views.n - 1)
    if observations.shape[1] > LENGTH:
        observations[rows, LENGTH] = views.n / LENGTH_SCALE
