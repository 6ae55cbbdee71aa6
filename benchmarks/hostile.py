"""Hostile inputs for `benchmarks.abuse`: valid inputs of every kind, and the many ways to spoil them."""

import contextlib
import io
import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.spoiling import ODD, odd_npz, odd_table, spoil_arrays, spoil_file, spoil_value
from pyarrow import feather

import hvil
from hvil.cli.main import main
from hvil.data.segments import annotations_from_boundaries
from hvil.data.trace_files import save
from hvil.data.traces import Traces
from hvil.domains.karel.programs import PROGRAMS, named_or_file
from hvil.experiments.experiment_files import find_experiment
from hvil.experiments.outcome.results import read_results
from hvil.gate.errors import InputError

SETTINGS: dict[str, Any] = {"model": "feedforward", "units": 4, "updates": 2}
Action = Callable[[], int]
"""Runs a case; the answer is the exit code."""


class World:
    """A directory for cases, the valid inputs that they are made from, and files of others around it."""

    def __init__(self, directory: Path) -> None:
        os.environ["XDG_STATE_HOME"] = str(directory / "state")
        os.environ["XDG_CACHE_HOME"] = str(directory / "cache")
        os.environ["HVIL_MNIST"] = str(directory / "digits")  # it is not there, and nothing is fetched instead
        self.directory = directory
        self.originals, self.case, self.others_home = (directory / name for name in ("originals", "case", "others"))
        for path in (self.originals, self.others_home):
            path.mkdir()
        for name in ("file", ".hidden.abcd1234.part", "private.csv"):
            (self.others_home / name).write_text("trace,step,action,observation.x\n0,0,go,1\n0,1,,2\n")
        (self.others_home / ".00000001.part").mkdir()
        # In a process of its own: threads of libraries that have worked here would be missing in forked workers.
        child = os.fork()
        if not child:
            code = 1
            try:
                _write_originals(self.originals)
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0, "no valid inputs could be made"

    def clean(self) -> None:
        """Make the directory of the next case."""
        shutil.rmtree(self.case, ignore_errors=True)
        self.case.mkdir()
        os.chdir(self.case)

    def copy(self, name: str) -> Path:
        """A valid input in the directory of the case."""
        source, target = self.originals / name, self.case / name
        return Path(shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target))

    def others(self) -> list[tuple[str, bytes | None]]:
        """The files of others, and what else lies around the directory of the case."""
        found = [(str(path), path.read_bytes() if path.is_file() else None) for path in self.others_home.rglob("*")]
        top = [(entry.name, None) for entry in os.scandir(self.directory) if entry.name not in ("state", "cache")]
        return sorted([*found, *top], key=lambda entry: entry[0])


class Kind(NamedTuple):
    """A kind of input."""

    name: str
    make: Callable[[random.Random, World], tuple[Action, int]]
    """Makes a case: what to run, and the size of its input."""


def _write_originals(directory: Path) -> None:
    traces = Traces.from_episodes(
        [np.arange(8, dtype=np.float32).reshape(4, 2), np.ones((3, 2), dtype=np.float32)] * 4,
        [np.array([0, 1, 0]), np.array([1, 1])] * 4,
        ("go", "stop"),
        ("x", "y"),
        metadata={"goal": np.arange(8), "name": np.array(list("abcdefgh"))},
    )
    annotations = annotations_from_boundaries(traces, [[(0, "out"), (1, "back")], [(0, "out")]] * 4)
    whole = Traces(
        traces.observations, traces.actions, traces.offsets, traces.action_names, traces.observation_names,
        annotations, traces.metadata, {"task": "none"},
    )  # fmt: skip
    save(whole, directory / "a.npz")
    save(whole, directory / "a.parquet")
    rows = [f"{t},{s},{'go' if s < 3 else ''},{s}.5" for t in range(4) for s in range(4)]
    (directory / "a.csv").write_text("\n".join(["trace,step,action,observation.x", *rows]) + "\n")
    table = pa.table({"trace": [0, 0, 0, 1, 1], "action": ["go", "stop", None, "go", None], "x": [1.5, 2, 3, 4, 5]})
    feather.write_feather(table, directory / "a.feather")
    (directory / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    graph = {"root": "a", "max_depth": 4, "procedures": {"a": {"calls": ["b", "a"]}, "b": {"actions": ["go"]}}}
    (directory / "graph.json").write_text(json.dumps(graph))
    (directory / "table.toml").write_text(
        'title = "t"\nsizes = [2]\nruns = 1\n[panels]\na = "karel:A"\n[models.lstm]\nmodel = "lstm"\nunits = 4\n'
        '[settings]\nupdates = 2\n[[claims]]\nsays = "s"\nkind = "at-most"\nours = "lstm"\n'
    )
    (directory / "program.karel").write_text(PROGRAMS["F"])
    hvil.fit(traces, "tree:2x2", out=directory / "run", **SETTINGS)
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["evaluate", str(directory / "run")]) == 0
    results = Path(__file__).parents[1] / "results" / "version-0.1" / "bubblesort"
    (directory / "records").mkdir()
    shutil.copy(results / "experiment.json", directory / "records")
    lines = (results / "records.jsonl").read_text().splitlines()[:6]
    (directory / "records" / "records.jsonl").write_text("\n".join(lines) + "\n")
    with contextlib.redirect_stdout(io.StringIO()):  # matplotlib looks for fonts once, for seconds
        main(["reproduce", "--from-records", str(directory / "records"), "--out", str(directory / "drawn")])


