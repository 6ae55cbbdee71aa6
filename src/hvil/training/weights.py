"""`model.safetensors`: a learner's weights and the number of its updates, written atomically, read without trust."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from hvil.gate.errors import InputError, one_line
from hvil.gate.files import write_atomically
from hvil.learners.learner import Learner
from hvil.training.checkpoints import not_finite


def save_weights(path: Path, learner: Learner | torch.nn.Module, updates: int) -> None:
    """Write the weights; the same weights give the same bytes."""
    tensors = {name: value.detach().cpu().clone().contiguous() for name, value in _module(learner).state_dict().items()}
    facts = {"hvil": json.dumps({"updates": updates})}
    write_atomically(path, lambda target: save_file(tensors, target, facts))


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


def check_weights(path: Path, make: Callable[[], Any]) -> None:
    """Refuse a file whose weights are not those of the learner that `make` makes, before that learner is made.

    A configuration is a few bytes that may ask for a model of any size. On torch's device `meta` the learner takes no
    memory, but its weights have their shapes.
    """
    _refuse_missing(path)
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            expected = {name: tuple(value.shape) for name, value in _module(make()).state_dict().items()}
    except (RuntimeError, OverflowError, MemoryError) as error:
        raise InputError(f"{path}: no model can be as large as the configuration says") from error
    try:
        with safe_open(path, framework="pt") as stored:
            json.loads((stored.metadata() or {})["hvil"])
            shapes = {_present_name(name): tuple(stored.get_slice(name).get_shape()) for name in stored.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise _damaged(path, error) from error
    _refuse_other_shapes(path, expected, shapes)


def load_weights(path: Path, learner: Learner | torch.nn.Module) -> int:
    """Read weights into a learner of the same shape, and say after how many updates they were written.

    Raises:
        InputError: the file is missing, truncated, not finite, or of another configuration.
    """
    _refuse_missing(path)
    try:
        with safe_open(path, framework="pt") as stored:
            tensors = {_present_name(name): stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
            updates = int(json.loads((stored.metadata() or {})["hvil"])["updates"])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise _damaged(path, error) from error
    broken = not_finite(tensors)
    if broken:
        raise InputError(f"{path}: {broken} holds a value that is not finite")
    module = _module(learner)
    expected = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    _refuse_other_shapes(path, expected, {name: tuple(value.shape) for name, value in tensors.items()})
    module.load_state_dict(tensors)
    return updates


def _module(learner: Any) -> torch.nn.Module:
    """The learner as the module that it also is."""
    return cast(torch.nn.Module, learner)


def _present_name(name: str) -> str:
    """The name that a tensor has today; version 0.1 called the policy network `generative`."""
    return "policy_network." + name.removeprefix("generative.") if name.startswith("generative.") else name


def _refuse_missing(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"{path}: no such file; the run has no trained model yet (hvil fit --resume goes on with it)")


def _refuse_other_shapes(
    path: Path, expected: Mapping[str, tuple[int, ...]], stored: Mapping[str, tuple[int, ...]]
) -> None:
    for name in sorted(expected.keys() | stored.keys()):
        if expected.get(name) != stored.get(name):
            raise InputError(f"{path}: the model is of another configuration than config.json ({name} differs)")


def _damaged(path: Path, error: BaseException) -> InputError:
    return InputError(f"{path}: truncated or damaged, or not a model of hvil ({one_line(error)})")
