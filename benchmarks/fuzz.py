"""Fuzz everything that reads a file: whatever the bytes, the answer is a clear `InputError` or success.

    python -m benchmarks.fuzz [--cases 100000] [--seed 0] [--keep DIRECTORY]

Eight kinds of input: `.npz`, Parquet, CSV, JSON lines, Feather, run configurations, checkpoints and models, Karel
source. Hypothesis draws the cases: valid files with bytes changed, cut, doubled or spliced, and files that are
well-formed but hold nonsense. Each case must end within five seconds of CPU, and the whole process may never have 1 GB
more than at its start. Prints the number of cases; exit code 1 if there was any defect, whose bytes are kept.
"""

import argparse
import hashlib
import io
import json
import resource
import signal
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from benchmarks.fuzz_tables import (
    COLUMN_TYPES,
    JSON,
    csv_of_anything,
    feather_of_anything,
    json_lines_of_anything,
    small_tables,
)
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from hvil.data.segments import annotations_from_boundaries
from hvil.data.trace_files import load, save
from hvil.data.traces import Traces
from hvil.domains.karel.programs import PROGRAMS, named_or_file
from hvil.gate.errors import InputError
from hvil.gate.files import read_json
from hvil.learners.config import Config
from hvil.training.checkpoints import Checkpoints, Snapshot
from hvil.training.run import load as load_run

SECONDS = 5.0
MEMORY = 1 << 30
IDENTITY = {"configuration": "c", "data": "d"}


@dataclass
class Tally:
    """What happened so far to one kind of input."""

    cases: int = 0
    accepted: int = 0
    defects: dict[str, bytes] = field(default_factory=dict)
    """Error message and the bytes that caused it."""


# ---------------------------------------------------------------------------------------------------------- strategies


@st.composite
def changed(draw: st.DrawFn, originals: list[bytes]) -> bytes:
    """A valid file with a few edits."""
    data = bytearray(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        what = draw(st.integers(0, 5))
        if what == 0 and data:
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif what == 1:
            data[at : at + draw(st.integers(1, 8))] = draw(st.binary(max_size=8))
        elif what == 2:
            del data[at : at + draw(st.integers(1, 64))]
        elif what == 3:
            data[at:at] = data[at : at + draw(st.integers(1, 64))]
        elif what == 4:
            del data[at:]
        elif data:
            data[at : at + 8] = draw(st.sampled_from([b"\xff" * 8, b"\x00" * 8, b"\x7f" * 8, b"99999999"]))
    return bytes(data)


@st.composite
def changed_json(draw: st.DrawFn, originals: list[bytes]) -> bytes:
    """A JSON document with some of its values, keys or entries replaced."""
    value = json.loads(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 3))):
        inner = value
        while isinstance(inner, dict | list) and inner:
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            key = draw(st.sampled_from(keys))
            deeper = inner[key]
            if not isinstance(deeper, dict | list) or not deeper or draw(st.integers(0, 3)) == 0:
                if draw(st.integers(0, 4)) == 0:
                    del inner[key]
                else:
                    inner[key] = draw(JSON)
                break
            inner = deeper
    return json.dumps(value).encode()


DTYPES = ["<f4", "<f8", "<i4", "<i8", "|u1", "|b1", "<U3", "<c8", "<M8[s]", "|S2", "<f2", ">i4", "|V3", "|O"]


