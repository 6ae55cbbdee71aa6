"""The two copies of the procedures: the policy `p`, which sees observations, and the posterior `q`, which sees traces.

Letters: N traces, R rows (observations of all traces), S steps, U choices, B context.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor, nn

from hvil.data.inputs import features as input_features
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.config import Config
from hvil.learners.networks.bank import FrameInputs, Frames, Groups, MlpBank, ModuleBank, grouped
from hvil.learners.networks.convnet import FEATURES, ConvNet, image_layout, split_image
from hvil.learners.networks.ragged_lstm import run_ragged
from hvil.machine import batched, kernels
from hvil.machine.arrays import Guide, Steps, empty_steps, graph_arrays, guide, most_steps, no_guide, trimmed
from hvil.machine.callgraph import CallGraph

IMPOSSIBLE = -1e9
"""Score of an impossible choice: as good as −∞, without its 0·∞ in gradients."""


class Batch(NamedTuple):
    """A batch of traces, ready for the networks."""

    observations: Float[Tensor, "R D"]
    emitted: Int[np.ndarray, "R"]
    """The action at each row; the number of actions (∅) at each trace's last."""
    rows: Int[np.ndarray, "N_plus_1"]
    """Where each trace's rows begin."""
    guide: Guide
    """The stacks that are known."""


class Walk(NamedTuple):
    """Sampled steps and what was computed on the way."""

    steps: Steps
    hidden: Float32[np.ndarray, "S K"]
    """Hidden units before the ReLU of each step where q has a choice; only from compiled code."""
    log_q: Float32[np.ndarray, "S U"]


def prepare(traces: Traces, config: Config, device: torch.device) -> Batch:
    """Traces as tensors; annotations become the guide if the settings use them."""
    config.check(traces)
    config.graph.check_actions(traces.actions, "the traces")
    rows = traces.row_offsets
    known = guide(config.graph, traces) if config.model.annotations == "use" else no_guide(len(traces.actions))
    seen = input_features(config.inputs, traces.observations, int(rows[-1]))
    return Batch(torch.from_numpy(seen).to(device), traces.emitted(), rows, known)


class ConvNetProcedure(nn.Module):
    """The paper's ConvNet as one procedure's network: image in, frame inputs and other numbers beside the 50 units."""

    def __init__(self, shape: tuple[int, ...], extra: int, outputs: int, blind: bool = False) -> None:
        super().__init__()
        self.layout = image_layout(shape)
        self.blind = blind
        self.network = ConvNet(self.layout, self.layout.numbers + extra, outputs)

    def forward(self, observations: Float[Tensor, "rows D"], extra: Float[Tensor, "rows F"]) -> Float[Tensor, "rows O"]:
        """Scores of each row; blind, they depend on the frame alone."""
        images, numbers = split_image(self.layout, torch.zeros_like(observations) if self.blind else observations)
        scores: Tensor = self.network(images, torch.cat([numbers, extra], dim=1))
        return scores


