"""The baselines: an encoder, a memory and a softmax over the actions and ∅, trained by maximum likelihood.

The LSTM is the paper's (MLP – LSTM – MLP, or the ConvNet in place of the first MLP). The feed-forward policy and the
Stack-RNN differ from it in the memory alone, so a comparison shows what memory gives. The memories themselves are in
`networks.memory`.

Letters: N traces, R rows (all observations of all traces, or one of each environment), F outputs of the encoder.
"""

from collections.abc import Callable
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

BLOCK = 64
"""Rows of every matrix product while acting. Rounding may depend on the number of rows; with one number for all, an
action depends neither on how many environments run at once nor on what the other rows hold."""

TRACES_AT_ONCE = 256
"""Traces that go through the network together when no gradient is needed."""


class Encoder(nn.Module):
    """From features of observations, and perhaps the action before, to what the memory reads."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        units = config.model.units
        before = len(config.action_names) + 1 if config.model.last_action else 0
        self.layout = image_layout(config.observation_shape) if config.model.network == "convnet" else None
        self.network: nn.Module
        if self.layout is not None:
            self.network = ConvNet(self.layout, self.layout.numbers + before, units)
        else:
            self.encoder, width = make_encoder(config.model.network, feature_shape(config))
            self.network = mlp(width + before, units, units)

    def forward(self, features: Shaped[Tensor, "R ..."], before: Float[Tensor, "R before"]) -> Float[Tensor, "R F"]:
        """The encoded rows; `before` is the action before as one-hot columns, or no columns."""
        encoded: Tensor
        if self.layout is not None:
            images, numbers = split_image(self.layout, features)
            encoded = self.network(images, torch.cat([numbers, before], dim=1))
        else:
            flat = features.reshape(len(features), -1).to(torch.float32)
            flat = flat / 255.0 if features.dtype == torch.uint8 else flat
            encoded = self.network(torch.cat([self.encoder(flat), before], dim=1))
        return encoded


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

    def features(self, observations: Shaped[np.ndarray, "R ..."]) -> Shaped[np.ndarray, "R ..."]:
        """What the encoder is given of observations: themselves, unless the configuration has inputs of its own."""
        return observations if self.config.inputs is None else self.config.inputs(observations)

    def encode(self, features: Shaped[Tensor, "R ..."], before: Int[Tensor, "R"]) -> Float[Tensor, "R F"]:
        """What the memory reads: features, and the action before (∅ at the start of a trace: there was none)."""
        columns = one_hot(before, self.terminate + 1).to(torch.float32)
        encoded: Tensor = self.encoder(features, columns if self.config.model.last_action else columns[:, :0])
        return encoded

    def step(
        self, features: Shaped[Tensor, "R ..."], before: Int[Tensor, "R"], state: State
    ) -> tuple[Float[Tensor, "R choices"], State]:
        """Scores of each choice at the next time of each environment, and the state after it."""
        output, state = self.memory.step(self.encode(features, before), state)
        return self.head(output), state

    def negative_log_likelihoods(self, traces: Traces) -> Float[Tensor, "N"]:
        """`−log p(x)` of each trace, the final ∅ included."""
        row_offsets, emitted = traces.row_offsets, traces.emitted()
        # Every trace ends with ∅, so the row before a trace's first holds ∅, which here stands for "no action".
        before = np.concatenate([[self.terminate], emitted[:-1]])
        features = torch.tensor(self.features(traces.observations)).to(self.device)
        encoded = self.encode(features, torch.from_numpy(before).to(self.device))
        logits = self.head(self.memory(encoded, row_offsets))
        costs = cross_entropy(logits, torch.from_numpy(emitted).to(self.device), reduction="none")
        trace = torch.from_numpy(np.repeat(np.arange(len(traces)), np.diff(row_offsets))).to(self.device)
        return costs.new_zeros(len(traces)).index_add(0, trace, costs)

    def loss(self, traces: Traces, rng: np.random.Generator, update: int) -> Loss:
        """The cost summed over each trace, and the mean of that over the traces, as HVIL's loss."""
        total = self.negative_log_likelihoods(traces).mean()
        metrics = {"nll_per_action": total.item() / float(traces.lengths.mean() + 1)}
        return Loss(total=total, metrics=metrics)

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
        blocks = -(-self._count // BLOCK)
        self._states = [self._learner.memory.initial(BLOCK, self._learner.device) for _ in range(blocks)]

    def act(self, observation: Num[np.ndarray, "..."] | Bool[np.ndarray, "..."], greedy: bool = True) -> Any:
        """The next action of each environment; the number of actions stands for ∅."""
        expected = self._shape if self._single else (self._count, *self._shape)
        if np.shape(observation) != expected:
            raise InputError(f"act: an observation of shape {np.shape(observation)}, expected {expected}")
        rows = np.asarray(observation)[None] if self._single else np.asarray(observation)
        logits = np.empty((self._count, self._learner.terminate + 1), dtype=np.float32)
        for block in range(len(self._states)):
            part = slice(block * BLOCK, (block + 1) * BLOCK)
            logits[part], self._states[block] = self._step(rows[part], self._before[part], self._states[block])
        self._before = most_likely(logits) if greedy else sampled(logits, self._rng)
        return int(self._before[0]) if self._single else self._before.copy()

    def wrong(self, traces: Traces) -> Bool[np.ndarray, "N"]:
        """Whether the greedy policy takes at least one wrong action along each trace, ∅ included."""
        return _by_length(traces, BLOCK, self._wrong_in_block)

    @torch.no_grad()
    def log_likelihood(self, traces: Traces) -> Float[np.ndarray, "N"]:
        """`log p(x)` of each trace."""
        return _by_length(
            traces, TRACES_AT_ONCE, lambda part: -self._learner.negative_log_likelihoods(part).cpu().numpy()
        )

    def _wrong_in_block(self, traces: Traces) -> Bool[np.ndarray, "N"]:
        """The same for at most `BLOCK` traces, all at the same time, until each has ended or gone wrong."""
        observations, emitted, lengths = traces.padded()
        state = self._learner.memory.initial(BLOCK, self._learner.device)
        before = np.full(len(traces), self._learner.terminate, dtype=np.int64)
        wrong = np.zeros(len(traces), dtype=bool)
        for time in range(observations.shape[1]):
            running = time <= lengths
            if not (running & ~wrong).any():
                break
            logits, state = self._step(observations[:, time], before, state)
            wrong |= running & (most_likely(logits) != emitted[:, time])
            before = emitted[:, time]
        return wrong

    @torch.no_grad()
    def _step(
        self, observations: Shaped[np.ndarray, "R ..."], before: Int[np.ndarray, "R"], state: State
    ) -> tuple[Float[np.ndarray, "R choices"], State]:
        """Scores of at most `BLOCK` environments; rows of zeros are added up to exactly that many."""
        count, device = len(observations), self._learner.device
        features = _filled(self._learner.features(observations), 0)
        actions_before = _filled(before, self._learner.terminate)
        logits, state = self._learner.step(
            torch.from_numpy(features).to(device), torch.from_numpy(actions_before).to(device), state
        )
        return logits[:count].cpu().numpy(), state


def _by_length(
    traces: Traces, size: int, measure: Callable[[Traces], Shaped[np.ndarray, "_"]]
) -> Shaped[np.ndarray, "N"]:
    """A measure of each trace, taken of `size` traces of similar lengths at a time, which wastes the least padding."""
    order = np.argsort(traces.lengths, kind="stable")
    measured = np.concatenate([measure(part) for part in traces[order].parts(size)])
    return measured[np.argsort(order)]


def _filled(rows: Shaped[np.ndarray, "_ ..."], value: int) -> Shaped[np.ndarray, "BLOCK ..."]:
    """The rows and, below them, others of one value up to `BLOCK`."""
    filled = np.full((BLOCK, *rows.shape[1:]), value, dtype=rows.dtype)
    filled[: len(rows)] = rows
    return filled


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Two linear layers with a ReLU between them."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def most_likely(logits: Float[np.ndarray, "R choices"]) -> Int[np.ndarray, "R"]:
    """The choice with the highest score; the first of equals."""
    return np.asarray(logits.argmax(axis=1))


def sampled(logits: Float[np.ndarray, "R choices"], rng: np.random.Generator) -> Int[np.ndarray, "R"]:
    """A choice drawn from the softmax (the arg-max under Gumbel noise)."""
    return most_likely(logits + rng.gumbel(size=logits.shape))
