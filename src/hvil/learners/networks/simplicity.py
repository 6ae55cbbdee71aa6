"""What makes learned programs simple: prices of long procedures and of the inputs they read, and pruning.

The price of long procedures is part of a step's cost, and so in `objective` and `exact.objective`.

Letters: S steps, N traces, B bends, D features.
"""

import math

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor

from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.config import Config
from hvil.learners.networks.bank import MlpBank
from hvil.learners.networks.curvature import curvature
from hvil.learners.networks.fields import Fields, field_norms, fields_of, shrink_fields
from hvil.learners.networks.policy import PolicyNetwork
from hvil.learners.networks.runner import ProcedurePolicy
from hvil.learners.settings import ProcedureSettings

FREE_STEPS = 3
"""From this many steps on, each further step of a procedure has the full price."""


def step_prices(settings: ProcedureSettings, counter: Int[np.ndarray, "S"]) -> Float32[np.ndarray, "S"]:
    """λf(τ) of each step, f(τ) = (min(τ, 3)/3)²: what it costs because of the τ steps its frame has taken before it.

    A procedure of two or three steps is nearly free. Each further step costs λ, so a loop is paid for by the number of
    its rounds: the body of a loop becomes a procedure of its own, and two rounds are not put into one call. With
    f(τ) = τ long loops are cheaper if two rounds share a call, and that is what is then learned.
    """
    share: Float32[np.ndarray, "S"] = (np.minimum(counter, FREE_STEPS) / FREE_STEPS).astype(np.float32)
    prices: Float32[np.ndarray, "S"] = np.float32(settings.length_price) * share**2
    return prices


def shrink_policy(
    policy: PolicyNetwork, fields: Fields | None, config: Config, optimiser: torch.optim.Adam, update: int
) -> None:
    """Make the policy pay for the fields that its procedures read."""
    model = config.model
    if fields is not None and isinstance(policy.bank, MlpBank):
        ramp = min(1.0, (update + 1) / model.field_sparsity_ramp) if model.field_sparsity_ramp else 1.0
        shrink_fields(policy.bank, fields, optimiser, ramp * model.field_sparsity)


def priced_fields(policy: PolicyNetwork, config: Config) -> Fields | None:
    """The fields that the policy pays for; None if they have no price."""
    paid = config.model.field_sparsity and isinstance(policy.bank, MlpBank)
    return fields_of(config, policy.bank) if paid else None  # type: ignore[arg-type]


def prune(policy: PolicyNetwork, config: Config, traces: Traces) -> int:
    """Set the weights of inputs to 0 that a procedure can do without; the number of fields that are still read.

    A field may go if every trace that the greedy policy follows to its end is still followed without it. The fields
    with the smallest weights are tried first. What is left is what the program needs to know.
    """
    bank = policy.bank
    assert isinstance(bank, MlpBank)
    fields = fields_of(config, bank)

    def right() -> Bool[np.ndarray, "N"]:
        return ~ProcedurePolicy(policy).wrong(traces)

    right_before = right()
    norms = field_norms(bank, fields).cpu().numpy()
    read = 0
    with torch.no_grad():
        for place in np.argsort(norms, axis=None, kind="stable"):
            procedure, field = np.unravel_index(place, norms.shape)
            columns = torch.nonzero(fields.member[:, field])[:, 0].to(bank.weight1.device)
            kept = bank.weight1[procedure, columns].clone()
            bank.weight1[procedure, columns] = 0
            if norms[procedure, field] and (right_before & ~right()).any():
                bank.weight1[procedure, columns] = kept
                read += 1
    return read


def description_length(policy: PolicyNetwork, config: Config, traces: Traces) -> float:
    """What it takes to say which inputs the pruned policy reads, in nats: log(procedures · fields) for each.

    The weights are afterwards what they were. 0 for networks without input columns, and for continuous actions, which
    say nothing of what can be pruned.
    """
    if not isinstance(policy.bank, MlpBank) or config.actions is not None:
        return 0.0
    weights = policy.bank.weight1.detach().clone()
    read = prune(policy, config, traces)
    with torch.no_grad():
        policy.bank.weight1.copy_(weights)
    return read * math.log(len(weights) * len(fields_of(config, policy.bank).names))


def refuse_sparsity_without_columns(policy: PolicyNetwork, config: Config) -> None:
    """Refuse input sparsity and pruning for networks whose first layer has no input columns."""
    model = config.model
    if model.prune and config.actions is not None:
        raise InputError("pruning compares kinds of actions; continuous actions have only one: leave out --prune")
    if isinstance(policy.bank, MlpBank):
        return
    if model.input_sparsity or model.field_sparsity:
        raise InputError("input sparsity needs the network mlp: other networks have no input columns")
    if model.curvature_price:
        raise InputError("a price of curvature needs the network mlp: other networks have no input columns")
    if model.prune:
        raise InputError("pruning needs the network mlp: other networks have no input columns")


def input_price(policy: PolicyNetwork, settings: ProcedureSettings, bend_rows: Float[Tensor, "B D"]) -> Tensor | float:
    """What the policy's inputs cost, against a batch's summed cost: a group lasso, and the curvature of numbers."""
    total: Tensor | float = 0.0
    if isinstance(policy.bank, MlpBank):
        if settings.input_sparsity:
            total = total + settings.input_sparsity * _column_norms(policy.bank)
        if settings.curvature_price:
            total = total + settings.curvature_price * curvature(policy.bank.weight1, bend_rows)
    return total


def _column_norms(bank: MlpBank) -> Float[Tensor, ""]:
    """The sum over procedures and inputs of the norm of the weights that leave the input."""
    # A norm has no gradient at 0; with the small number added, a column that has become zero may stay there.
    norms: Float[Tensor, "H inputs"] = (bank.weight1.square().sum(dim=2) + 1e-12).sqrt()
    return norms.sum()