class ImageEncoder(nn.Module):
    """The paper's ConvNet as an encoder of observations."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.layout = image_layout(shape)
        self.network = ConvNet(self.layout, self.layout.numbers, FEATURES)

    def forward(self, observations: Float[Tensor, "rows D"]) -> Float[Tensor, "rows E"]:
        """Features of each row."""
        return torch.relu(self.network(*split_image(self.layout, observations)))


class PolicyNetwork(nn.Module):
    """The generative procedures p(u | h, τ, last, o)."""

    bank: MlpBank | ModuleBank

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.graph = config.graph
        self.arrays = graph_arrays(config.graph)
        frame = FrameInputs.of(config.model, config.graph.step_count)
        count = len(config.graph.procedures)
        shape = config.observation_shape
        self.inputs = config.inputs
        self.width = int(np.prod(shape))
        self.encoder: ImageEncoder | None = None
        blind = _leaves(config.graph) if config.model.open_loop_leaves else []
        if config.model.encoder == "shared":
            if config.model.network != "convnet":
                raise InputError("a shared encoder needs the network convnet: perceptrons see observations themselves")
            self.encoder = ImageEncoder(shape)
            self.bank = MlpBank(count, FEATURES, config.model.hidden, frame, blind)
        elif config.model.network == "convnet":
            steps = config.graph.step_count
            self.bank = ModuleBank(
                (ConvNetProcedure(shape, frame.width, steps, h in blind) for h in range(count)), frame
            )
        else:
            self.bank = MlpBank(count, config.input_width, config.model.hidden, frame, blind)

    def encode(self, observations: Float[Tensor, "rows D"]) -> Float[Tensor, "rows E"]:
        """What the bank sees of observations: themselves, or what a shared encoder makes of them."""
        return observations if self.encoder is None else self.encoder(observations)

    def possible(
        self, procedure: Int[np.ndarray, "S"], counter: Int[np.ndarray, "S"], depth: Int[np.ndarray, "S"]
    ) -> Bool[np.ndarray, "S U"]:
        """The policy's masks."""
        calls = batched.policy_calls(self.arrays, procedure, depth)
        return np.concatenate([self.arrays.can_act[procedure], (counter > 0)[:, None], calls], axis=1)

    def log_probs(
        self,
        features: Float[Tensor, "S E"],
        procedure: Int[np.ndarray, "S"],
        counter: Int[np.ndarray, "S"],
        last: Int[np.ndarray, "S"],
        depth: Int[np.ndarray, "S"],
    ) -> Float[Tensor, "S U"]:
        """Masked log-probabilities of all choices, for rows in any order; `encode` makes the features."""
        groups = grouped(procedure, len(self.graph.procedures))
        frames = Frames(counter[groups.order], last[groups.order])
        order = torch.from_numpy(groups.order).to(features.device)
        scores = self.bank(features[order], frames, groups)
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=order.device)
        return masked_log_softmax(scores[back], self.possible(procedure, counter, depth))


