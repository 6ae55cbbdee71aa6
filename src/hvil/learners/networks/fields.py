"""Fields: inputs of a network that belong together, and the proximal step that makes unneeded ones exactly zero.

The ten columns of a one-hot value are one field, because a rule that reads one of them reads the value. A group lasso
over fields has the price λ·Σ‖weights of a field‖ for each procedure. Its proximal step, after each step of Adam, sets a
field that is not worth its price to 0 exactly. What has weight 0 is not read, and the report can say so.

Letters: H procedures, I inputs, G fields, K hidden units.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from hvil.data.effect_fields import feature_columns
from hvil.learners.config import Config
from hvil.learners.networks.bank import MlpBank

LAST, COUNTER = "last", "counter"
"""The fields of a frame: the last step as one, and each input of the counter as one of its own."""


class Fields(NamedTuple):
    """Which input belongs to which field, and what the fields cost."""

    names: tuple[str, ...]
    member: Float[Tensor, "I G"]
    """1 where the input belongs to the field."""
    price: Float[Tensor, "G"]
    """Price of each field beside that of an observation's: the last step is free, it is a procedure's memory."""


def fields_of(config: Config, bank: MlpBank) -> Fields:
    """The fields of a bank's inputs: observation columns by their names, then those of the frame. Made once a run."""
    columns = feature_columns(config.observation_names, int(np.prod(config.observation_shape)), config.inputs)
    names = [column.field for column in columns]
    names += [f"{COUNTER}[{i}]" for i in range(bank.frame.counter.width)]
    names += [LAST] * (bank.frame.width - bank.frame.counter.width)
    distinct = tuple(dict.fromkeys(names))
    member = torch.zeros(len(names), len(distinct))
    member[np.arange(len(names)), [distinct.index(name) for name in names]] = 1
    of_counter = config.model.counter_price
    price = [0.0 if name == LAST else of_counter if name.startswith(COUNTER) else 1.0 for name in distinct]
    return Fields(names=distinct, member=member, price=torch.tensor(price))


def shrink_fields(bank: MlpBank, fields: Fields, optimiser: torch.optim.Adam, price: float) -> None:
    """The proximal step of the price, in Adam's own metric.

    Adam divides a gradient by its root mean square s. A price on the norm of a field's weights w then moves them by
    learning rate · price / s towards 0: w ← w · max(0, 1 − rate·price / (s‖w‖)), with the mean s of the field.
    """
    state = optimiser.state.get(bank.weight1)
    if not state or not price:
        return
    group = next(g for g in optimiser.param_groups if any(p is bank.weight1 for p in g["params"]))
    with torch.no_grad():
        weight, member = bank.weight1, fields.member.to(bank.weight1)
        correction = 1 - group["betas"][1] ** float(state["step"])
        sizes = member.sum(dim=0) * weight.shape[2]
        norms = field_norms(bank, fields)
        scales: Float[Tensor, "H G"] = (state["exp_avg_sq"].sum(dim=2) @ member / sizes / correction).sqrt()
        prices = price * fields.price.to(weight)
        factor = (1 - group["lr"] * prices / (scales + group["eps"]) / (norms + 1e-12)).clamp_min(0)
        weight.mul_((factor @ member.T)[:, :, None])


def fields_read(bank: MlpBank, fields: Fields) -> list[tuple[str, ...]]:
    """The fields that each procedure reads: those with a weight that is not 0."""
    norms = field_norms(bank, fields).tolist()
    return [tuple(name for name, norm in zip(fields.names, row, strict=True) if norm > 0) for row in norms]


def fields_ignored(config: Config, bank: MlpBank) -> dict[str, tuple[str, ...]]:
    """The fields of an observation that each procedure does not read."""
    fields = fields_of(config, bank)
    observed = [name for name in fields.names if name != LAST and not name.startswith(COUNTER)]
    read = dict(zip(config.graph.procedures, fields_read(bank, fields), strict=True))
    return {procedure: tuple(name for name in observed if name not in names) for procedure, names in read.items()}


def field_norms(bank: MlpBank, fields: Fields) -> Float[Tensor, "H G"]:
    """‖weights of a field‖ in each procedure."""
    squares: Float[Tensor, "H I"] = bank.weight1.detach().square().sum(dim=2)
    return (squares @ fields.member.to(squares)).sqrt()
