"""The effects of procedures in words: what an invocation of a procedure returns with, read off what was learned."""

from collections.abc import Sequence

import numpy as np
import torch

from hvil.data.effect_fields import EffectField
from hvil.data.inputs import Inputs
from hvil.learners.networks.effects import PACE, SMALLEST_VARIANCE, Effects
from hvil.learners.networks.policy import PolicyNetwork

SURE = 0.9
"""The probability from which on a truth is stated. A procedure that is never called says nothing: its effects are as
they began."""
LIKELY = 0.8
"""The probability of the values that are stated of a category; it is said with them."""
DEVIATIONS = 2.0
"""A number is said to be within this many standard deviations of its mean."""
NARROW = 0.5
"""The largest standard deviation of a number that something is said about, in the units of the networks: they see most
numbers scaled to a deviation of 1 over all observations, so a wider one says no more than that."""


def postconditions(learner: object) -> dict[str, str]:
    """What each procedure returns with, by its name, such as `digit 1 or 7 (86%) and door_open`.

    Procedures of which nothing can be said are left out. So are all procedures of a learner without effects.
    """
    network = getattr(learner, "policy_network", None)
    if not isinstance(network, PolicyNetwork) or network.effects is None:
        return {}
    found = {
        name: " and ".join(_statements(network.effects, procedure, network.inputs))
        for procedure, name in enumerate(network.graph.procedures)
    }
    return {name: text for name, text in found.items() if text}


def _statements(effects: Effects, procedure: int, inputs: Inputs | None) -> list[str]:
    """What can be said of each field."""
    location = PACE * effects.location[procedure].detach()
    deviations = (SMALLEST_VARIANCE + effects.log_variance[procedure].detach().exp()).sqrt().tolist()
    first, statements = 0, list[str | None]()
    for field in effects.fields:
        own = location[first : first + len(field.columns)]
        first += len(field.columns)
        if field.kind == "category":
            statements.append(_category(field, own.softmax(dim=0).tolist()))
        elif field.kind == "truth":
            truth = torch.sigmoid(own).item()
            statements.append(field.name if truth >= SURE else f"not {field.name}" if truth <= 1 - SURE else None)
        else:
            deviation = deviations.pop(0)
            mean, scale = _unscaled(field.columns[0], inputs)
            near = f"{field.name} {mean + scale * own.item():.3g} ± {DEVIATIONS * scale * deviation:.2g}"
            statements.append(near if deviation <= NARROW else None)
    return [statement for statement in statements if statement is not None]


def _unscaled(column: int, inputs: Inputs | None) -> tuple[float, float]:
    """What 0 stands for in a column that the networks see, and what 1 more stands for."""
    if inputs is None:
        return 0.0, 1.0
    number = int(np.searchsorted(inputs.offsets, column, side="right")) - 1
    return inputs.means[number], inputs.scales[number]


def _category(field: EffectField, probabilities: Sequence[float]) -> str | None:
    """The smallest set of values that is likely, with its probability; None if it is more than half of them."""
    ordered = sorted(range(len(probabilities)), key=lambda value: -probabilities[value])
    values, total = list[int](), 0.0
    while total < LIKELY and len(values) < len(ordered):
        values.append(ordered[len(values)])
        total += probabilities[values[-1]]
    if len(values) > len(ordered) / 2:
        return None
    labels = [field.labels[value] for value in sorted(values)]
    text = " or ".join([", ".join(labels[:-1]), labels[-1]] if len(labels) > 1 else labels)
    return f"{field.name} {text} ({total:.0%})"
