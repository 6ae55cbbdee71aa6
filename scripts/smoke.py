"""Tries a wheel or an sdist as a stranger would: a clean environment, an empty directory, no repository.

`python scripts/smoke.py dist/hvil-*.whl [--constraint FILE]` makes a virtual environment, installs the file into it,
and runs the commands below there. It ends with an error at the first that fails.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

COMMANDS = (
    "doctor",
    "completion bash",
    "demo --updates 20",
    "demos thereandback --count 20 --out walks.parquet",
    "fit walks.parquet --updates 20 --out run",
    "evaluate run",
    "card run",
)


def main() -> None:
    """Install, then run every command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("distribution", type=Path)
    parser.add_argument("--constraint", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hvil-smoke-") as folder:
        home = Path(folder)
        venv.create(home / "venv", with_pip=True)
        commands = home / "venv" / ("Scripts" if os.name == "nt" else "bin")
        constraint = ["--constraint", str(args.constraint.resolve())] if args.constraint else []
        surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

        def run(*command: str) -> None:
            print("$", *command, flush=True)
            subprocess.run(command, check=True, cwd=home, env=surroundings | {"XDG_CACHE_HOME": str(home / "cache")})

        run(str(commands / "python"), "-m", "pip", "install", "--quiet", *constraint, str(args.distribution.resolve()))
        for command in COMMANDS:
            run(str(commands / "hvil"), *command.split())
    print(f"{args.distribution.name} works on Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
