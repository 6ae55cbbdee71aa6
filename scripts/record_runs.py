"""Trains one run a seed and appends a record of each to a file; seeds that are there already are left out.

    python scripts/record_runs.py [--explain] [--beyond TASK] FILE NAME SEEDS ARGUMENTS...

FILE is a file of JSON lines, NAME says what the settings are (`frozen`), SEEDS is a range such as 2000-2019, and
ARGUMENTS are those of `hvil fit`: `bubblesort --demos 30`. A record has what `hvil fit --json` prints, and the
settings. With `--explain` the program of the run is measured too. With `--beyond TASK` the run, and its program if that
is asked for, are also tested on 200 traces of another task, such as `bubblesort:20-50`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HVIL = [sys.executable, "-m", "hvil"]
OF_PROGRAM = ("lines", "policy_agreement", "teacher_agreement", "source")


def main() -> None:
    """Train what is missing, one seed after another."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--explain", action="store_true", help="measure the program, too")
    parser.add_argument("--beyond", metavar="TASK", help="measure on another task, too")
    parser.add_argument("file", type=Path)
    parser.add_argument("name")
    parser.add_argument("seeds")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    first, _, last = args.seeds.partition("-")
    for seed in range(int(first), int(last or first) + 1):
        key = {"name": args.name, "command": " ".join(["hvil fit", *args.arguments]), "seed": seed}
        if not any(record.items() >= key.items() for record in read(args.file)):
            record = key | train(args.arguments, seed, args.explain, args.beyond)
            with args.file.open("a") as lines:
                lines.write(json.dumps(record) + "\n")
            print(key, f"error {record['error']:.3f}, {record['seconds']:.0f} s", flush=True)


def read(file: Path) -> list[dict[str, Any]]:
    """The records that a file has."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def train(arguments: list[str], seed: int, explain: bool, beyond: str | None) -> dict[str, Any]:
    """Fit, and explain if asked for; what there is to record of it."""
    with tempfile.TemporaryDirectory() as directory:
        run = str(Path(directory) / "run")
        record = call("fit", *arguments, "--seed", str(seed), "--out", run)
        record.pop("run")
        config = json.loads((Path(run) / "config.json").read_text())
        record["settings"] = config["model"] | config["training"]
        if beyond:
            record["beyond"] = errors("evaluate", run, beyond, "--traces", "200")
        if explain:
            program = call("explain", run)
            record["program"] = errors("evaluate", run, "--program", "--traces", "1000")
            record["program"] |= {key: program[key] for key in OF_PROGRAM}
            if beyond:
                record["program"]["beyond"] = errors("evaluate", run, beyond, "--program", "--traces", "200")
        return record


def errors(*words: str) -> dict[str, Any]:
    """What a record has of an evaluation."""
    measured = call(*words)
    return {key: measured[key] for key in ("error", "rollout_success")}


def call(*words: str) -> dict[str, Any]:
    """What a command of hvil prints as JSON."""
    done = subprocess.run([*HVIL, *words, "--json"], stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


if __name__ == "__main__":
    main()
