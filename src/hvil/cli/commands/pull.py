"""`hvil pull`: fetch a run from the Hub."""

import argparse
from pathlib import Path
from typing import Any

SUMMARY = "Fetch a run from a repository of the Hub into a new directory. It needs the extra hub."
EXAMPLES = ["hvil pull me/bubble-sort", "hvil pull me/bubble-sort --out runs/theirs"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("repository", metavar="OWNER/NAME", help="the repository")
    parser.add_argument("--out", metavar="RUN", help="a new run directory (default: runs/NAME)")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Fetch it."""
    from hvil.training.hub import pull  # here, for a fast start

    out = pull(args.repository, Path(args.out or f"runs/{Path(args.repository).name}"))
    if not args.json:
        print(out)
    return {"repository": args.repository, "out": str(out)}
