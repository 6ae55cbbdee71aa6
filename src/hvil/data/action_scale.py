"""The common scale of continuous actions: learners see vectors with mean 0 and deviation 1, users those of their data.

It is found once in the training traces and is part of the run's configuration. So a policy acts in the data's units.

Letters: R rows, A numbers of an action.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from hvil.data.traces import Traces
from hvil.gate import settings
from hvil.gate.errors import InputError


@dataclass(frozen=True)
class ActionScale:
    """Mean and scale of each number of a continuous action."""

    names: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]

    def __post_init__(self) -> None:
        if not len(self.names) == len(self.means) == len(self.scales) > 0:
            raise InputError("names, means and scales must have one entry for each number of an action")
        if not all(np.isfinite(self.means)) or not all(np.isfinite(self.scales)) or min(self.scales) <= 0:
            raise InputError("means must be finite, scales finite and positive")

    @staticmethod
    def of(traces: Traces) -> "ActionScale | None":
        """Means and standard deviations in a set of traces; None for discrete actions."""
        if traces.vectors is None:
            return None
        means = traces.vectors.mean(axis=0, dtype=np.float64)
        deviations = traces.vectors.std(axis=0, dtype=np.float64)
        # A number that never changes keeps its scale.
        scales = np.where(deviations > 1e-6 * np.maximum(np.abs(means), 1), deviations, 1.0)
        return ActionScale(names=traces.vector_names, means=tuple(means.tolist()), scales=tuple(scales.tolist()))

    @property
    def width(self) -> int:
        """How many numbers an action has."""
        return len(self.names)

    @cached_property
    def _arrays(self) -> tuple[Float[np.ndarray, "A"], Float[np.ndarray, "A"]]:
        return np.array(self.means), np.array(self.scales)

    @property
    def log_volume(self) -> float:
        """What an action's log-density in the data's units lacks of that in common units: Σ log scale."""
        return float(np.log(self._arrays[1]).sum())

    def normalised(self, vectors: Float[np.ndarray, "R A"]) -> Float[np.ndarray, "R A"]:
        """Vectors in common units."""
        means, scales = self._arrays
        return np.asarray((vectors - means) / scales, dtype=np.float32)

    def rows(self, traces: Traces) -> Float[np.ndarray, "R A"]:
        """The vectors of all rows of some traces in common units; zeros at each trace's last row."""
        assert traces.vectors is not None
        return np.insert(self.normalised(traces.vectors), traces.offsets[1:], np.float32(0), axis=0)

    def in_units(self, normalised: Float[np.ndarray, "R A"]) -> Float[np.ndarray, "R A"]:
        """Vectors in the data's units."""
        means, scales = self._arrays
        return np.asarray(normalised * scales + means, dtype=np.float32)

    def to_mapping(self) -> dict[str, Any]:
        """The form of `config.json`."""
        return {"names": list(self.names), "means": list(self.means), "scales": list(self.scales)}

    @staticmethod
    def from_mapping(value: Any, where: str) -> "ActionScale":
        """Read what `to_mapping` gives."""
        return settings.from_mapping(ActionScale, value, where, noun="list")
