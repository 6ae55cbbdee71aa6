"""`hvil push`: send a run to the Hub."""

import argparse
from pathlib import Path
from typing import Any

SUMMARY = (
    "Send a run with its card to a repository of the Hub. Traces of your own stay here. It needs the extra hub, and an "
    "account: `hf auth login`, or a token in HF_TOKEN."
)
EXAMPLES = ["hvil push runs/sort me/bubble-sort", "hvil push runs/sort me/bubble-sort --private"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("run", metavar="RUN", help="a run directory")
    parser.add_argument("repository", metavar="OWNER/NAME", help="the repository; it is made if it is not there")
    parser.add_argument("--private", action="store_true", help="make a new repository private")
    parser.add_argument(
        "--report",
        action="store_true",
        help="send the report of a run on your own traces, too: it shows some of them",
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Send it."""
    from hvil.training.hub import push  # here, for a fast start

    address = push(Path(args.run), args.repository, private=args.private, report=args.report)
    if not args.json:
        print(address)
    return {"run": str(args.run), "repository": args.repository, "address": address}
