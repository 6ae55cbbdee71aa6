"""Small sets of traces that several tests share."""

from typing import Any

import numpy as np

from hvil.data.annotations import Annotations
from hvil.data.traces import Traces

NAMES = ("left", "right")


def two_traces(**changed: Any) -> Traces:
    """Three actions and four observations, then one action and two observations."""
    given_: dict[str, Any] = {
        "observations": np.arange(12, dtype=np.float32).reshape(6, 2),
        "actions": np.array([0, 1, 1, 0]),
        "offsets": np.array([0, 3, 4]),
        "action_names": NAMES,
    }
    return Traces(**given_ | changed)


def annotated(stacks: list[list[int]], kept: list[int]) -> Traces:
    return two_traces(annotations=Annotations(("main", "sub"), np.array(stacks), np.array(kept)))


def rich_traces() -> Traces:
    """A set with everything a file can hold."""
    return two_traces(
        observation_names=("x", "y"),
        annotations=Annotations(
            ("main", "sub"), np.array([[0, 1], [0, 1], [-1, -1], [0, -1]]), np.array([1, 2, -1, 1])
        ),
        metadata={"grid": np.arange(8).reshape(2, 2, 2), "name": np.array(["straße", "b"])},
        attributes={"task": "toy"},
    )