class PosteriorNetwork(nn.Module):
    """The inference procedures q(u | h, τ, last, b_t) and the recurrent network that makes b_t from a trace."""

    def __init__(self, config: Config, policy: PolicyNetwork) -> None:
        """Build it.

        Args:
            config: of the run.
            policy: whose encoder to use where it is shared.
        """
        super().__init__()
        self.graph = config.graph
        self.arrays = graph_arrays(config.graph)
        self.sees = config.model.posterior_sees
        self.actions = len(config.action_names)
        width = config.input_width
        self.encoder: ImageEncoder | None = None
        self._encode = policy.encode  # a method is no submodule: a shared encoder belongs to the policy
        if config.model.network == "convnet":
            width = FEATURES
            if policy.encoder is None:
                self.encoder = ImageEncoder(config.observation_shape)
                self._encode = self.encoder.forward
        units = config.model.context
        self.past = nn.LSTM(width + self.actions + 1, units)
        self.future = None if self.sees == "no-future" else nn.LSTM(width + self.actions + 1, units)
        frame = FrameInputs.of(config.model, config.graph.step_count)
        contexts = units * (1 if self.future is None else 2)
        self.bank = MlpBank(len(config.graph.procedures), contexts, config.model.hidden, frame)

    def context(self, batch: Batch) -> Float[Tensor, "R B"]:
        """The posterior context b_t of each row."""
        x = self._inputs(batch)
        contexts = [run_ragged(self.past, x, batch.rows, backwards=False)]
        if self.future is not None:
            contexts.append(run_ragged(self.future, x, batch.rows, backwards=True))
        return torch.cat(contexts, dim=1)

    def _inputs(self, batch: Batch) -> Float[Tensor, "R inputs"]:
        observations = batch.observations
        if self.sees == "no-final":
            final = torch.zeros(len(observations), 1, device=observations.device)
            final[torch.from_numpy(batch.rows[1:] - 1).to(final.device)] = 1
            observations = observations * (1 - final)
        observations = self._encode(observations)
        actions = torch.from_numpy(batch.emitted).to(observations.device)
        return torch.cat([observations, nn.functional.one_hot(actions, self.actions + 1).to(observations)], dim=1)

    def walk(
        self, batch: Batch, context: Float[Tensor, "R B"], rng: np.random.Generator, greedy: bool = False
    ) -> Steps:
        """Sample (or, greedy, choose) the PHP steps of each trace, without gradients."""
        offsets = self._room(batch)
        uniforms = rng.random(int(offsets[-1]))
        if context.device.type == "cpu" and context.dtype == torch.float32:
            return self._walk_compiled(batch, context, uniforms, offsets, greedy).steps
        return self.walk_batched(batch, context, uniforms, offsets, greedy)

    def walk_compiled(self, batch: Batch, context: Float[Tensor, "R B"], rng: np.random.Generator) -> Walk:
        """Sample the PHP steps of each trace in compiled code, keeping what it computed."""
        offsets = self._room(batch)
        return self._walk_compiled(batch, context, rng.random(int(offsets[-1])), offsets, False)

    def _room(self, batch: Batch) -> Int[np.ndarray, "N_plus_1"]:
        """Where the uniform numbers of each trace begin."""
        return np.concatenate([[0], np.cumsum(most_steps(self.graph, np.diff(batch.rows) - 1))])

    def _walk_compiled(
        self,
        batch: Batch,
        context: Float[Tensor, "R B"],
        uniforms: Float[np.ndarray, "total"],
        offsets: Int[np.ndarray, "N_plus_1"],
        greedy: bool,
    ) -> Walk:
        net, size = self.bank.arrays(), int(offsets[-1])
        steps = empty_steps(self.graph, size, len(offsets) - 1)
        hidden = np.empty((size, net.bias1.shape[1]), dtype=np.float32)
        scores = np.empty((size, net.bias2.shape[1]), dtype=np.float32)
        kernels.walk(
            self.arrays,
            net,
            context.detach().numpy(),
            batch.emitted,
            batch.rows,
            batch.guide,
            uniforms,
            offsets,
            greedy,
            steps,
            hidden,
            scores,
        )
        used = int(steps.offsets[-1])
        return Walk(trimmed(steps), hidden[:used], scores[:used])

    def walk_batched(
        self,
        batch: Batch,
        context: Float[Tensor, "R B"],
        uniforms: Float[np.ndarray, "total"],
        offsets: Int[np.ndarray, "N_plus_1"],
        greedy: bool = False,
    ) -> Steps:
        """The walk, all traces abreast, the networks on their device."""

        def log_probabilities(
            rows: Int[np.ndarray, "M"], tops: batched.Tops, possible: Bool[np.ndarray, "M U"]
        ) -> Float[np.ndarray, "M U"]:
            groups = grouped(tops.procedure, len(self.graph.procedures))
            frames = Frames(tops.counter[groups.order], tops.last[groups.order])
            place = torch.from_numpy(rows[groups.order]).to(context.device)
            scores = np.empty(possible.shape, dtype=np.float32)
            scores[groups.order] = self.bank(context[place], frames, groups).cpu().numpy()
            return masked_log_softmax(torch.from_numpy(scores), possible).numpy()

        with torch.no_grad():
            return batched.walk(
                self.graph, log_probabilities, batch.emitted, batch.rows, batch.guide, uniforms, offsets, greedy
            )


def _leaves(graph: CallGraph) -> list[int]:
    """The procedures that call no other, which may see nothing if others see for them."""
    leaves = [procedure for procedure, callees in enumerate(graph.calls) if not callees]
    if graph.root in leaves:
        raise InputError("open-loop leaves need a root that calls: a single procedure has to see the observations")
    return leaves


def masked_log_softmax(scores: Float[Tensor, "S U"], possible: Bool[np.ndarray, "S U"]) -> Float[Tensor, "S U"]:
    """Log-probabilities over the possible choices; an impossible one gets about `IMPOSSIBLE`."""
    mask = torch.from_numpy(possible).to(scores.device)
    return torch.where(mask, scores, IMPOSSIBLE).log_softmax(dim=1)


def evaluate_steps(
    bank: MlpBank | ModuleBank, features: Float[Tensor, "R D"], steps: Steps, groups: Groups
) -> Float[Tensor, "S U"]:
    """Scores of the steps that `groups` sorts, in that order."""
    order = groups.order
    rows = torch.from_numpy(steps.row[order]).to(features.device)
    scores: Tensor = bank(features.index_select(0, rows), Frames(steps.counter[order], steps.last[order]), groups)
    return scores