@st.composite
def npz_of_anything(draw: st.DrawFn) -> bytes:
    """An `.npz` with the right names, but arrays of any type and any (claimed) shape."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))) as archive:
        names = ["observations", "actions", "offsets", "action_names", "observation_names", "attributes"]
        names += ["annotation_stacks", "annotation_kept", "annotation_procedures", "metadata.x", "other"]
        for name in draw(st.lists(st.sampled_from(names), unique=True, min_size=3)):
            shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 4, 10**9, 2**62, -1]), max_size=3)))
            header = {"descr": draw(st.sampled_from(DTYPES)), "fortran_order": draw(st.booleans()), "shape": shape}
            text = repr(header).encode() + b"\n"
            body = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + draw(st.binary(max_size=64))
            archive.writestr(f"{name}.npy", body)
    return buffer.getvalue()


@st.composite
def parquet_of_anything(draw: st.DrawFn) -> bytes:
    """A valid Parquet file whose columns have the right names and any contents."""
    names = ["trace", "step", "action", "observation.x", "observation", "stack", "kept", "metadata.m"]
    chosen = draw(st.lists(st.sampled_from(names), unique=True, min_size=2))
    table = pa.table({name: pa.array(draw(st.one_of(COLUMN_TYPES))) for name in chosen})
    if draw(st.booleans()):
        table = table.replace_schema_metadata({"hvil": json.dumps(draw(JSON))})
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


WORDS = "def run ( ) { } ; if else while repeat not move turnLeft frontIsClear DEF m( m) WHILE c( c) R=4 REPEAT r( r)"


# --------------------------------------------------------------------------------------------------------------- kinds


class Originals:
    """Small valid files of every kind, and how each kind is read."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        traces = Traces.from_episodes(
            [np.arange(8, dtype=np.float32).reshape(4, 2), np.ones((3, 2), dtype=np.float32)],
            [np.array([0, 1, 0]), np.array([1, 1])],
            ("go", "stop"),
            ("x", "y"),
            metadata={"goal": np.array([3, 4]), "name": np.array(["a", "b"])},
        )
        annotations = annotations_from_boundaries(traces, [[(0, "out"), (1, "back")], [(0, "out")]])
        self.traces = Traces(
            traces.observations, traces.actions, traces.offsets, traces.action_names, traces.observation_names,
            annotations, traces.metadata, {"task": "none"},
        )  # fmt: skip
        self.run = directory / "run"
        import hvil

        hvil.fit(self.traces, "tree:2x2", model="feedforward", units=4, updates=2, out=self.run)
        self.checkpoints = Checkpoints(directory / "checkpoint", IDENTITY)
        self.checkpoints.save(Snapshot(3, {"weights.a": torch.ones(3)}, {"position": 1}))

    def saved(self, name: str) -> bytes:
        """The bytes of the traces, saved."""
        path = self.directory / name
        save(self.traces, path)
        return path.read_bytes()

    def read_file(self, data: bytes, ending: str) -> None:
        """Load traces from bytes."""
        path = self.directory / f"case{ending}"
        path.write_bytes(data)
        load(path)

    def read_config(self, data: bytes) -> None:
        """Open a run whose configuration is these bytes."""
        (self.run / "config.json").write_bytes(data)
        Config.from_mapping(read_json(self.run / "config.json"), "config.json")
        load_run(self.run)

    def read_checkpoint(self, data: bytes) -> None:
        """Read a checkpoint, part of which is these bytes; the first byte says which part."""
        which = data[:1]
        if which == b"m":
            (self.run / "model.safetensors").write_bytes(data[1:])
            load_run(self.run)
            return
        target = self.checkpoints.directory / "00000003" / ("state.json" if which == b"j" else "state.safetensors")
        before = target.read_bytes()
        target.write_bytes(data[1:])
        try:
            self.checkpoints.latest()
        finally:
            target.write_bytes(before)

    def read_karel(self, data: bytes) -> None:
        """Parse a program from a file."""
        path = self.directory / "program.karel"
        path.write_bytes(data)
        named_or_file(str(path))

    def kinds(self) -> dict[str, tuple[Any, Callable[[bytes], None]]]:
        """For each kind the strategy that draws its bytes, and the reader."""
        npz, parquet = [self.saved("a.npz")], [self.saved("a.parquet")]
        config = [(self.run / "config.json").read_bytes()]
        lines, logs, feathers = small_tables()
        folder = self.checkpoints.directory / "00000003"
        parts = {
            b"m": (self.run / "model.safetensors").read_bytes(),
            b"j": (folder / "state.json").read_bytes(),
            b"s": (folder / "state.safetensors").read_bytes(),
        }
        programs = [source.encode() for source in PROGRAMS.values()]
        words = st.lists(st.sampled_from(WORDS.split()), max_size=40).map(lambda chosen: " ".join(chosen).encode())
        checkpoints = st.one_of(
            [changed([data]).map(lambda case, part=part: part + case) for part, data in parts.items()]
            + [changed_json([parts[b"j"]]).map(lambda case: b"j" + case)]
        )
        return {
            "npz": (changed(npz) | npz_of_anything(), lambda data: self.read_file(data, ".npz")),
            "parquet": (changed(parquet) | parquet_of_anything(), lambda data: self.read_file(data, ".parquet")),
            "csv": (changed(logs) | csv_of_anything(), lambda data: self.read_file(data, ".csv")),
            "jsonl": (changed(lines) | json_lines_of_anything(), lambda data: self.read_file(data, ".jsonl")),
            "feather": (changed(feathers) | feather_of_anything(), lambda data: self.read_file(data, ".feather")),
            "configuration": (changed(config) | changed_json(config), self.read_config),
            "checkpoint": (checkpoints, self.read_checkpoint),
            "karel": (changed(programs) | words | st.binary(max_size=60), self.read_karel),
        }


