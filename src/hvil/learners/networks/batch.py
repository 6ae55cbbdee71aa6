"""A batch of traces in the form that networks and walks read. Made at every update, so it is cheap.

Letters: N traces, R rows (observations of all traces), D features, A numbers of a continuous action.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from hvil.data.inputs import features as input_features
from hvil.data.traces import Traces
from hvil.learners.config import Config
from hvil.machine.arrays import Guide, guide, no_guide


class Batch(NamedTuple):
    """Traces, ready for the networks."""

    features: Float[Tensor, "R D"]
    """What the networks see of the observation at each row."""
    emitted: Int[np.ndarray, "R"]
    """The action at each row; ∅ at each trace's last."""
    row_offsets: Int[np.ndarray, "N_plus_1"]
    """Where each trace's rows begin."""
    guide: Guide
    """The annotated stacks, where the settings use them."""
    vectors: Float[Tensor, "R A"] | None = None
    """The continuous action at each row in common units, zeros at each trace's last; None for discrete actions."""


def prepare(traces: Traces, config: Config, device: torch.device) -> Batch:
    """A batch on a device.

    Traces of other actions or observations, and actions that the call graph cannot emit, are refused. Annotations are
    checked once, when the run is planned (`machine.arrays.check_annotations`).
    """
    config.check(traces)
    config.graph.check_actions(traces.actions, "the traces")
    annotated = config.model.uses_annotations
    features = input_features(config.inputs, traces.observations, len(traces.observations))
    return Batch(
        features=torch.from_numpy(features).to(device),
        emitted=traces.emitted(),
        row_offsets=traces.row_offsets,
        guide=guide(config.graph, traces) if annotated else no_guide(len(traces.actions)),
        vectors=None if config.actions is None else torch.from_numpy(config.actions.rows(traces)).to(device),
    )
