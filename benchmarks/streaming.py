"""Training from a file that is not read as a whole: peak memory with few and with many steps, all else the same.

    python -m benchmarks.streaming [--steps 5000000] [--updates 200] [--limit 300]

Writes two Parquet files, one with a tenth of the steps, and trains from each in a process of its own. Exit code 1 if
the larger one takes more than the limit (in MB) beyond the smaller one.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

COLUMNS = 8
LENGTH = 50


def main() -> int:
    """Write, train twice, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=5_000_000)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--limit", type=float, default=300)
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("--train", metavar="FILE")
    args = parser.parse_args()
    if args.write:
        write(Path(args.write), args.steps)
        return 0
    if args.train:
        train(Path(args.train), args.updates)
        return 0
    peaks = []
    with tempfile.TemporaryDirectory() as directory:
        for steps in (args.steps // 10, args.steps):
            path = Path(directory) / "steps.parquet"
            again("--write", str(path), "--steps", str(steps))
            started = time.monotonic()
            peaks.append(float(again("--train", str(path), "--updates", str(args.updates))))
            size = path.stat().st_size / 2**20
            print(f"{steps:9,} steps ({size:.0f} MB): peak {peaks[-1]:.0f} MB, {time.monotonic() - started:.0f} s")
    print(f"difference {peaks[1] - peaks[0]:.0f} MB")
    return 0 if peaks[1] - peaks[0] < args.limit else 1


def again(*arguments: str) -> str:
    """This script in a process of its own; what it printed last."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.streaming", *arguments], stdout=subprocess.PIPE, check=True
    )
    return (done.stdout.decode().split() or ["0"])[-1]


def write(path: Path, steps: int) -> None:
    """Random traces of 50 actions."""
    from hvil.data.trace_files import save
    from hvil.data.traces import Traces

    rng = np.random.default_rng(0)
    count = steps // LENGTH
    observations = rng.normal(size=(count * (LENGTH + 1), COLUMNS)).astype(np.float32)
    actions = rng.integers(0, 4, size=count * LENGTH)
    save(Traces(observations, actions, np.arange(count + 1) * LENGTH, tuple("abcd")), path)


def train(path: Path, updates: int) -> None:
    """Train a feed-forward policy over the whole file, and print the peak memory in MB."""
    from hvil.data.settings import DataSettings
    from hvil.data.sources import load_data
    from hvil.training.execution import carry_out
    from hvil.training.plan import make_plan

    settings = DataSettings(source=str(path), stream="yes", test_traces=100)
    data = load_data(str(path), settings, 0)
    assert data.stream is not None
    batch = max(len(data.stream) // updates, 1)  # one epoch: every row group is read
    given = {"model": "feedforward", "updates": updates, "batch_size": min(batch, 200)}
    carry_out(make_plan(data, given, "chain:1", data_settings=settings), data)
    for update in range(updates, updates + 2 * len(data.stream) // 200, 50):
        data.stream.batch(update, 200)  # the row groups that the updates did not come to
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


if __name__ == "__main__":
    sys.exit(main())
