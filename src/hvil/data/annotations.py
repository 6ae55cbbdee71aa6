"""Call structure that comes with a set of traces, checked for shape and consistency.

What a call structure means, and whether a call graph allows it, is left to the machine room.

Letters: S actions of all traces together, D depth of the stacks, N traces, K steps that are selected.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from hvil.data.ragged import integers, locate, part_of, read_only, unique_names
from hvil.gate.errors import InputError


@dataclass(frozen=True, eq=False)
class Annotations:
    """Call structure that comes with the traces, for all or some of their steps.

    The PHP steps of one time are always returns, then calls, then the action, because a procedure cannot return before
    it has acted. The stack at the action, and the number of its frames that were there at the time before, therefore
    say everything.
    """

    procedures: tuple[str, ...]
    """Names; the stacks hold indices into them."""
    stacks: Int[np.ndarray, "S D"]
    """The procedures on the stack when the action is taken, root first, padded with -1; all -1: not annotated."""
    kept: Int[np.ndarray, "S"]
    """How many of these frames were there at the time before; 1 (the root) at a trace's start; -1: not said."""

    def __post_init__(self) -> None:
        stacks = integers(self.stacks, "annotation stacks", np.int16, dimensions=2)
        kept = integers(self.kept, "annotation kept", np.int16, dimensions=1)
        object.__setattr__(self, "procedures", unique_names(self.procedures, "procedure"))
        object.__setattr__(self, "stacks", stacks)
        if len(kept) != len(stacks):
            raise InputError(f"annotations: {len(stacks)} stacks but {len(kept)} kept counts; one each a step")
        outside = (stacks >= len(self.procedures)) | (stacks < -1)
        if outside.any():
            step = int(np.argmax(outside.any(axis=1)))
            raise InputError(f"annotations: step {step} names a procedure outside 0..{len(self.procedures) - 1}")
        filled = stacks >= 0
        holes = (filled[:, 1:] & ~filled[:, :-1]).any(axis=1)
        if holes.any():
            raise InputError(
                f"annotations: the stack of step {int(np.argmax(holes))} has a hole (-1 may only stand at the end)"
            )
        wrong = ((kept < -1) | (kept == 0) | (kept > filled.sum(axis=1))) & self.known
        if wrong.any():
            raise InputError(f"annotations: step {int(np.argmax(wrong))} keeps more frames than its stack has, or none")
        object.__setattr__(self, "kept", read_only(np.where(self.known, kept, np.int16(-1))))

    @property
    def known(self) -> Bool[np.ndarray, "S"]:
        """Which steps are annotated."""
        return np.asarray((self.stacks[:, :1] >= 0).any(axis=1))

    @property
    def depths(self) -> Int[np.ndarray, "S"]:
        """Height of the stack at each step, 0 where the step is not annotated."""
        return np.asarray((self.stacks >= 0).sum(axis=1))

    def check_traces(self, offsets: Int[np.ndarray, "N_plus_1"]) -> None:
        """Reject annotations that do not fit traces with these offsets: their number, and which frames are kept."""
        if len(self.stacks) != offsets[-1]:
            raise InputError(f"annotations have {len(self.stacks)} steps, the traces {offsets[-1]}")
        first = np.zeros(len(self.stacks), dtype=bool)
        first[offsets[:-1]] = True
        if (first & (self.kept > 1)).any():
            trace, _ = locate(offsets, int(np.argmax(first & (self.kept > 1))))
            raise InputError(f"trace {trace}, step 0: only the root can be kept at the start of a trace")
        compared = ~first[1:] & self.known[1:] & self.known[:-1]
        differ = np.zeros(len(compared), dtype=bool)
        for level in range(self.stacks.shape[1]):
            same = self.stacks[1:, level] == self.stacks[:-1, level]
            differ |= compared & ~same & (np.maximum(self.kept[1:], 1) > level)
        if differ.any():
            trace, step = locate(offsets, int(np.argmax(differ)) + 1)
            raise InputError(f"trace {trace}, step {step}: a frame is said to be kept that was not there before")

    def take(self, steps: Int[np.ndarray, "K"] | slice) -> "Annotations":
        """The annotations of the given steps."""
        return part_of(self, stacks=self.stacks[steps], kept=self.kept[steps])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Annotations):
            return NotImplemented
        return (
            self.procedures == other.procedures
            and _same_up_to_padding(self.stacks, other.stacks)
            and np.array_equal(self.kept, other.kept)
        )

    __hash__ = None  # type: ignore[assignment]


def join(parts: Sequence[Annotations | None]) -> Annotations | None:
    """The annotations of several sets one after another; None unless all sets have them, for the same procedures."""
    present = [part for part in parts if part is not None]
    if not present or len(present) < len(parts) or any(part.procedures != present[0].procedures for part in present):
        return None
    depth = max(part.stacks.shape[1] for part in present)
    stacks = [np.pad(p.stacks, ((0, 0), (0, depth - p.stacks.shape[1])), constant_values=-1) for p in present]
    return Annotations(present[0].procedures, np.concatenate(stacks), np.concatenate([part.kept for part in present]))


def _same_up_to_padding(a: Int[np.ndarray, "S D"], b: Int[np.ndarray, "S_other E"]) -> bool:
    depth = min(a.shape[1], b.shape[1])
    return bool(np.array_equal(a[:, :depth], b[:, :depth]) and (a[:, depth:] < 0).all() and (b[:, depth:] < 0).all())
