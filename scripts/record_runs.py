"""Trains one run a seed and appends a record of each to a file; seeds that are there already are left out.

Usage: python scripts/record_runs.py FILE NAME SEEDS ARGUMENTS...

FILE is a file of JSON lines, NAME says what the settings are (`frozen`), SEEDS is a range such as 2000-2019, and
ARGUMENTS are those of `hvil fit`: `bubblesort --demos 30`. With `--explain` among them, the program of the run is
measured too. A record has what `hvil fit --json` prints, and the settings.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HVIL = [sys.executable, "-m", "hvil"]


def main() -> None:
    """Train what is missing, one seed after another."""
    file, name, seeds, *arguments = sys.argv[1:]
    explain = "--explain" in arguments
    arguments = [argument for argument in arguments if argument != "--explain"]
    first, _, last = seeds.partition("-")
    for seed in range(int(first), int(last or first) + 1):
        key = {"name": name, "command": " ".join(["hvil fit", *arguments]), "seed": seed}
        if not any(record.items() >= key.items() for record in read(Path(file))):
            record = key | train(arguments, seed, explain)
            with Path(file).open("a") as lines:
                lines.write(json.dumps(record) + "\n")
            print(name, arguments, seed, f"error {record['error']:.3f}, {record['seconds']:.0f} s", flush=True)


def read(file: Path) -> list[dict[str, Any]]:
    """The records that a file has."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def train(arguments: list[str], seed: int, explain: bool) -> dict[str, Any]:
    """Fit, and explain if asked for; what there is to record of it."""
    with tempfile.TemporaryDirectory() as directory:
        run = Path(directory) / "run"
        record = call(["fit", *arguments, "--seed", str(seed), "--out", str(run)])
        record.pop("run")
        config = json.loads((run / "config.json").read_text())
        record["settings"] = config["model"] | config["training"]
        if explain:
            program = call(["explain", str(run)])
            measured = call(["evaluate", str(run), "--program", "--traces", "1000"])
            record["program"] = {
                "error": measured["error"],
                "rollout_success": measured["rollout_success"],
                **{key: program[key] for key in ("lines", "policy_agreement", "teacher_agreement", "source")},
            }
        return record


def call(arguments: list[str]) -> dict[str, Any]:
    """What a command of hvil prints as JSON."""
    done = subprocess.run([*HVIL, *arguments, "--json"], stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


if __name__ == "__main__":
    main()
