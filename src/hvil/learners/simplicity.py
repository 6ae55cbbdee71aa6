"""What makes learned programs simple: prices of the inputs that procedures read.

The price of long procedures is part of a step's cost, and so in `objective` and `exact.objective`.
"""

import numpy as np
import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from hvil.gate.errors import InputError
from hvil.learners.config import Config
from hvil.learners.networks.bank import MlpBank
from hvil.learners.networks.fields import Fields, field_norms, fields_of, shrink_fields
from hvil.learners.networks.policy import PolicyNetwork
from hvil.learners.settings import ProcedureSettings


def step_prices(settings: ProcedureSettings, counter: Int[np.ndarray, "S"]) -> Float32[np.ndarray, "S"]:
    """λf(τ) of each step: what it costs because of the τ steps that its frame has taken before it."""
    return np.float32(settings.length_price) * counter.astype(np.float32)


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


def price_of_inputs(policy: PolicyNetwork, fields: Fields | None, config: Config) -> float:
    """What the inputs that procedures read cost for each trace, in the units of the objective."""
    model, price = config.model, 0.0
    with torch.no_grad():
        if model.input_sparsity:
            price += model.input_sparsity * input_sparsity(policy).item() / config.training.batch_size
        if fields is not None and isinstance(policy.bank, MlpBank):
            price += model.field_sparsity * field_norms(policy.bank, fields).sum(dim=0).mul(fields.price).sum().item()
    return price


def refuse_sparsity_without_columns(policy: PolicyNetwork, config: Config) -> None:
    """Refuse input sparsity for networks whose first layer has no input columns."""
    if (config.model.input_sparsity or config.model.field_sparsity) and not isinstance(policy.bank, MlpBank):
        raise InputError("input sparsity needs the network mlp: other networks have no input columns")


def input_sparsity(policy: PolicyNetwork) -> Tensor:
    """Group lasso: the sum over procedures and inputs of the norm of the weights that leave the input."""
    assert isinstance(policy.bank, MlpBank)
    # A norm has no gradient at 0; with the small number added, a column that has become zero may stay there.
    norms: Float[Tensor, "H inputs"] = (policy.bank.weight1.square().sum(dim=2) + 1e-12).sqrt()
    return norms.sum()
