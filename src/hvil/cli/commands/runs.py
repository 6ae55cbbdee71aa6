"""`hvil runs`: a table of the runs in a directory, with their errors."""

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

SUMMARY = (
    "Tabulate the runs in a directory, also those further inside: what each learned from, with which learner, "
    "how long, and its error on test traces. The error is the share of traces with at least one wrong action."
)
EXAMPLES = ["hvil runs runs", "hvil runs runs --json"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("directory", metavar="DIR", nargs="?", default="runs", help="where to look (default: runs)")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Find the runs, and print what their files say."""
    # Imports stand in the functions for start-up speed: `--help` needs none of them.
    import os
    from pathlib import Path

    from rich.table import Table

    from hvil.gate.errors import InputError
    from hvil.gate.text import console, in_line
    from hvil.training.run_files import CONFIG

    directory = Path(args.directory)
    if not os.path.isdir(directory):  # of a name that no directory can have, a path itself would say so as an error
        raise InputError(f"{directory}: no such directory")
    runs = [_summary(file.parent, directory) for file in sorted(directory.rglob(CONFIG))]
    if not args.json:
        table = Table("run", "learner", "data", "updates", "error", "95% interval", title=in_line(str(directory)))
        for entry in runs:
            error, interval = entry["error"], entry["error_interval"]
            between = "" if interval is None else f"{interval[0]:.1%} to {interval[1]:.1%}"
            shown = entry["problem"] or ("–" if error is None else f"{error:.1%}")
            words = [entry["run"], entry["learner"] or "–", entry["data"] or "–", str(entry["updates"] or "–")]
            table.add_row(*map(in_line, [*words, shown, between]))
        console().print(table)
    return {"directory": str(directory), "runs": runs}


def _summary(path: "Path", directory: "Path") -> dict[str, Any]:
    """What the files of a run say; a file that cannot be read is the run's problem, not the table's."""
    from hvil.data.sources import short_name
    from hvil.gate.border import given_directory
    from hvil.gate.errors import InputError
    from hvil.training.evaluation_file import read_evaluation
    from hvil.training.run import read_config

    summary: dict[str, Any] = {"run": str(path.relative_to(directory)), "learner": None, "data": None}
    summary |= {"updates": None, "error": None, "error_interval": None, "problem": None}
    try:
        config = read_config(given_directory(path))
        source = config.data.source
        summary |= {"learner": config.learner, "data": config.task or (short_name(source) if source else "traces")}
        evaluation = read_evaluation(path)
        summary |= {name: evaluation.get(name) for name in ("updates", "error", "error_interval")}
    except InputError as error:
        summary["problem"] = str(error)
    return summary
