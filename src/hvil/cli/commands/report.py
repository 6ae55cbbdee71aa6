"""`hvil report`: one HTML page to read a run and to step through its episodes."""

import argparse
from typing import Any

from hvil.cli.engines import add_source_flag

SUMMARY = (
    "Write one self-contained HTML file: error and curves, the call graph, the extracted program, and a player for "
    "episodes with their call stack. It opens from disk and needs no network."
)
EXAMPLES = [
    "hvil report runs/karel-F-hvil-0",
    "hvil report runs/karel-F-hvil-0 --episodes 20 --out karel.html",
]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("run", metavar="RUN", help="a run directory")
    add_source_flag(parser)
    parser.add_argument("--out", metavar="FILE", help="where to write (default: report.html in the run directory)")
    parser.add_argument(
        "--episodes", type=int, default=12, metavar="N", help="episodes in the player, at most (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Load the run, write its report, say what is in it."""
    # Imports stand in the function for start-up speed: `--help` needs none of them.
    from hvil.gate.errors import InputError
    from hvil.training.run import load

    if args.episodes < 1:
        raise InputError(f"--episodes {args.episodes}: expected at least 1")
    path, report = load(args.run, args.own_source).report(args.out, episodes=args.episodes)
    size = path.stat().st_size
    if not args.json:
        print(
            f"{path}: {report.episodes} of {report.played} episodes, {report.successes} successes, {size / 1e6:.1f} MB"
        )
    return {
        "run": str(args.run),
        "out": str(path),
        "bytes": size,
        "episodes": report.episodes,
        "played": report.played,
        "successes": report.successes,
        "program": report.program,
    }
