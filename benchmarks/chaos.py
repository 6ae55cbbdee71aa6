"""Chaos: kill, fill disks and run in pairs, then compare with undisturbed runs, bit by bit.

    python -m benchmarks.chaos [--kills 60] [--disks 10] [--pairs 10] [--seed 0]

Every disturbed run is resumed until it ends; the digest of its weights (of a sweep: of its records, without times) must
be that of a run that nothing disturbed, and no record may be lost or doubled. A disk is filled by a limit on the size
of files that the process may write. Prints a table; exit code 1 if any digest differs.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

SOURCE = str(Path(__file__).parents[1] / "src")

SMALL = ["--updates", "60", "--checkpoint-every", "5", "--evaluate-every", "20", "--seed", "3"]
RUNS = {
    "HVIL": ["karel:A", "--demos", "6", "--restarts", "1", "--exact-start", "0", "--hidden", "8", "--context", "8"],
    "exact": ["karel:A", "--demos", "4", "--model", "exact", "--hidden", "8"],
    "LSTM": ["karel:A", "--demos", "6", "--model", "lstm", "--units", "8"],
    "restarts": ["karel:A", "--demos", "4", "--restarts", "2", "--exact-start", "0", "--hidden", "8", "--context", "8"],
    "own data": ["DATA", "--model", "lstm", "--units", "8", "--no-baselines"],
}
SWEEP = [
    "--demos",
    "2,3",
    "--models",
    "lstm:units=4",
    "--runs",
    "2",
    "--test-traces",
    "5",
    "--only-named",
    "--updates",
    "40",
]


class Row(NamedTuple):
    """What was done to one kind of run."""

    what: str
    disturbances: int
    runs: int
    equal: int


def start(arguments: list[str], limit: int | None = None) -> "subprocess.Popen[bytes]":
    """Start a command, perhaps with a limit on the size of the files that it writes."""
    before = None if limit is None else lambda: _limit_files(limit)
    return subprocess.Popen(
        [sys.executable, "-m", "hvil", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": SOURCE},
        start_new_session=True,
        preexec_fn=before,
    )


def _limit_files(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def finished(arguments: list[str]) -> int:
    """The exit code of a command that nothing disturbs."""
    return start(arguments).wait()


def fit(name: str, out: Path, data: Path) -> list[str]:
    """The command that trains one of the runs; it goes on if there is something to go on with."""
    words = [str(data) if word == "DATA" else word for word in RUNS[name]]
    return ["fit", *words, *SMALL, "--test-traces", "5", "--out", str(out), "--resume"]


def sweep(out: Path) -> list[str]:
    """The command that runs a small sweep."""
    return ["compare", "karel:A", *SWEEP, "--workers", "2", "--out", str(out)]


def weights(out: Path) -> str:
    """The digest of a run's weights."""
    return hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()


def records(out: Path) -> str:
    """The digest of a sweep's records; times and machines differ and are left out."""
    kept = {}
    for path in sorted((out / "cells").glob("*.json")):
        record = json.loads(path.read_text())
        kept[path.name] = {name: record[name] for name in ("cell", "error", "training_error", "updates", "curve")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a command; its workers find out by themselves."""
    process.kill()
    process.wait()


def killed(command: list[str], seconds: float, kills: int, rng: random.Random) -> int:
    """Start a command, kill it after a while, and so on; then let it end. How often it was killed."""
    count = 0
    for _ in range(kills):
        process = start(command)
        try:
            process.wait(rng.uniform(0.3, 1.0) * seconds)
            break  # it was faster
        except subprocess.TimeoutExpired:
            kill(process)
            count += 1
    code = finished(command)
    if code != 0:
        print(f"{' '.join(command)}: exit code {code}", flush=True)
    return count


def timed(command: list[str]) -> float:
    """Run a command to its end, and say how long it took."""
    started = time.monotonic()
    code = finished(command)
    assert code == 0, f"{' '.join(command)}: exit code {code}"
    return time.monotonic() - started


def chaos(home: Path, kills: int, disks: int, pairs: int, seed: int, only: str | None = None) -> list[Row]:
    """Do all of it, or what concerns one kind of run."""
    rng = random.Random(seed)
    data = home / "data.npz"
    assert finished(["demos", "karel:A", "--count", "12", "--out", str(data)]) == 0
    kinds: dict[str, tuple[Callable[[Path], list[str]], Callable[[Path], str]]] = {
        name: (lambda out, name=name: fit(name, out, data), weights) for name in RUNS
    }
    kinds["sweep"] = (sweep, records)
    kinds = {name: kind for name, kind in kinds.items() if only in (None, name)}
    truths, seconds = {}, {}
    for name, (command, digest) in kinds.items():
        out = home / f"{name} undisturbed"
        seconds[name] = timed(command(out))
        truths[name] = digest(out)
        print(f"{name}: undisturbed in {seconds[name]:.1f} s", flush=True)
    rows = []
    each = -(-kills // len(kinds))
    for name, (command, digest) in kinds.items():
        done, runs, equal = 0, 0, 0
        while done < each and runs < each:
            out = home / f"{name} killed {runs}"
            done += killed(command(out), seconds[name], 5, rng)
            runs += 1
            equal += digest(out) == truths[name]
            shutil.rmtree(out)
        rows.append(Row(f"{name}, killed", done, runs, equal))
        print(rows[-1], flush=True)
    equal = 0
    for number in range(disks):
        name = list(kinds)[number % len(kinds)]
        command, digest = kinds[name]
        out = home / f"disk {number}"
        start(command(out), limit=rng.choice([200, 2_000, 10_000, 50_000])).wait()
        left = list(out.rglob("*.part")) if out.exists() else []
        assert not left, f"half files stay: {left}"
        equal += finished(command(out)) == 0 and digest(out) == truths[name]
    rows.append(Row("full disk", disks, disks, equal))
    print(rows[-1], flush=True)
    equal = 0
    for number in range(pairs):
        name = list(kinds)[number % len(kinds)]
        command, digest = kinds[name]
        out = home / f"pair {number}"
        both = [start(command(out)), start(command(out))]
        for process in both:
            process.wait()
        equal += finished(command(out)) == 0 and digest(out) == truths[name]
    rows.append(Row("pairs in one directory", pairs, pairs, equal))
    print(rows[-1], flush=True)
    return rows


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--disks", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[*RUNS, "sweep"], help="one kind of run")
    args = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["XDG_STATE_HOME"] = f"{directory}/state"
        rows = chaos(Path(directory), args.kills, args.disks, args.pairs, args.seed, args.only)
    print(f"{'what':26}{'disturbances':>14}{'runs':>8}{'equal':>8}")
    for row in rows:
        print(f"{row.what:26}{row.disturbances:>14}{row.runs:>8}{row.equal:>8}")
    print(f"in {time.monotonic() - started:.0f} s")
    return 0 if all(row.equal == row.runs for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
