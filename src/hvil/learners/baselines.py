"""The baselines: an encoder, a memory and a softmax over the actions and ∅, trained by maximum likelihood.

Continuous actions are one choice, "act", with a diagonal Gaussian beside the softmax: its means are outputs of the
network, its deviations are learned numbers.

The LSTM is the paper's (MLP – LSTM – MLP, or the ConvNet in place of the first MLP). The feed-forward policy and the
Stack-RNN differ from it in the memory alone, so a comparison shows what memory gives. The memories themselves are in
`networks.memory`.

Letters: N traces, R rows (all observations of all traces, or one of each environment), F outputs of the encoder,
A numbers of a continuous action.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.config import Config
from hvil.learners.learner import Loss
from hvil.learners.networks.action_head import log_normal
from hvil.learners.networks.convnet import ConvNet, image_layout, split_image
from hvil.learners.networks.curvature import bends, curvature
from hvil.learners.networks.encoders import CONVNETS, feature_shape, make_encoder
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
        numbers = 0 if config.actions is None else config.actions.width
        before = len(config.action_names) + 1 + numbers if config.model.last_action else 0
        self.layout = image_layout(config.observation_shape) if config.model.network in CONVNETS else None
        self.network: nn.Module
        if self.layout is not None:
            early = CONVNETS[config.model.network]
            self.network = ConvNet(self.layout, self.layout.numbers + before, units, early)
        else:
            self.encoder, width = make_encoder(config.model.network, feature_shape(config))
            self.network = mlp(width + before, units, units)

    @property
    def input_weights(self) -> Float[Tensor, "I K"]:
        """The weights of the first layer of an MLP: features, then the action before."""
        first: nn.Linear = self.network[0]  # type: ignore[index]
        return first.weight.T

    def forward(self, features: Shaped[Tensor, "R ..."], before: Float[Tensor, "R before"]) -> Float[Tensor, "R F"]:
        """The encoded rows; `before` is the action before (one-hot, then its vector if it has one), or no columns."""
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
        self.width = 0 if config.actions is None else config.actions.width
        """How many numbers an action has; 0 for discrete actions."""
        self.head = mlp(config.model.units, config.model.units, self.terminate + 1 + self.width)
        self.log_excess = nn.Parameter(torch.zeros(self.width)) if self.width else None
        """Of the deviations of continuous actions."""
        self.bends = bends(config) if config.model.curvature_price else None
        if self.bends is not None and config.model.network != "mlp":
            raise InputError("a price of curvature needs the network mlp: other networks have no input columns")

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.head.parameters()).device  # the head is small, and so quickly looked through

    def features(self, observations: Shaped[np.ndarray, "R ..."]) -> Shaped[np.ndarray, "R ..."]:
        """What the encoder is given of observations: themselves, unless the configuration has inputs of its own."""
        return observations if self.config.inputs is None else self.config.inputs(observations)

    @property
    def deviations(self) -> Float[Tensor, "A"]:
        """Of continuous actions from their means, in common units."""
        assert self.log_excess is not None
        deviations: Tensor = self.config.model.action_noise + self.log_excess.exp()
        return deviations

    def encode(
        self, features: Shaped[Tensor, "R ..."], before: Int[Tensor, "R"], vectors_before: Float[Tensor, "R A"]
    ) -> Float[Tensor, "R F"]:
        """What the memory reads: features, and the action before (∅ at the start of a trace: there was none)."""
        columns = vectors_before[:, :0]
        if self.config.model.last_action:
            columns = torch.cat([one_hot(before, self.terminate + 1).to(torch.float32), vectors_before], dim=1)
        encoded: Tensor = self.encoder(features, columns)
        return encoded

    def step(
        self,
        features: Shaped[Tensor, "R ..."],
        before: Int[Tensor, "R"],
        state: State,
        vectors_before: Float[Tensor, "R A"] | None = None,
    ) -> tuple[Float[Tensor, "R outputs"], State]:
        """Scores of each choice at the next time of each environment, then means of its vector; the state after it."""
        if vectors_before is None:
            vectors_before = torch.zeros(len(before), self.width, device=before.device)
        output, state = self.memory.step(self.encode(features, before, vectors_before), state)
        return self.head(output), state

    def vector_rows(self, traces: Traces) -> Float[np.ndarray, "R A"]:
        """The continuous actions of all rows in common units; no columns for discrete actions."""
        if self.config.actions is None:
            return np.zeros((len(traces.observations), 0), dtype=np.float32)
        return self.config.actions.rows(traces)

    def negative_log_likelihoods(self, traces: Traces) -> Float[Tensor, "N"]:
        """`−log p(x)` of each trace, the final ∅ included."""
        row_offsets, emitted = traces.row_offsets, traces.emitted()
        # Every trace ends with ∅, so the row before a trace's first holds ∅, which here stands for "no action".
        before = np.concatenate([[self.terminate], emitted[:-1]])
        vectors = self.vector_rows(traces)
        vectors_before = np.concatenate([np.zeros_like(vectors[:1]), vectors[:-1]])
        features = torch.tensor(self.features(traces.observations)).to(self.device)
        encoded = self.encode(
            features, torch.from_numpy(before).to(self.device), torch.from_numpy(vectors_before).to(self.device)
        )
        outputs = self.head(self.memory(encoded, row_offsets))
        choices = torch.from_numpy(emitted).to(self.device)
        costs = cross_entropy(outputs[:, : self.terminate + 1], choices, reduction="none")
        if self.width:
            means = outputs[:, self.terminate + 1 :]
            densities = log_normal(torch.from_numpy(vectors).to(self.device), means, self.deviations)
            costs = costs - torch.where(choices < self.terminate, densities, 0.0)
        trace = torch.from_numpy(np.repeat(np.arange(len(traces)), np.diff(row_offsets))).to(self.device)
        return costs.new_zeros(len(traces)).index_add(0, trace, costs)

    def loss(self, traces: Traces, rng: np.random.Generator, update: int) -> Loss:
        """The cost summed over each trace, and the mean of that over the traces, as HVIL's loss."""
        total = self.negative_log_likelihoods(traces).mean()
        metrics = {"nll_per_action": total.item() / float(traces.lengths.mean() + 1)}
        if self.bends is not None:
            price = self.config.model.curvature_price * curvature(self.encoder.input_weights, self.bends)
            total = total + price / len(traces)
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

    def __repr__(self) -> str:
        return f"BaselinePolicy({self._learner.config.learner}, actions {', '.join(self.action_names)})"

    def probabilities(self, observation: Any) -> dict[str, float] | list[dict[str, float]]:
        """How likely each action is to be the next one, and `∅`, the end; for a batch a mapping each.

        Args:
            observation: as for `act`.
        """
        logits = self._outputs(observation)[0][:, : self._learner.terminate + 1]
        chances = torch.from_numpy(logits.astype(np.float64)).softmax(dim=1).tolist()
        named = [dict(zip((*self.action_names, "∅"), row, strict=True)) for row in chances]
        return named[0] if self._single else named

    def reset(self, count: int | None = None, seed: int = 0) -> None:
        """Begin new episodes: `None` for one environment, or a number of them."""
        self._single = count is None
        self._count = 1 if count is None else count
        if self._count < 1:
            raise InputError(f"reset: {count} environments; expected at least one")
        self._rng = np.random.default_rng(seed)
        self._before = np.full(self._count, self._learner.terminate, dtype=np.int64)
        self._vectors_before = np.zeros((self._count, self._learner.width), dtype=np.float32)
        blocks = -(-self._count // BLOCK)
        self._states = [self._learner.memory.initial(BLOCK, self._learner.device) for _ in range(blocks)]

    def act(self, observation: Any, greedy: bool = True) -> Any:
        """The next action of each environment; the number of actions stands for ∅.

        A continuous action is a vector in the data's units: its mean, or a sample; NaN stands for ∅.

        Args:
            observation: an array, or values by the names of their columns; for a batch a row or a mapping each.
            greedy: take the most likely action; otherwise draw one.
        """
        outputs, self._states = self._outputs(observation)
        logits, means = outputs[:, : self._learner.terminate + 1], outputs[:, self._learner.terminate + 1 :]
        self._before = most_likely(logits) if greedy else sampled(logits, self._rng)
        if self._learner.width:
            vectors = self._vectors(means, greedy)
            return vectors[0] if self._single else vectors
        return int(self._before[0]) if self._single else self._before.copy()

    @property
    def ended(self) -> bool | Bool[np.ndarray, "R"]:
        """Whether the last action was ∅, or in which environments of a batch; true before the first action too."""
        over = self._before == self._learner.terminate
        return bool(over[0]) if self._single else over

    def _vectors(self, means: Float[np.ndarray, "R A"], greedy: bool) -> Float[np.ndarray, "R A"]:
        """The continuous actions in the data's units; they are also what is seen as the action before."""
        scale = self._learner.config.actions
        assert scale is not None
        vectors = means
        if not greedy:
            noise = self._rng.standard_normal(means.shape) * self._learner.deviations.numpy(force=True)
            vectors = (means + noise).astype(np.float32)
        over = (self._before == self._learner.terminate)[:, None]
        self._vectors_before = np.where(over, np.float32(0), vectors)
        return np.where(over, np.float32(np.nan), scale.in_units(vectors))

    def _outputs(self, observation: Any) -> tuple[Float[np.ndarray, "R outputs"], list[State]]:
        """Scores of the next action of each environment, then means of its vector, and the states after it."""
        expected = self._shape if self._single else (self._count, *self._shape)
        if isinstance(observation, np.ndarray) and observation.shape != expected:
            raise InputError(f"act: an observation of shape {np.shape(observation)}, expected {expected}")
        read = self._learner.config.reader(observation, self._count, self._single)
        rows = read.reshape(self._count, *self._shape)
        outputs = np.empty((self._count, self._learner.terminate + 1 + self._learner.width), dtype=np.float32)
        states = list(self._states)
        for block in range(len(states)):
            part = slice(block * BLOCK, (block + 1) * BLOCK)
            outputs[part], states[block] = self._step(
                rows[part], self._before[part], self._vectors_before[part], states[block]
            )
        return outputs, states

    def wrong(self, traces: Traces) -> Bool[np.ndarray, "N"]:
        """Whether the greedy policy takes at least one wrong action along each trace, ∅ included."""
        return _by_length(traces, BLOCK, self._wrong_in_block)

    @torch.no_grad()
    def log_likelihood(self, traces: Traces) -> Float[np.ndarray, "N"]:
        """`log p(x)` of each trace."""
        costs = _by_length(
            traces, TRACES_AT_ONCE, lambda part: self._learner.negative_log_likelihoods(part).cpu().numpy()
        )
        scale = self._learner.config.actions
        return -costs if scale is None else -costs - np.float32(scale.log_volume) * traces.lengths

    def vectors_along(self, traces: Traces) -> Float[np.ndarray, "S A"]:
        """The greedy policy's continuous actions along teacher traces, whose actions it sees; NaN where it says ∅."""
        parts = [self._along(part) for part in traces.parts(BLOCK)]
        return np.concatenate(parts)

    def _along(self, traces: Traces) -> Float[np.ndarray, "S A"]:
        """The same for at most `BLOCK` traces."""
        scale, terminate = self._learner.config.actions, self._learner.terminate
        assert scale is not None
        observations, emitted, lengths = traces.padded()
        inside = np.arange(observations.shape[1]) < lengths[:, None]
        teacher = np.zeros((*emitted.shape, scale.width), dtype=np.float32)
        assert traces.vectors is not None
        teacher[inside] = scale.normalised(traces.vectors)
        state = self._learner.memory.initial(BLOCK, self._learner.device)
        before, vectors_before = np.full(len(traces), terminate, dtype=np.int64), np.zeros_like(teacher[:, 0])
        vectors = np.empty_like(teacher)
        for time in range(observations.shape[1] - 1):
            outputs, state = self._step(observations[:, time], before, vectors_before, state)
            over = most_likely(outputs[:, : terminate + 1]) == terminate
            means = scale.in_units(outputs[:, terminate + 1 :])
            vectors[:, time] = np.where(over[:, None], np.float32(np.nan), means)
            before, vectors_before = emitted[:, time], teacher[:, time]
        return vectors[inside]

    def _wrong_in_block(self, traces: Traces) -> Bool[np.ndarray, "N"]:
        """The same for at most `BLOCK` traces, all at the same time, until each has ended or gone wrong."""
        observations, emitted, lengths = traces.padded()
        vectors = np.zeros((*emitted.shape, self._learner.width), dtype=np.float32)
        vectors[np.arange(emitted.shape[1]) <= lengths[:, None]] = self._learner.vector_rows(traces)
        vectors_before = np.zeros_like(vectors[:, 0])
        state = self._learner.memory.initial(BLOCK, self._learner.device)
        before = np.full(len(traces), self._learner.terminate, dtype=np.int64)
        wrong = np.zeros(len(traces), dtype=bool)
        for time in range(observations.shape[1]):
            running = time <= lengths
            if not (running & ~wrong).any():
                break
            outputs, state = self._step(observations[:, time], before, vectors_before, state)
            wrong |= running & (most_likely(outputs[:, : self._learner.terminate + 1]) != emitted[:, time])
            before, vectors_before = emitted[:, time], vectors[:, time]
        return wrong

    @torch.no_grad()
    def _step(
        self,
        observations: Shaped[np.ndarray, "R ..."],
        before: Int[np.ndarray, "R"],
        vectors_before: Float[np.ndarray, "R A"],
        state: State,
    ) -> tuple[Float[np.ndarray, "R outputs"], State]:
        """The outputs for at most `BLOCK` environments; rows of zeros are added up to exactly that many."""
        count, device = len(observations), self._learner.device
        features = _filled(self._learner.features(observations), 0)
        actions_before = _filled(before, self._learner.terminate)
        outputs, state = self._learner.step(
            torch.from_numpy(features).to(device),
            torch.from_numpy(actions_before).to(device),
            state,
            torch.from_numpy(_filled(vectors_before, 0)).to(device),
        )
        return outputs[:count].cpu().numpy(), state


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
