"""`model.safetensors`: a learner's weights and the number of its updates, written atomically, read without trust."""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from hvil.gate.errors import InputError
from hvil.gate.files import write_atomically
from hvil.training.checkpoints import not_finite


def save_weights(path: Path, module: torch.nn.Module, updates: int) -> None:
    """Write the weights; the same weights give the same bytes."""
    tensors = {name: value.detach().cpu().clone().contiguous() for name, value in module.state_dict().items()}
    facts = {"hvil": json.dumps({"updates": updates})}
    write_atomically(path, lambda target: save_file(tensors, target, facts))


def check_weights(path: Path, make: Callable[[], torch.nn.Module]) -> None:
    """Refuse a file whose weights are not those of the module that `make` makes, before it is made in earnest.

    A configuration is a few bytes that may ask for any size; a module without memory has its shapes all the same.
    """
    _found(path)
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            wanted = {name: tuple(value.shape) for name, value in make().state_dict().items()}
    except (RuntimeError, OverflowError, MemoryError) as error:
        raise InputError(f"{path}: no model can be as large as the configuration says") from error
    try:
        with safe_open(path, framework="pt") as stored:
            json.loads((stored.metadata() or {})["hvil"])
            shapes = {_present_name(name): tuple(stored.get_slice(name).get_shape()) for name in stored.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: truncated or damaged, or not a model of hvil ({_line(error)})") from error
    for name in sorted(wanted.keys() | shapes.keys()):
        if wanted.get(name) != shapes.get(name):
            raise InputError(f"{path}: the model is of another configuration than config.json ({name} differs)")


def _present_name(name: str) -> str:
    """The name that a tensor has today; version 0.1 called the policy network `generative`."""
    return "policy_network." + name.removeprefix("generative.") if name.startswith("generative.") else name


def _found(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"{path}: no such file; the run has no trained model yet (hvil fit --resume goes on with it)")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())


def load_weights(path: Path, module: torch.nn.Module) -> int:
    """Read weights into a module of the same shape, and say after how many updates they were written.

    Raises:
        InputError: the file is missing, truncated, not finite, or of another configuration.
    """
    _found(path)
    try:
        with safe_open(path, framework="pt") as stored:
            tensors = {_present_name(name): stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
            updates = int(json.loads((stored.metadata() or {})["hvil"])["updates"])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: truncated or damaged, or not a model of hvil ({_line(error)})") from error
    broken = not_finite(tensors)
    if broken:
        raise InputError(f"{path}: {broken} holds a value that is not finite")
    own = module.state_dict()
    for name in own.keys() | tensors.keys():
        if name not in own or name not in tensors or own[name].shape != tensors[name].shape:
            raise InputError(f"{path}: the model is of another configuration than config.json ({name} differs)")
    module.load_state_dict(tensors)
    return updates
