"""What surrounds the update: start-up, generation, evaluation, roll-outs, memory, two processes on two cores.

`two_process_ratio` is the updates per second of two processes together over those of one: 2 if they do not disturb each
other. Everything else is in seconds and megabytes.
"""

import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

from hvil.analysis.episodes import record
from hvil.data.tasks import find_task
from hvil.experiments.bench.updates import batch, learner, update

T = TypeVar("T")


def start_up() -> dict[str, float]:
    """Seconds of `hvil --help`, and of a `fit` of one update once the compiled code is in its cache."""
    command = [sys.executable, "-m", "hvil"]
    with tempfile.TemporaryDirectory() as folder:
        fit = [*command, "fit", "karel:A", "--demos", "10", "--updates", "1", "--test-traces", "1", "--json"]
        _seconds([*fit, "--out", str(Path(folder) / "first")])
        return {
            "help_seconds": min(_seconds([*command, "--help"]) for _ in range(3)),
            "start_seconds": min(_seconds([*fit, "--out", str(Path(folder) / f"{i}")]) for i in range(2)),
        }


def throughput() -> dict[str, float]:
    """Seconds to generate, evaluate and roll out 1,000 traces."""
    bubble, karel = find_task("bubblesort"), find_task("karel:F")
    lists, generation_bubble = _timed(lambda: bubble.demonstrations(1000, seed=1))
    grids, generation_karel = _timed(lambda: karel.demonstrations(1000, seed=1))
    sorter = learner(bubble, batch(bubble, 10), None, {"hidden": 100, "annotations": "use"})
    # The evaluation of a trace ends at the first wrong action, so an untrained policy would seem fast: train it, on the
    # teacher's own call structure, which is quick.
    train = update(sorter, bubble.demonstrations(30, seed=2))
    for _ in range(300):
        train()
    walker = learner(karel, batch(karel, 10), None, {"hidden": 256})
    train = update(walker, batch(karel, 10))
    for _ in range(300):
        train()
    sorter.policy().wrong(lists[:2])
    record(walker.policy(), grids[:2], karel, details=False)
    _, evaluation = _timed(lambda: sorter.policy().wrong(lists))
    _, rollouts = _timed(lambda: record(walker.policy(), grids, karel, details=False))
    return {
        "generation_bubblesort_1000_seconds": generation_bubble,
        "generation_karel_1000_seconds": generation_karel,
        "evaluation_bubblesort_1000_seconds": evaluation,
        "rollouts_karel_1000_seconds": rollouts,
    }


def two_processes(updates: int = 300) -> float:
    """Updates per second of two training processes over those of one."""
    context = multiprocessing.get_context("spawn")
    rates = []
    for count in (1, 2):
        with context.Pool(count) as pool:
            pool.map(_rate, [20] * count, chunksize=1)
            rates.append(sum(pool.map(_rate, [updates] * count, chunksize=1)))
    return rates[1] / rates[0]


def peak_memory_mb() -> float:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _rate(updates: int) -> float:
    torch.set_num_threads(1)
    source = find_task("bubblesort")
    traces = batch(source, 10)
    run = update(learner(source, traces, None, {"hidden": 100}), traces)
    run()
    start = time.perf_counter()
    for _ in range(updates):
        run()
    return updates / (time.perf_counter() - start)


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    return time.perf_counter() - start


def _timed(run: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    result = run()
    return result, time.perf_counter() - start
