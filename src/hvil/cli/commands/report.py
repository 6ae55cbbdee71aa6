"""`hvil report`: one HTML page to read a run and to step through its episodes."""

import argparse
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from hvil.analysis.report.content import Program
    from hvil.training.run import Run

READABLE, WIDE, FAITHFUL = 60, 240, 0.5
"""Lines, characters of a line, and agreement with the policy, up to which a program says something."""
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
    parser.add_argument("--out", metavar="FILE", help="where to write (default: report.html in the run directory)")
    parser.add_argument(
        "--episodes", type=int, default=12, metavar="N", help="episodes in the player, at most (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Play, gather, write."""
    from hvil.analysis.report import PLAYED, write_report
    from hvil.gate.errors import InputError
    from hvil.gate.progress import progress_bar
    from hvil.training.run import load

    if args.episodes < 1:
        raise InputError(f"--episodes {args.episodes}: expected at least 1")
    loaded = load(args.run)
    with progress_bar("episodes", max(args.episodes, PLAYED)) as progress:
        path, made = write_report(loaded, args.out, episodes=args.episodes, program=_program(loaded), progress=progress)
    size = path.stat().st_size
    if not args.json:
        print(f"{path}: {made.episodes} of {made.played} episodes, {made.successes} successes, {size / 1e6:.1f} MB")
    return {
        "run": str(args.run),
        "out": str(path),
        "bytes": size,
        "episodes": made.episodes,
        "played": made.played,
        "successes": made.successes,
        "program": made.program,
    }


def _program(loaded: "Run") -> "Program | None":
    """The extracted program; of data without a task's own words only one that can be read and believed."""
    from hvil.gate.errors import InputError

    try:
        explanation = loaded.explain()
    except InputError:
        return None
    short = explanation.lines <= READABLE and max(map(len, explanation.source.splitlines())) <= WIDE
    if loaded.config.task is None and not (short and explanation.policy_agreement >= FAITHFUL):
        return None
    return cast("Program", explanation)
