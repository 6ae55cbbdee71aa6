"""What the trainer knows of a learner, what everyone may do with a policy, and what some learners offer beside it.

A learner is also a `torch.nn.Module`. The learners themselves are the other modules of this room.

Letters: N traces, S steps or actions, A numbers of a continuous action.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Num

from hvil.data.traces import Traces
from hvil.learners.config import Config
from hvil.machine.steps import Steps


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
        """The next action (an int, or one for each environment); the number of actions stands for ∅, the end.

        A continuous action is a vector, or one for each environment; NaN stands for ∅.
        """

    def wrong(self, traces: Traces) -> Bool[np.ndarray, "N"]:
        """Whether the greedy policy, run along each teacher trace, takes at least one wrong action (∅ included)."""


@runtime_checkable
class Learner(Protocol):
    """A model with its objective."""

    def loss(self, traces: Traces, rng: np.random.Generator, update: int) -> Loss:
        """The loss of a batch; all randomness comes from `rng`; `update` counts from 0 (for schedules)."""

    def policy(self) -> Policy:
        """The current policy; it shares the weights and must not be used while they change."""


@runtime_checkable
class ActsInVectors(Protocol):
    """A policy whose actions may be continuous."""

    def vectors_along(self, traces: Traces) -> Float[np.ndarray, "S A"]:
        """The continuous actions of the greedy policy along each teacher trace; NaN once it has ended."""


class InferredSteps(NamedTuple):
    """An inferred call structure of each of some traces."""

    steps: Steps
    log_q: Float[np.ndarray, "S"]
    """The log-probability of each step under the posterior that chose it."""


@runtime_checkable
class InfersStructure(Protocol):
    """A learner that infers the call structure of a trace."""

    def infer(self, traces: Traces, rng: np.random.Generator | None = None) -> InferredSteps:
        """The PHP steps of the traces: sampled with a generator, else the most likely ones."""


@runtime_checkable
class HasLikelihood(Protocol):
    """A learner or policy that knows how likely a trace is."""

    def log_likelihood(self, traces: Traces) -> Float[np.ndarray, "N"]:
        """`log p(x)` of each trace."""


@runtime_checkable
class Configured(Protocol):
    """A learner that keeps the configuration of its run."""

    config: Config


@runtime_checkable
class HasElbo(Protocol):
    """A learner that bounds the likelihood of traces from below."""

    def elbo(self, traces: Traces, rng: np.random.Generator) -> float:
        """An estimate of the ELBO, summed over the traces."""


@runtime_checkable
class HasDensity(Protocol):
    """A learner that knows how likely traces with continuous actions are."""

    def log_density(self, traces: Traces) -> float:
        """`log p(x)` in the data's units, summed over the traces."""


@runtime_checkable
class JudgesItself(Protocol):
    """A learner that can say how well its training has gone, from the training traces alone."""

    def merit(self, traces: Traces, update: int) -> float:
        """The higher, the better; comparable between restarts of one plan after the same number of updates."""


@runtime_checkable
class Prepares(Protocol):
    """A learner that takes its first weights from the data."""

    def first_weights(self, traces: Traces, rng: np.random.Generator) -> None:
        """Change the weights in place, once, before the first update; `traces` are the training traces."""


@runtime_checkable
class Finishes(Protocol):
    """A learner that changes its weights once after the last update, such as by pruning."""

    def finish(self, traces: Traces) -> None:
        """Change the weights in place; `traces` are the training traces."""


class Start(NamedTuple):
    """Updates at the beginning in which a learner wants short traces alone."""

    updates: int
    longest: int
    """The longest trace, in actions."""


@runtime_checkable
class StartsShort(Protocol):
    """A learner that may want short traces alone at the beginning."""

    @property
    def start(self) -> Start | None:
        """The start; None for all traces from the first update on."""


@runtime_checkable
class Shrinks(Protocol):
    """A learner that changes its weights after each step of the optimiser, such as by a proximal step."""

    def shrink(self, optimiser: torch.optim.Adam, update: int) -> None:
        """Change the weights in place; `update` counts from 0."""
