"""A large set of traces, built, saved, loaded and sliced: seconds of each and peak memory, for both file forms.

    python benchmarks/trace_sets.py [--traces 1000000] [--form npz|parquet] [--limit 1.5]

Each form runs in a process of its own, because a process's peak never falls. Exit code 1 if a peak is above the limit.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hvil.data.trace_files import load, save
from hvil.data.traces import Traces

MEAN_LENGTH = 12
COLUMNS = ("front", "left", "right", "marker")
ACTIONS = ("move", "turnLeft", "turnRight", "pickMarker", "putMarker")


def build(count: int) -> Traces:
    """Random traces of 1 to 23 actions, as whole arrays."""
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 2 * MEAN_LENGTH, count))])
    return Traces(
        rng.random((offsets[-1] + count, len(COLUMNS)), dtype=np.float32),
        rng.integers(0, len(ACTIONS), offsets[-1], dtype=np.int32),
        offsets,
        ACTIONS,
        COLUMNS,
        metadata={"seed": np.arange(count)},
    )


def measure(count: int, form: str) -> float:
    """Print the seconds of each part; the result is the peak memory in GB."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / f"traces.{form}"
        with timed(f"{form}: build"):
            traces = build(count)
        with timed(f"{form}: save"):
            save(traces, path)
        with timed(f"{form}: load"):
            loaded = load(path)
        size = path.stat().st_size
    assert loaded == traces
    del traces
    with timed(f"{form}: first half"):
        assert len(loaded[: count // 2]) == count // 2
    with timed(f"{form}: every tenth"):
        assert len(loaded[::10]) == len(range(0, count, 10))
    with timed(f"{form}: shuffled"):
        assert len(loaded.shuffled(np.random.default_rng(0))) == count
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e9 if sys.platform == "darwin" else 1e6)
    print(f"{loaded!r}\n{form}: file {size / 1e6:.0f} MB, peak memory {peak:.2f} GB")
    return peak


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long a block took, by the clock and in processor time (whatever else the machine does)."""
    start, processor = time.perf_counter(), time.process_time()
    yield
    print(f"{what:<22} {time.perf_counter() - start:7.2f} s, processor {time.process_time() - processor:6.2f} s")


def main() -> int:
    """Run one form here, or each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=1_000_000, help="how many (default: %(default)s)")
    parser.add_argument("--form", choices=["npz", "parquet"], help="only this file form")
    parser.add_argument("--limit", type=float, default=1.5, help="largest peak memory in GB (default: %(default)s)")
    args = parser.parse_args()
    if args.form:
        return int(measure(args.traces, args.form) > args.limit)
    arguments = ["--traces", str(args.traces), "--limit", str(args.limit)]
    return max(subprocess.call([sys.executable, __file__, "--form", form, *arguments]) for form in ("npz", "parquet"))


if __name__ == "__main__":
    sys.exit(main())
