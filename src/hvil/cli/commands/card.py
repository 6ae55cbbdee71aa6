"""`hvil card`: the model card of a run."""

import argparse
from pathlib import Path
from typing import Any

SUMMARY = "Write the model card of a run: its data, errors, program and settings on one Markdown page."
EXAMPLES = ["hvil card runs/sort", "hvil card runs/sort --out card.md"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("run", metavar="RUN", help="a run directory")
    parser.add_argument("--out", metavar="FILE", help="where to write (default: README.md in the run directory)")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Load the run and write its card."""
    # Imports stand in the function for start-up speed: `--help` needs none of them.
    from hvil.training.card import write_card
    from hvil.training.run import load

    path = write_card(load(args.run), None if args.out is None else Path(args.out))
    if not args.json:
        print(path)
    return {"run": str(args.run), "out": str(path)}