# --------------------------------------------------------------------------------------------------------------- kinds


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(_size(entry) for entry in path.iterdir())
    return path.stat().st_size if path.is_file() else 0


def _call(*arguments: object) -> Action:
    return lambda: main([str(argument) for argument in arguments])


def _function(call: Callable[[], object]) -> Action:
    """A part of a command that would go on to train for minutes if its input were accepted."""

    def run() -> int:
        try:
            call()
        except InputError as error:
            print(" ".join(str(error).split())[:1000], file=sys.stderr)
            return 2
        return 0

    return run


def _traces(name: str, make: Callable[[random.Random, bytes], bytes] | None) -> Callable[..., tuple[Action, int]]:
    def case(rng: random.Random, world: World) -> tuple[Action, int]:
        path = world.copy(name)
        if make is not None and rng.random() < 0.5:
            path.write_bytes(make(rng, path.read_bytes()))
        else:
            spoil_file(rng, path, world.others_home)
        commands = [("inspect", path), ("inspect", path, "--json"), ("fit", path, "--plan")]
        commands.append(
            ("inspect", path, "--observation-columns", "observation.x", "--action-column", rng.choice("ax"))
        )
        return _call(*rng.choices(commands, [6, 2, 2, 1])[0]), _size(path)

    return case


def _npz(rng: random.Random, data: bytes) -> bytes:
    return spoil_arrays(rng, data) if rng.random() < 0.6 else odd_npz(rng)


def _parquet(rng: random.Random, data: bytes) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(odd_table(rng), buffer)
    return buffer.getvalue()


def _arrow(rng: random.Random, data: bytes) -> bytes:
    buffer = io.BytesIO()
    feather.write_feather(odd_table(rng), buffer, compression=rng.choice(["uncompressed", "lz4", "zstd"]))
    return buffer.getvalue()


def _json_lines(rng: random.Random, data: bytes) -> bytes:
    """Lines with other values and keys, with more and more keys, or with deep nesting."""
    count = rng.choice([1, 10, 10, 10, 100, 10_000])
    what = rng.randrange(6)
    if what == 0:
        return b"".join(b'{"k%d": 1}\n' % number for number in range(count))
    if what == 1:
        return b'{"a": ' + b"[" * count + b"]" * count + b"}\n"
    if what == 2:
        return b'{"a": ' * count + b"1" + b"}" * count
    if what == 3:
        return b'{"a": [' + b",".join(b'{"k%d": 1}' % number for number in range(count)) + b"]}\n"
    rows = [json.loads(line) for line in data.splitlines()]
    return "".join(json.dumps(spoil_value(rng, row) if rng.random() < 0.2 else row) + "\n" for row in rows).encode()


def _graph(rng: random.Random, world: World) -> tuple[Action, int]:
    path = world.copy("graph.json")
    spoil_file(rng, path, world.others_home)
    return _call("graph", path, *rng.choice([(), ("--dot",), ("--json",), ("--actions", "go,a")])), _size(path)


def _experiment(rng: random.Random, world: World) -> tuple[Action, int]:
    path = world.copy("table.toml")
    spoil_file(rng, path, world.others_home)
    if path.is_file() and rng.random() < 0.5:
        text = path.read_bytes()
        old = rng.choice([b"karel:A", b"[2]", b"1", b'"lstm"', b"at-most", b"4"])
        odd = json.dumps(rng.choice(ODD)).encode()
        path.write_bytes(text.replace(old, odd, 1)) if not path.is_symlink() else None
    return _function(lambda: find_experiment(str(path)).cells()), _size(path)


