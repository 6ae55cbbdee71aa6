"""Writers killed at any moment leave the old file or the new one: fifty kills, ten for each kind of file."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hvil.data.trace_files import load, save
from hvil.data.traces import Traces
from hvil.gate.files import read_json, write_json
from hvil.training.checkpoints import Checkpoints, Snapshot
from hvil.training.weights import load_weights, save_weights

KILLS = 10


def traces(version: int) -> Traces:
    return Traces.from_episodes([np.full((400, 3), version, dtype=np.float32)] * 5, [np.zeros(399, int)] * 5, ("a",))


def network(version: int) -> torch.nn.Module:
    made = torch.nn.Linear(100, 100)
    torch.nn.init.constant_(made.weight, version)
    return made


def read_weights(path: Path) -> float:
    found = network(0)
    load_weights(path, found)
    values = found.weight.detach().unique()
    assert len(values) == 1
    return float(values[0])


def read_traces(path: Path) -> float:
    values = np.unique(load(path).observations)
    assert len(values) == 1
    return float(values[0])


def checkpoints(directory: Path) -> Checkpoints:
    return Checkpoints(directory, {"data": "d"})


def read_checkpoint(path: Path) -> float:
    found = checkpoints(path).latest()
    assert found is not None
    assert (found.tensors["weights.a"] == found.update).all()
    return found.update


KINDS: dict[str, tuple[str, Callable[[Path, int], Any], Callable[[Path], float]]] = {
    "npz": ("a.npz", lambda path, version: save(traces(version), path), read_traces),
    "parquet": ("a.parquet", lambda path, version: save(traces(version), path), read_traces),
    "json": ("a.json", lambda path, version: write_json(path, [version] * 5000), lambda path: set_of(read_json(path))),
    "weights": ("a.safetensors", lambda path, version: save_weights(path, network(version), 1), read_weights),
    "checkpoint": (
        "checkpoint",
        lambda path, version: checkpoints(path).save(
            Snapshot(version, {"weights.a": torch.full((9999,), float(version))}, {})
        ),
        read_checkpoint,
    ),
}


def set_of(values: list[int]) -> float:
    assert len(values) == 5000
    assert len(set(values)) == 1
    return values[0]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_writer_leaves_the_old_file_or_the_new_one(kind: str, tmp_path: Path) -> None:
    name, write, read = KINDS[kind]
    path = tmp_path / name
    version = 1
    write(path, version)
    rng = np.random.default_rng(list(KINDS).index(kind))
    for _ in range(KILLS):
        child, written = _writer(path, version, write)
        os.read(written, 1)  # the first new file is there
        time.sleep(float(rng.exponential(0.01)))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(written)
        found = read(path)
        assert found > version, "at least the first write had been finished"
        version = int(found)


def _writer(path: Path, version: int, write: Callable[[Path, int], Any]) -> tuple[int, int]:
    """A process that writes newer and newer versions until it is killed, and a pipe that says when it began."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    try:
        for newer in _versions(version):
            write(path, newer)
            os.write(writing, b".")
    finally:
        os._exit(1)


def _versions(version: int) -> Iterator[int]:
    return count(version + 1)
