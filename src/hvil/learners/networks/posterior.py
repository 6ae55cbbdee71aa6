"""The posterior network: the procedures q(u | h, τ, last, b_t), and the recurrent network that makes b_t from a trace.

A walk samples the call structure of a trace without gradients. The code for it exists twice: compiled, and in torch for
other devices and precisions.

Letters: W walks, R rows (observations of all traces), S steps, U choices, B context, K hidden units, M some of the
walks.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor, nn

from hvil.learners.config import Config
from hvil.learners.networks.bank import FrameInputs, Frames, MlpBank, grouped, masked_log_softmax, step_scores
from hvil.learners.networks.batch import Batch
from hvil.learners.networks.encoders import feature_shape, make_encoder
from hvil.learners.networks.policy import PolicyNetwork
from hvil.learners.networks.ragged_lstm import run_ragged
from hvil.machine import batched, kernels
from hvil.machine.arrays import NetworkArrays, graph_arrays
from hvil.machine.steps import Steps, Walk, most_steps, room_for_walk, selected


class Evaluated(NamedTuple):
    """What compiled walks computed. Where a step had one choice, its entries in `hidden` and `log_q` are arbitrary."""

    net: NetworkArrays
    """q's networks, as the walk read them."""
    hidden: Float32[np.ndarray, "S K"]
    """The hidden units of q's networks, before the ReLU."""
    log_q: Float32[np.ndarray, "S U"]
    """log q(u|·) of every choice."""


class Uniforms(NamedTuple):
    """The random numbers of some walks. The walks of a trace stand together; every trace has equally many."""

    numbers: Float[np.ndarray, "total"]
    offsets: Int[np.ndarray, "W_plus_1"]
    """Where the numbers of each walk begin."""


class PosteriorNetwork(nn.Module):
    """One network for each procedure, from the context and the frame to scores of all choices."""

    encoder: nn.Module | None
    """What the posterior sees observations through, if it does not share the policy's encoder."""

    def __init__(self, config: Config, policy: PolicyNetwork) -> None:
        """Build it.

        Args:
            config: of the run.
            policy: whose encoder is used if it is shared.
        """
        super().__init__()
        model = config.model
        self.graph = config.graph
        self.arrays = graph_arrays(config.graph)
        self.sees = model.posterior_sees
        self.terminate = config.graph.terminate
        self.encoder = None
        self._encode = policy.encode  # a method, and so no submodule: a shared encoder belongs to the policy
        width = policy.encoded_width
        if model.network != "mlp" and policy.encoder is None:
            self.encoder, width = make_encoder(model.network, feature_shape(config))
            self._encode = self.encoder.forward
        inputs = width + self.terminate + 1 + (0 if config.actions is None else config.actions.width)
        self.past = nn.LSTM(inputs, model.context)
        self.future = None if self.sees == "no-future" else nn.LSTM(inputs, model.context)
        frame = FrameInputs.of(model, config.graph.step_count)
        contexts = model.context * (1 if self.future is None else 2)
        self.bank = MlpBank(len(config.graph.procedures), contexts, model.hidden, frame)

    def context(self, batch: Batch) -> Float[Tensor, "R B"]:
        """The context b_t of each row."""
        x = self._inputs(batch)
        contexts = [run_ragged(self.past, x, batch.row_offsets, backwards=False)]
        if self.future is not None:
            contexts.append(run_ragged(self.future, x, batch.row_offsets, backwards=True))
        return torch.cat(contexts, dim=1)

    def _inputs(self, batch: Batch) -> Float[Tensor, "R inputs"]:
        """Encoded features and the one-hot action (or ∅) of each row; continuous actions come after these."""
        features = batch.features
        if self.sees == "no-final":
            final = torch.zeros(len(features), 1, device=features.device)
            final[torch.from_numpy(batch.row_offsets[1:] - 1).to(final.device)] = 1
            features = features * (1 - final)
        encoded = self._encode(features)
        emitted = torch.from_numpy(batch.emitted).to(encoded.device)
        parts = [encoded, nn.functional.one_hot(emitted, self.terminate + 1).to(encoded)]
        if batch.vectors is not None:
            parts.append(batch.vectors.to(encoded))
        return torch.cat(parts, dim=1)

    def log_prob(self, batch: Batch, context: Float[Tensor, "R B"], steps: Steps) -> Float[Tensor, "S"]:
        """Log q(u|·) of given steps, with its gradient; they come in the order by procedure."""
        groups = grouped(steps.procedure, len(self.graph.procedures))
        possible = np.empty((len(steps.row), self.graph.step_count), dtype=bool)
        kernels.posterior_masks(self.arrays, steps, batch.emitted, possible)
        log_q = masked_log_softmax(step_scores(self.bank, context, steps, groups), possible[groups.order])
        choice = torch.from_numpy(steps.choice[groups.order]).to(log_q.device)
        return log_q.gather(1, choice[:, None])[:, 0]

    def uniforms(self, batch: Batch, rng: np.random.Generator, samples: int = 1) -> Uniforms:
        """The random numbers of `samples` walks of each trace: one for each PHP step that a walk could have."""
        most = np.repeat(most_steps(self.graph, np.diff(batch.row_offsets) - 1), samples)
        offsets = np.concatenate([[0], np.cumsum(most)])
        return Uniforms(numbers=rng.random(int(offsets[-1])), offsets=offsets)

    def walk_compiled(
        self, batch: Batch, context: Float[Tensor, "R B"], uniforms: Uniforms, greedy: bool = False
    ) -> tuple[Walk, Evaluated]:
        """Sample (or, greedy, choose) the steps of each walk in compiled code, and keep what it computed."""
        offsets = uniforms.offsets
        net, size = self.bank.arrays(), int(offsets[-1])
        walk = room_for_walk(self.graph, size, len(offsets) - 1)
        hidden = np.empty((size, net.bias1.shape[1]), dtype=np.float32)
        log_q = np.empty((size, net.bias2.shape[1]), dtype=np.float32)
        kernels.walk(
            self.arrays,
            net,
            context.detach().numpy(),
            batch.emitted,
            batch.row_offsets,
            batch.guide,
            uniforms.numbers,
            offsets,
            greedy,
            walk,
            hidden,
            log_q,
        )
        used = slice(int(walk.steps.offsets[-1]))
        return selected(walk, used), Evaluated(net=net, hidden=hidden[used], log_q=log_q[used])

    def walk_batched(
        self, batch: Batch, context: Float[Tensor, "R B"], uniforms: Uniforms, greedy: bool = False
    ) -> Walk:
        """The same steps with all walks abreast, the networks evaluated by torch where the context is."""

        def log_probabilities(
            rows: Int[np.ndarray, "M"], tops: batched.Tops, possible: Bool[np.ndarray, "M U"]
        ) -> Float[np.ndarray, "M U"]:
            groups = grouped(tops.procedure, len(self.graph.procedures))
            frames = Frames(tops.counter[groups.order], tops.last[groups.order])
            sorted_rows = torch.from_numpy(rows[groups.order]).to(context.device)
            scores = np.empty(possible.shape, dtype=np.float32)
            scores[groups.order] = self.bank(context[sorted_rows], frames, groups).cpu().numpy()
            return masked_log_softmax(torch.from_numpy(scores), possible).numpy()

        with torch.no_grad():
            return batched.walk(
                self.graph,
                log_probabilities,
                batch.emitted,
                batch.row_offsets,
                batch.guide,
                uniforms.numbers,
                uniforms.offsets,
                greedy,
            )
