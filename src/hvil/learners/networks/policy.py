"""The policy network: the procedures p(u | h, τ, last, o) that are learned.

`bank` evaluates the networks of all procedures, `encoders` what comes before them, `runner` runs the policy.

Letters: R rows, S steps, U choices, D features, E encoded features.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from hvil.gate.errors import InputError
from hvil.learners.config import Config
from hvil.learners.networks.action_head import ACTING, ActionHead
from hvil.learners.networks.bank import (
    FrameInputs,
    Frames,
    LinearBank,
    MlpBank,
    ModuleBank,
    grouped,
    masked_log_softmax,
)
from hvil.learners.networks.batch import Batch
from hvil.learners.networks.effects import Effects
from hvil.learners.networks.encoders import feature_shape, make_encoder, network_with_numbers
from hvil.learners.networks.laws import STAY, fitted_laws
from hvil.machine.arrays import graph_arrays
from hvil.machine.batched import policy_possible
from hvil.machine.callgraph import CallGraph


class PolicyNetwork(nn.Module):
    """One network for each procedure, from features of the observation and the frame to scores of all choices."""

    bank: MlpBank | ModuleBank
    encoder: nn.Module | None
    """What all procedures see observations through; None if they see them themselves or each has an own encoder."""
    head: ActionHead | None
    """The procedures' continuous actions; None for discrete ones."""
    effects: Effects | None
    """What procedures lead to; None if effects have no weight."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        model, shape = config.model, feature_shape(config)
        self.graph = config.graph
        self.arrays = graph_arrays(config.graph)
        self.inputs = config.inputs
        self.reader = config.reader
        self.width = int(np.prod(config.observation_shape))
        """How many numbers an observation has."""
        self.encoded_width = config.input_width
        """How many numbers `encode` gives."""
        frame = FrameInputs.of(model, config.graph.step_count)
        count = len(config.graph.procedures)
        blind = _leaves(config.graph) if model.open_loop_leaves else []
        self.encoder = None
        if model.network == "mlp":
            if model.encoder == "shared":
                raise InputError(
                    "a shared encoder needs a network that encodes, such as convnet: mlp sees observations themselves"
                )
            self.bank = MlpBank(count, config.input_width, model.hidden, frame, blind)
        elif model.encoder == "shared":
            self.encoder, self.encoded_width = make_encoder(model.network, shape)
            self.bank = MlpBank(count, self.encoded_width, model.hidden, frame, blind)
        else:
            networks = (
                network_with_numbers(model.network, shape, frame.width, model.hidden, frame.choices)
                for _ in range(count)
            )
            self.bank = ModuleBank(networks, frame, blind)
        self.actions = config.actions
        self.head = None
        if config.actions is not None:
            if isinstance(self.bank, ModuleBank):
                raise InputError(f"continuous actions with the network {model.network} need --encoder shared")
            if model.open_loop_leaves:
                raise InputError("leaves in open loop see nothing to act by: they need discrete actions")
            self.head = ActionHead(count, self.encoded_width, config.actions.width, frame, model)
        if model.effects and not config.effect_fields:
            raise InputError("effects have a weight, but the configuration does not say what they are about")
        self.effects = Effects(config.effect_fields, count, model.effects) if model.effects else None

    def encode(self, features: Float[Tensor, "R D"]) -> Float[Tensor, "R E"]:
        """What the bank sees of features: themselves, or what a shared encoder makes of them."""
        return features if self.encoder is None else self.encoder(features)

    def first_laws(self, batch: Batch, rng: np.random.Generator) -> None:
        """Give each procedure that acts a linear law of its own, fitted to traces as laws that take turns.

        Such a procedure then acts again with about the probability with which laws stay. Otherwise the first updates
        may find that a caller can decide at every step, by calls of one action each, and never come back from that.
        Nothing happens if actions are discrete, laws are not linear, or procedures see observations through an encoder.
        """
        if self.head is None or batch.vectors is None or self.encoder is not None:
            return
        if not isinstance(self.head.means, LinearBank) or not isinstance(self.bank, MlpBank):
            return
        acting = np.flatnonzero(self.graph.can_act[:, ACTING])
        steps = batch.emitted == ACTING  # not a trace's last row, which has an observation alone
        features, vectors = batch.features.numpy(force=True)[steps], batch.vectors.numpy(force=True)[steps]
        lengths = np.diff(batch.row_offsets) - 1
        if not len(features):
            return
        laws = fitted_laws(features, vectors, lengths[lengths > 0], len(acting), self.head.noise, rng)
        self.head.set_laws(rng.permutation(acting).tolist(), laws)
        with torch.no_grad():
            self.bank.bias2[acting, ACTING] = self.bank.bias2[acting, self.graph.terminate] + np.log(STAY / (1 - STAY))

    def possible(
        self, procedure: Int[np.ndarray, "S"], counter: Int[np.ndarray, "S"], depth: Int[np.ndarray, "S"]
    ) -> Bool[np.ndarray, "S U"]:
        """The policy's masks."""
        return policy_possible(self.arrays, procedure, counter, depth)

    def log_probs(
        self,
        encoded: Float[Tensor, "S E"],
        procedure: Int[np.ndarray, "S"],
        counter: Int[np.ndarray, "S"],
        last: Int[np.ndarray, "S"],
        depth: Int[np.ndarray, "S"],
    ) -> Float[Tensor, "S U"]:
        """Masked log-probabilities of all choices, for steps in any order; `encode` has made the features."""
        groups = grouped(procedure, len(self.graph.procedures))
        order = torch.from_numpy(groups.order).to(encoded.device)
        scores = self.bank(encoded[order], Frames(counter[groups.order], last[groups.order]), groups)
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=order.device)
        return masked_log_softmax(scores[back], self.possible(procedure, counter, depth))


def _leaves(graph: CallGraph) -> list[int]:
    """The procedures that call no other. In open loop they see nothing, so the root must not be one of them."""
    leaves = [procedure for procedure, callees in enumerate(graph.calls) if not callees]
    if graph.root in leaves:
        raise InputError("open-loop leaves need a root that calls: a single procedure has to see the observations")
    return leaves