# -------------------------------------------------------------------------------------------------------------- running


class Slow(BaseException):
    """A case took too long."""


def run_kind(strategy: Any, reader: Callable[[bytes], None], cases: int, first_seed: int) -> Tally:
    """Draw and read so many cases."""
    tally = Tally()

    def once(data: bytes) -> None:
        tally.cases += 1
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            reader(data)
            tally.accepted += 1
        except InputError as error:
            if "\n" in str(error).strip():
                tally.defects.setdefault(f"a message of several lines: {error!r}", data)
        except (Exception, Slow) as error:
            tally.defects.setdefault(f"{type(error).__name__}: {str(error)[:200]}", data)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    round_ = 0
    while tally.cases < cases:
        options = settings(
            max_examples=min(cases - tally.cases, 2_000),
            database=None,
            deadline=None,
            derandomize=False,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        seed(first_seed * 100_000 + round_)(options(given(strategy)(once)))()
        round_ += 1
    return tally


def fuzz(cases: int, first_seed: int, only: str | None = None) -> dict[str, Tally]:
    """Run the same number of cases of each kind."""
    signal.signal(signal.SIGVTALRM, _too_slow)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
        kinds = Originals(Path(directory)).kinds()
        chosen = {only: kinds[only]} if only else kinds
        return {name: run_kind(*kind, -(-cases // len(chosen)), first_seed) for name, kind in chosen.items()}


def _too_slow(*_: object) -> None:
    raise Slow(f"more than {SECONDS:g} s")


def _limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))


def main() -> int:
    """Run, print, and keep what failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one kind of input")
    parser.add_argument("--keep", type=Path, default=Path("fuzz_defects"), help="where the bytes of defects go")
    args = parser.parse_args()
    torch.set_num_threads(1)
    fuzz(50, args.seed)  # all that is loaded lazily is loaded now, before memory is counted
    if sys.platform == "linux":
        _limit_memory()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.monotonic()
    tallies = fuzz(args.cases, args.seed, args.only)
    for name, tally in tallies.items():
        print(f"{name:14} {tally.cases:7} cases  {tally.accepted:6} accepted  {len(tally.defects)} defects")
        for message, data in tally.defects.items():
            args.keep.mkdir(exist_ok=True)
            path = args.keep / f"{name}-{hashlib.blake2b(data, digest_size=6).hexdigest()}"
            path.write_bytes(data)
            print(f"  {message}  ({path})")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    total = sum(tally.cases for tally in tallies.values())
    print(f"{total} cases in {time.monotonic() - started:.0f} s, memory grew by {grown:.0f} MB")
    return 1 if any(tally.defects for tally in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
