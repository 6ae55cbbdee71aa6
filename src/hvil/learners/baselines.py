"""The baselines: an encoder, a memory and a softmax over the actions and ∅, trained by maximum likelihood.

The LSTM is the paper's (MLP – LSTM – MLP, or the ConvNet in place of the first MLP); the feed-forward policy and the
Stack-RNN differ from it in the memory alone, so that what memory buys can be seen.

Letters: N traces, A actions (choice A is ∅), R rows (all observations of all traces, or one of each environment).
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Num, Shaped
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.config import Config
from hvil.learners.learner import Loss
from hvil.learners.networks.convnet import ConvNet, image_layout, split_image
from hvil.learners.networks.encoders import feature_shape, make_encoder
from hvil.learners.networks.memory import LstmMemory, Memory, NoMemory, StackMemory, State

ROWS = 64
"""Rows of every matrix product while acting. The linear algebra's rounding may depend on the number of rows; with one
size for all, an action does not depend on how many environments are run at once, or on what the other rows hold."""

TRACES_AT_ONCE = 256
"""Traces that are put through the network together when no gradient is needed."""


class Encoder(nn.Module):
    """Observations, and perhaps the action before, to the features that the memory reads."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        units = config.model.units
        seen = len(config.action_names) + 1 if config.model.last_action else 0
        self.layout = image_layout(config.observation_shape) if config.model.network == "convnet" else None
        self.network: nn.Module
        if self.layout is not None:
            self.network = ConvNet(self.layout, self.layout.numbers + seen, units)
        else:
            self.encoder, width = make_encoder(config.model.network, feature_shape(config))
            self.network = mlp(width + seen, units, units)

    def forward(self, observations: Shaped[Tensor, "R ..."], seen: Float[Tensor, "R seen"]) -> Float[Tensor, "R F"]:
        """Features of each row."""
        features: Tensor
        if self.layout is not None:
            images, numbers = split_image(self.layout, observations)
            features = self.network(images, torch.cat([numbers, seen], dim=1))
        else:
            flat = observations.reshape(len(observations), -1).to(torch.float32)
            flat = flat / 255.0 if observations.dtype == torch.uint8 else flat
            features = self.network(torch.cat([self.encoder(flat), seen], dim=1))
        return features


class BaselineLearner(nn.Module):
    """A policy with a given memory, and its negative log-likelihood as the objective."""

    def __init__(self, config: Config, memory: Memory) -> None:
        super().__init__()
        self.config = config
        self.terminate = len(config.action_names)
        self.encoder = Encoder(config)
        self.memory = memory
        self.head = mlp(config.model.units, config.model.units, self.terminate + 1)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def seen(self, observations: Shaped[np.ndarray, "R ..."]) -> Shaped[np.ndarray, "R ..."]:
        """What the encoder is given of observations: themselves, unless the configuration has inputs of its own."""
        return observations if self.config.inputs is None else self.config.inputs(observations)

    def features(self, observations: Shaped[Tensor, "R ..."], before: Int[Tensor, "R"]) -> Float[Tensor, "R F"]:
        """What the memory reads: observations, and the action before (the code of ∅ at the start: there was none)."""
        seen = one_hot(before, self.terminate + 1).to(torch.float32)
        features: Tensor = self.encoder(observations, seen if self.config.model.last_action else seen[:, :0])
        return features

    def step(
        self, observations: Shaped[Tensor, "R ..."], before: Int[Tensor, "R"], state: State
    ) -> tuple[Float[Tensor, "R choices"], State]:
        """Scores of each choice at the next time of each environment."""
        features, state = self.memory.step(self.features(observations, before), state)
        return self.head(features), state

    def negative_log_likelihoods(self, traces: Traces) -> Float[Tensor, "N"]:
        """`−log p(x)` of each trace, the final ∅ included."""
        offsets = traces.row_offsets
        actions = traces.emitted()
        before = np.concatenate([[self.terminate], actions[:-1]])
        observations = torch.tensor(self.seen(traces.observations)).to(self.device)
        features = self.features(observations, torch.from_numpy(before).to(self.device))
        logits = self.head(self.memory(features, offsets))
        costs = cross_entropy(logits, torch.from_numpy(actions).to(self.device), reduction="none")
        trace = torch.from_numpy(np.repeat(np.arange(len(traces)), np.diff(offsets))).to(self.device)
        return costs.new_zeros(len(traces)).index_add(0, trace, costs)

    def loss(self, traces: Traces, rng: np.random.Generator, update: int) -> Loss:
        """The cost summed over a trace, and the mean over the traces, as HVIL's."""
        total = self.negative_log_likelihoods(traces).mean()
        return Loss(total, {"nll_per_action": total.item() / float(traces.lengths.mean() + 1)})

    def policy(self) -> "BaselinePolicy":
        """The current policy; it shares the weights."""
        return BaselinePolicy(self)


