"""What the trainer knows of a learner, and what everyone may do with a policy: protocols, no learner."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Num

from hvil.data.traces import Traces


class Loss(NamedTuple):
    """What one update minimises, and what it reports."""

    total: torch.Tensor
    """A scalar with a gradient."""
    metrics: dict[str, float]


@runtime_checkable
class Policy(Protocol):
    """A policy that can be run: one or many environments at once."""

    action_names: tuple[str, ...]

    def reset(self, count: int | None = None, seed: int = 0) -> None:
        """Begin new episodes: `None` for one environment with single observations, a count for a batch."""

    def act(self, observation: Num[np.ndarray, "..."], greedy: bool = True) -> Any:
        """The next action (an int, or one for each environment); the number of actions stands for ∅, the end."""

    def wrong(self, traces: Traces) -> Bool[np.ndarray, "N"]:
        """Whether the greedy policy, run along each teacher trace, takes at least one wrong action (∅ included)."""


@runtime_checkable
class Learner(Protocol):
    """A model with its objective. It is also a `torch.nn.Module`."""

    def loss(self, traces: Traces, rng: np.random.Generator, update: int) -> Loss:
        """The loss of a batch; all randomness comes from `rng`; `update` counts from 0 (for schedules)."""

    def policy(self) -> Policy:
        """The current policy; it shares the weights and must not be used while they change."""


@runtime_checkable
class HasLikelihood(Protocol):
    """A learner or policy that knows how likely a trace is."""

    def log_likelihood(self, traces: Traces) -> Float[np.ndarray, "N"]:
        """`log p(x)` of each trace."""


@runtime_checkable
class HasElbo(Protocol):
    """A learner that bounds the likelihood of traces from below."""

    def elbo(self, traces: Traces, rng: np.random.Generator) -> float:
        """An estimate of the ELBO, summed over the traces."""


class Structure(NamedTuple):
    """Sampled or most likely PHP steps of a set of traces, flat, in the order they are taken."""

    trace: Int[np.ndarray, "steps"]
    time: Int[np.ndarray, "steps"]
    procedure: Int[np.ndarray, "steps"]
    counter: Int[np.ndarray, "steps"]
    last: Int[np.ndarray, "steps"]
    depth: Int[np.ndarray, "steps"]
    """Height of the stack before the step; 1 for the root alone."""
    choice: Int[np.ndarray, "steps"]
    log_q: Float[np.ndarray, "steps"]


@runtime_checkable
class InfersStructure(Protocol):
    """A learner that infers the call structure of a trace."""

    def infer(self, traces: Traces, rng: np.random.Generator | None = None) -> Structure:
        """The PHP steps of the traces: sampled with a generator, else the most likely at each step."""