def _program(rng: random.Random, world: World) -> tuple[Action, int]:
    path = world.copy("program.karel")
    spoil_file(rng, path, world.others_home)
    if path.is_file() and not path.is_symlink() and rng.random() < 0.3:
        words = [
            "def",
            "run",
            "(",
            ")",
            "{",
            "}",
            ";",
            "if",
            "else",
            "while",
            "repeat",
            "not",
            "move",
            "turnLeft",
            "DEF",
            "m(",
            "m)",
            "WHILE",
            "c(",
            "c)",
            "R=4",
            "REPEAT",
            "r(",
            "r)",
        ]
        path.write_text(" ".join(rng.choices(words, k=rng.choice([10, 100, 20_000]))))
    return _function(lambda: named_or_file(str(path))), _size(path)


def _run(rng: random.Random, world: World) -> tuple[Action, int]:
    run = world.copy("run")
    files = [path for path in run.rglob("*") if path.is_file()]
    weights = [8 if path.name == "config.json" else 2 for path in files]
    for path in dict.fromkeys(rng.choices(files, weights, k=rng.choice([1, 1, 2]))):
        if os.path.lexists(path) and path.is_file() and not path.is_symlink():
            spoil_file(rng, path, world.others_home)
    if rng.random() < 0.05:
        shutil.rmtree(run / "checkpoint")
        (run / "checkpoint").symlink_to(world.others_home)
    if rng.random() < 0.05:
        link = run / rng.choice(["x", ".lock", "source.json", "explanation.json", "tensorboard"])
        link.unlink(missing_ok=True)
        link.symlink_to(world.others_home / "file")
    others = world.others_home / "private.csv"
    resume = ("fit", others, "--out", run, "--resume", "--no-baselines")
    commands: list[tuple[object, ...]] = [("evaluate", run, "--no-rollouts"), ("evaluate", run), resume]
    commands += [("infer", run, others, "--out", "x.npz"), ("explain", run), ("report", run), ("card", run)]
    commands.append(("runs", world.case))
    return _call(*rng.choices(commands, [6, 2, 2, 1, 1, 1, 2, 2])[0]), _size(run)


def _resumed(rng: random.Random, world: World) -> tuple[Action, int]:
    run = world.copy("run")
    files = [path for path in (run / "checkpoint").rglob("*") if path.is_file()]
    spoil_file(rng, rng.choice(files), world.others_home)
    traces = hvil.load_traces(world.originals / "run" / "traces.npz")
    return _function(lambda: hvil.fit(traces, "tree:2x2", out=run, resume=True, **(SETTINGS | {"updates": 3}))), _size(
        run
    )


def _records(rng: random.Random, world: World) -> tuple[Action, int]:
    records = world.copy("records")
    spoil_file(rng, records / rng.choice(["experiment.json", "records.jsonl"]), world.others_home)
    if rng.random() < 0.02:
        return _call("reproduce", "--from-records", records), _size(records)
    return _function(lambda: read_results(records)), _size(records)


COMMANDS = (
    "inspect",
    "evaluate",
    "graph",
    "explain",
    "report",
    "reproduce",
    "compare",
    "demos",
    "card",
    "runs",
    "infer",
)
"""Commands that an odd word is given to; those that are missing take none, or go to the network."""


def _words(rng: random.Random, world: World) -> tuple[Action, int]:
    path = world.copy("a.npz")
    value = rng.choice([*ODD, "9" * 400, "1e999", "-0", "tree:5x2", "complete:9", "\udcff", "a.npz", "0x10", "1_000"])
    flags = [
        "--updates",
        "--seed",
        "--demos",
        "--learning-rate",
        "--call-graph",
        "--model",
        "--hidden",
        "--limit",
        "--out",
    ]
    flags += ["--validation", "--trace-column", "--entropy-weight", "--counter", "--estimator", "--restarts", "--x"]
    arguments = ["fit", str(path), "--plan", rng.choice(flags), str(value).replace("\x00", "0")]
    if rng.random() < 0.3:
        arguments = [rng.choice(COMMANDS), str(value)]
    return _call(*arguments), _size(path)


KINDS = {
    kind.name: kind
    for kind in (
        Kind("npz", _traces("a.npz", _npz)),
        Kind("parquet", _traces("a.parquet", _parquet)),
        Kind("csv", _traces("a.csv", None)),
        Kind("json lines", _traces("a.jsonl", _json_lines)),
        Kind("arrow", _traces("a.feather", _arrow)),
        Kind("call graph", _graph),
        Kind("experiment", _experiment),
        Kind("program", _program),
        Kind("run", _run),
        Kind("checkpoint", _resumed),
        Kind("records", _records),
        Kind("words", _words),
    )
}