class LstmLearner(BaselineLearner):
    """The paper's baseline: 64-unit MLP or ConvNet, n-layer LSTM, 64-unit MLP, softmax."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, LstmMemory(config.model.units, config.model.layers))


class FeedForwardLearner(BaselineLearner):
    """The same without memory: what the observation (and the action before) alone allow."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, NoMemory())


class StackRnnLearner(BaselineLearner):
    """The same with a recurrent layer that has soft stacks."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, StackMemory(config.model.units))


class BaselinePolicy:
    """Runs a baseline, and measures it along given traces by the same computation to the last bit."""

    def __init__(self, learner: BaselineLearner) -> None:
        self.action_names = learner.config.action_names
        self._learner = learner
        self._shape = learner.config.observation_shape
        self.reset()

    def reset(self, count: int | None = None, seed: int = 0) -> None:
        """Begin new episodes: `None` for one environment, or a number of them."""
        self._single = count is None
        self._count = 1 if count is None else count
        if self._count < 1:
            raise InputError(f"reset: {count} environments; expected at least one")
        self._rng = np.random.default_rng(seed)
        self._before = np.full(self._count, self._learner.terminate, dtype=np.int64)
        blocks = -(-self._count // ROWS)
        self._states = [self._learner.memory.initial(ROWS, self._learner.device) for _ in range(blocks)]

    def act(self, observation: Num[np.ndarray, "..."] | Bool[np.ndarray, "..."], greedy: bool = True) -> Any:
        """The next action of each environment; the number of actions stands for ∅."""
        expected = self._shape if self._single else (self._count, *self._shape)
        if np.shape(observation) != expected:
            raise InputError(f"act: an observation of shape {np.shape(observation)}, expected {expected}")
        rows = np.asarray(observation)[None] if self._single else np.asarray(observation)
        logits = np.empty((self._count, self._learner.terminate + 1), dtype=np.float32)
        for block in range(len(self._states)):
            part = slice(block * ROWS, (block + 1) * ROWS)
            logits[part], self._states[block] = self._step(rows[part], self._before[part], self._states[block])
        self._before = most_likely(logits) if greedy else sampled(logits, self._rng)
        return int(self._before[0]) if self._single else self._before.copy()

    def wrong(self, traces: Traces) -> Bool[np.ndarray, "N"]:
        """Whether the greedy policy takes at least one wrong action along each trace, ∅ included."""
        found = np.zeros(len(traces), dtype=bool)
        order = np.argsort(traces.lengths, kind="stable")
        for start in range(0, len(order), ROWS):
            chosen = order[start : start + ROWS]
            found[chosen] = self._wrong_block(traces[chosen])
        return found

    def log_likelihood(self, traces: Traces) -> Float[np.ndarray, "N"]:
        """`log p(x)` of each trace."""
        found = np.zeros(len(traces))
        order = np.argsort(traces.lengths, kind="stable")
        for start in range(0, len(order), TRACES_AT_ONCE):
            chosen = order[start : start + TRACES_AT_ONCE]
            with torch.no_grad():
                found[chosen] = -self._learner.negative_log_likelihoods(traces[chosen]).cpu().numpy()
        return found

    def _wrong_block(self, traces: Traces) -> Bool[np.ndarray, "R"]:
        observations, actions, lengths = traces.padded()
        state = self._learner.memory.initial(ROWS, self._learner.device)
        before = np.full(len(traces), self._learner.terminate, dtype=np.int64)
        wrong = np.zeros(len(traces), dtype=bool)
        for time in range(observations.shape[1]):
            logits, state = self._step(observations[:, time], before, state)
            before = actions[:, time]
            wrong |= (most_likely(logits) != before) & (time <= lengths)
            if (wrong | (time >= lengths)).all():
                break
        return wrong

    @torch.no_grad()
    def _step(
        self, observations: Shaped[np.ndarray, "R ..."], before: Int[np.ndarray, "R"], state: State
    ) -> tuple[Float[np.ndarray, "R choices"], State]:
        """Scores of one block of at most `ROWS` environments, filled up with zeros to exactly that many."""
        count = len(observations)
        observations = self._learner.seen(observations)
        filled = np.zeros((ROWS, *observations.shape[1:]), dtype=observations.dtype)
        filled[:count] = observations
        seen = np.full(ROWS, self._learner.terminate, dtype=np.int64)
        seen[:count] = before
        device = self._learner.device
        logits, state = self._learner.step(
            torch.from_numpy(filled).to(device), torch.from_numpy(seen).to(device), state
        )
        return logits[:count].cpu().numpy(), state


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Two linear layers with a ReLU between."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def most_likely(logits: Float[np.ndarray, "R choices"]) -> Int[np.ndarray, "R"]:
    """The choice with the highest score; the first of equals."""
    return np.asarray(logits.argmax(axis=1))


def sampled(logits: Float[np.ndarray, "R choices"], rng: np.random.Generator) -> Int[np.ndarray, "R"]:
    """A choice drawn from the softmax (the arg-max under Gumbel noise)."""
    return most_likely(logits + rng.gumbel(size=logits.shape))
