"""`model.safetensors`: a learner's weights and the number of its updates, written atomically, read without trust."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_bytes
from safetensors.torch import save as save_bytes

from hvil.gate.border import has_file
from hvil.gate.errors import InputError, one_line
from hvil.gate.files import parse_json, read_bytes, write_bytes
from hvil.gate.settings import from_mapping, setting
from hvil.learners.learner import Learner
from hvil.training.checkpoints import not_finite


def save_weights(path: Path, learner: Learner | torch.nn.Module, updates: int) -> None:
    """Write the weights; the same weights give the same bytes."""
    tensors = {name: value.detach().cpu().clone().contiguous() for name, value in _module(learner).state_dict().items()}
    facts = {"hvil": json.dumps({"updates": updates})}
    write_bytes(path, save_bytes(tensors, facts))


def copy_weights(source: Learner, target: Learner) -> None:
    """Give a learner the weights of another one of the same shape."""
    _module(target).load_state_dict(_module(source).state_dict())


def weights_digest(learner: Learner) -> str:
    """A digest of the weights; the same weights give the same digest."""
    digest = hashlib.blake2b(digest_size=16)
    for name, value in sorted(_module(learner).state_dict().items()):
        array = value.detach().cpu().contiguous().numpy()
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


class Weights(NamedTuple):
    """The contents of a file."""

    tensors: dict[str, torch.Tensor]
    updates: int
    """How many updates were made before it was written."""


@dataclass(frozen=True)
class _Facts:
    """What the file says of itself."""

    updates: int = setting(0, "the number of updates", low=0)


def read_weights(path: Path) -> Weights:
    """Read a file of weights.

    Raises:
        InputError: the file is missing, truncated, or holds a number that is not finite.
    """
    if not has_file(path):
        raise InputError(f"{path}: no such file; the run has no trained model yet (hvil fit --resume goes on with it)")
    data = read_bytes(path)
    try:
        tensors = {_present_name(name): value for name, value in load_bytes(data).items()}
        header = parse_json(data[8 : 8 + int.from_bytes(data[:8], "little")], "its header")
        facts = parse_json(header["__metadata__"]["hvil"], "its metadata")
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{path}: truncated or damaged, or not a model of hvil ({one_line(error, longest=200)})"
        ) from error
    # Weights are 32-bit numbers: a larger one would become infinite only when it is copied into the learner.
    tensors = {name: value.float() if value.is_floating_point() else value for name, value in tensors.items()}
    broken = not_finite(tensors)
    if broken:
        raise InputError(f"{path}: {broken} holds a value that is not finite")
    return Weights(tensors, from_mapping(_Facts, facts, str(path), noun="entry").updates)


def check_weights(path: Path, weights: Weights, make: Callable[[], Any]) -> None:
    """Refuse weights that are not those of the learner that `make` makes, before that learner is made.

    A configuration is a few bytes that may ask for a model of any size. On torch's device `meta` the learner takes no
    memory, but its weights have their shapes.
    """
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            expected = {name: tuple(value.shape) for name, value in _module(make()).state_dict().items()}
    except (RuntimeError, OverflowError, MemoryError) as error:
        raise InputError(f"{path}: no model can be as large as the configuration says") from error
    _refuse_other_shapes(path, expected, {name: tuple(value.shape) for name, value in weights.tensors.items()})


def load_weights(path: Path, learner: Learner | torch.nn.Module) -> int:
    """Read weights into a learner of the same shape, and say after how many updates they were written.

    Raises:
        InputError: the file is missing, truncated, not finite, or of another configuration.
    """
    weights = read_weights(path)
    module = _module(learner)
    expected = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    _refuse_other_shapes(path, expected, {name: tuple(value.shape) for name, value in weights.tensors.items()})
    module.load_state_dict(weights.tensors)
    return weights.updates


def _module(learner: Any) -> torch.nn.Module:
    """The learner as the module that it also is."""
    return cast(torch.nn.Module, learner)


def _present_name(name: str) -> str:
    """The name that a tensor has today; version 0.1 called the policy network `generative`."""
    return "policy_network." + name.removeprefix("generative.") if name.startswith("generative.") else name


def _refuse_other_shapes(
    path: Path, expected: Mapping[str, tuple[int, ...]], stored: Mapping[str, tuple[int, ...]]
) -> None:
    for name in sorted(expected.keys() | stored.keys()):
        if expected.get(name) != stored.get(name):
            raise InputError(f"{path}: the model is of another configuration than config.json ({name} differs)")
