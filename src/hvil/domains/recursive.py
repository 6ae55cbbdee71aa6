"""What the two domains with a self-calling teacher share: its one procedure, its annotations, ranges of sizes.

Letters: S actions of all traces together.
"""

import re
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from hvil.data.annotations import Annotations
from hvil.gate.errors import InputError

WALK = "walk"
"""The teacher's one procedure. It is the root, and it calls itself."""


class Sizes(NamedTuple):
    """What is said of a domain's worlds by one number, and which numbers are possible."""

    domain: str
    what: str
    """In the plural, for messages: `cells`."""
    lowest: int
    highest: int

    def check(self, low: int, high: int) -> None:
        """Refuse a range that is not in order, or not within what is possible."""
        if not self.lowest <= low <= high <= self.highest:
            raise InputError(
                f"{self.what} {low} to {high}: expected a range from at least {self.lowest} up to at most "
                f"{self.highest}"
            )

    def from_argument(self, argument: str, default: tuple[int, int]) -> tuple[int, int]:
        """The range in a TASK string: what stands after its colon, such as `6-30`; nothing: the default."""
        if not argument:
            return default
        numbers = re.fullmatch(r"([0-9]{1,9})-([0-9]{1,9})", argument)
        if numbers is None:
            raise InputError(f"{self.domain}:{argument}: expected a range of {self.what} such as 6-30")
        return int(numbers[1]), int(numbers[2])

    def task_name(self, sizes: tuple[int, int], default: tuple[int, int]) -> str:
        """The TASK string of a range."""
        return self.domain if sizes == default else f"{self.domain}:{sizes[0]}-{sizes[1]}"


def self_calling(max_depth: int) -> dict[str, Any]:
    """The call graph of one procedure that calls itself: `complete:1`, with the teacher's name for it."""
    return {"root": WALK, "max_depth": max_depth, "procedures": {WALK: {"calls": [WALK]}}}


def self_calls(heights: Int[np.ndarray, "S"], first: Int[np.ndarray, "traces"], width: int) -> Annotations:
    """The annotations of a procedure that calls itself and acts between any two calls.

    Between two actions such a procedure calls or returns, but never both, so all frames stay that both stacks have.

    Args:
        heights: of the stack at each action.
        first: the number of each trace's first action.
        width: of the annotated stacks; no stack is higher.
    """
    stacks = np.where(np.arange(width) < heights[:, None], 0, -1)
    kept = np.minimum(heights, np.roll(heights, 1))
    kept[first] = 1
    return Annotations(procedures=(WALK,), stacks=stacks.astype(np.int16), kept=kept.astype(np.int16))
