"""`hvil bench`: speed, as ratios in one run. `hvil.experiments.bench` says which ratios.

Imports are inside the functions, so that `--help` answers at once.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

SUMMARY = "Measure the speed of updates, generation, evaluation and start-up on this machine, in one run."
EXAMPLES = ["hvil bench", "hvil bench --json > bench.json", "hvil bench --out bench --repeats 50"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--repeats", type=int, default=40, help="updates timed each (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="directory for bench.json and bench.png")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Measure, print the table, write the files."""
    from hvil.experiments.bench.run import measure, picture, table
    from hvil.gate.errors import InputError
    from hvil.gate.files import write_json
    from hvil.gate.text import console

    if args.repeats < 1:
        raise InputError("--repeats must be at least 1")
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
    result = measure(args.repeats, lambda what: print(f"measuring: {what}", file=sys.stderr))
    if args.out:
        write_json(args.out / "bench.json", result)
        picture(result, args.out / "bench.png")
    if not args.json:
        console().print(table(result))
    return result
