"""Chaos: kill, fill disks, take permissions away and run in pairs, then compare with undisturbed runs, bit by bit.

    python -m benchmarks.chaos [--kills 60] [--disks 10] [--locked 7] [--pairs 10] [--seed 0] [--only KIND]

Every disturbed run is resumed until it ends; the digest of its weights (of a sweep: of its records, without times) must
be that of a run that nothing disturbed, and no record may be lost or doubled. A disk is filled by a limit on the size
of files that the process may write; a directory is locked by taking the permission to write away. Prints a table; exit
code 1 if any digest differs.
"""

import argparse
import contextlib
import ctypes
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
from typing import IO, NamedTuple

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
ENGINES = {"sweep": "local", "sweep on Ray": "ray"}


class Kind(NamedTuple):
    """A kind of run."""

    command: Callable[[Path], list[str]]
    """The command that trains into a directory; it goes on if there is something to go on with."""
    digest: Callable[[Path], str]
    """The digest of what it leaves there."""


class Row(NamedTuple):
    """What was done to one kind of run."""

    what: str
    disturbances: int
    runs: int
    equal: int


def start(
    arguments: list[str], before: Callable[[], None] | None = None, errors: IO[bytes] | int = subprocess.DEVNULL
) -> "subprocess.Popen[bytes]":
    """Start a command, perhaps with something done in its process before it begins, and a file for its errors."""
    return subprocess.Popen(
        [sys.executable, "-m", "hvil", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=errors,
        env={**os.environ, "PYTHONPATH": SOURCE},
        start_new_session=True,
        preexec_fn=before,
    )


def limit_files(size: int) -> None:
    """Let this process write no file larger than so many bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def obey_permissions() -> None:
    """Make permissions count also for the superuser: the next program in this process cannot override them."""
    drop, overrides = 24, (1, 2)  # PR_CAPBSET_DROP; CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    for capability in overrides:
        ctypes.CDLL(None).prctl(drop, capability, 0, 0, 0)


def complained(arguments: list[str], before: Callable[[], None]) -> None:
    """Run a command that probably fails, and see that it says so in a line."""
    with tempfile.TemporaryFile() as errors:
        code = start(arguments, before, errors).wait()
        errors.seek(0)
        said = errors.read().decode()
    one_line = code in (0, 1, 2) and "Traceback" not in said
    assert one_line, f"{' '.join(arguments)}: exit code {code}: {said}"


def finished(arguments: list[str]) -> int:
    """The exit code of a command that nothing disturbs."""
    return start(arguments).wait()


def fit(name: str, out: Path, data: Path) -> list[str]:
    """The command that trains one of the runs."""
    words = [str(data) if word == "DATA" else word for word in RUNS[name]]
    return ["fit", *words, *SMALL, "--test-traces", "5", "--out", str(out), "--resume"]


def sweep(engine: str, out: Path) -> list[str]:
    """The command that runs a small sweep."""
    return ["compare", "karel:A", *SWEEP, "--engine", engine, "--workers", "2", "--out", str(out)]


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


class Chaos:
    """The kinds of runs, and what undisturbed ones lead to."""

    def __init__(self, home: Path, seed: int, only: str | None) -> None:
        data = home / "data.npz"
        assert finished(["demos", "karel:A", "--count", "12", "--out", str(data)]) == 0
        fits = {name: Kind(lambda out, name=name: fit(name, out, data), weights) for name in RUNS}
        sweeps = {
            name: Kind(lambda out, engine=engine: sweep(engine, out), records) for name, engine in ENGINES.items()
        }
        self.kinds = {name: kind for name, kind in (fits | sweeps).items() if only in (None, name)}
        self.home, self.rng = home, random.Random(seed)
        self.truths: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        for name, kind in self.kinds.items():
            first, out = home / f"{name} first", home / f"{name} undisturbed"
            timed(kind.command(first))  # it may have to compile, so that its time says little
            self.seconds[name] = timed(kind.command(out))
            self.truths[name] = kind.digest(out)
            assert kind.digest(first) == self.truths[name], f"{name}: two undisturbed runs differ"
            print(f"{name}: undisturbed in {self.seconds[name]:.1f} s", flush=True)

    def kills(self, name: str, count: int) -> Row:
        """Kill runs of one kind at least so often, each up to five times."""
        kind, done, runs, equal = self.kinds[name], 0, 0, 0
        while done < count and runs < count:
            out = self.home / f"{name} killed {runs}"
            done += killed(kind.command(out), self.seconds[name], 5, self.rng)
            runs += 1
            equal += kind.digest(out) == self.truths[name]
            shutil.rmtree(out)
        return Row(f"{name}, killed", done, runs, equal)

    def in_turn(self, what: str, count: int, disturb: Callable[[list[str], Path], None]) -> Row:
        """Disturb runs of all kinds in turn, then let each of them end."""
        equal = 0
        for number in range(count):
            name = list(self.kinds)[number % len(self.kinds)]
            kind, out = self.kinds[name], self.home / f"{what} {number}"
            disturb(kind.command(out), out)
            same = finished(kind.command(out)) == 0 and kind.digest(out) == self.truths[name]
            if not same:
                print(f"{what}: {name} differs", flush=True)
            equal += same
        return Row(what, count, count, equal)

    def fill_disk(self, command: list[str], out: Path) -> None:
        """Run a command that can write small files alone; it leaves no half file."""
        size = self.rng.choice([200, 2_000, 10_000, 50_000])
        complained(command, lambda: limit_files(size))
        left = list(out.rglob("*.part")) if out.exists() else []
        assert not left, f"half files stay: {left}"

    def lock_directory(self, command: list[str], out: Path) -> None:
        """Kill a command, and start it again while its directory cannot be written to: it says so, and ends."""
        killed_once = start(command)
        with contextlib.suppress(subprocess.TimeoutExpired):
            killed_once.wait(self.rng.uniform(0.3, 1.0) * min(self.seconds.values()))
        kill(killed_once)
        out.mkdir(exist_ok=True)
        directories = [out, *(path for path in out.rglob("*") if path.is_dir())]
        for directory in directories:
            directory.chmod(0o555)
        complained(command, obey_permissions)
        for directory in directories:
            directory.chmod(0o755)

    def pair(self, command: list[str], out: Path) -> None:
        """Run a command twice at the same time."""
        for process in [start(command), start(command)]:
            process.wait()


def chaos(home: Path, args: argparse.Namespace) -> list[Row]:
    """Do all of it, or what concerns one kind of run."""
    world = Chaos(home, args.seed, args.only)
    each = -(-args.kills // len(world.kinds))
    jobs = [lambda name=name: world.kills(name, each) for name in world.kinds]
    jobs.append(lambda: world.in_turn("full disk", args.disks, world.fill_disk))
    jobs.append(lambda: world.in_turn("no permission to write", args.locked, world.lock_directory))
    jobs.append(lambda: world.in_turn("pairs in one directory", args.pairs, world.pair))
    rows = []
    for job in jobs:
        rows.append(job())
        print(rows[-1], flush=True)
    return rows


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--disks", type=int, default=10)
    parser.add_argument("--locked", type=int, default=7)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[*RUNS, *ENGINES], help="one kind of run")
    args = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["XDG_STATE_HOME"] = f"{directory}/state"
        rows = chaos(Path(directory), args)
    rows.append(Row("all", *(sum(values) for values in list(zip(*rows, strict=True))[1:])))
    print(f"{'what':26}{'disturbances':>14}{'runs':>8}{'equal':>8}")
    for row in rows:
        print(f"{row.what:26}{row.disturbances:>14}{row.runs:>8}{row.equal:>8}")
    print(f"in {time.monotonic() - started:.0f} s")
    return 0 if all(row.equal == row.runs for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
