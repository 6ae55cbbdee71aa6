"""`hvil reproduce`: a figure of the paper, or an experiment of one's own, from its table to the verdicts.

Imports are inside the functions, so that `--help` answers at once.
"""

import argparse
from typing import TYPE_CHECKING, Any

from hvil.cli.engines import add_engine_flags, engine_of

if TYPE_CHECKING:
    from hvil.experiments.outcome.results import Results
    from hvil.experiments.reproduce import Shown
    from hvil.gate.engine.local import Engine

SUMMARY = (
    "Run a figure of the paper (acausal, bubblesort, karel-data, karel-length), an ablation (ablations-bubblesort, "
    "ablations-karel) or an experiment of your own (a .toml file, or with --trust a .py file): every cell once, on "
    "this machine or a Ray cluster; then draw it and judge the claims. Interrupt it and start it again: it continues "
    "where it was."
)
EXAMPLES = [
    "hvil reproduce karel-data --preset quick",
    "hvil reproduce my_experiment.toml --workers 2 --out results/mine",
    "hvil reproduce bubblesort --preset ours --models HVIL LSTM --sizes 30",
    "hvil reproduce bubblesort --preset paper --engine ray --ray-address 10.0.0.5:6379",
    "hvil reproduce --from-records results/bubblesort",
]

FILE_WIDTH = 160
"""The least width of the table in a file or a pipe: a claim, its numbers and its verdict fit in a line."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("experiment", metavar="FIGURE|FILE", nargs="?", help="what to run; see above")
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help="ours (our settings), paper (as its authors ran it), quick (a part of ours; the default)",
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run an experiment that is a Python file (it can do anything), or one that names files elsewhere",
    )
    for kind, example in (("panels", "'(a) p = 0.6'"), ("models", "HVIL LSTM"), ("sizes", "10 30")):
        parser.add_argument(
            f"--{kind}",
            metavar="SIZE" if kind == "sizes" else "NAME",
            nargs="+",
            type=int if kind == "sizes" else str,
            default=[],
            help=f"run the cells with these {kind} only, such as {example}; other records stay",
        )
    add_engine_flags(parser, "cells")
    parser.add_argument(
        "--out", metavar="DIR", help="where it all goes (default: results/NAME, or results/NAME-PRESET)"
    )
    parser.add_argument("--from-records", metavar="DIR", help="run nothing: draw and judge the records that are in DIR")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the cells that have no record, then show all of them."""
    from hvil.gate.errors import InputError

    engine = engine_of(args)
    if args.from_records:
        if args.experiment or args.preset or args.panels or args.models or args.sizes:
            raise InputError("--from-records draws what the records are of: name no figure, preset or part")
        return _show_records(args)
    if not args.experiment:
        raise InputError("name a figure or a file (see hvil reproduce --help)")
    return _run_experiment(args, engine)


def _show_records(args: argparse.Namespace) -> dict[str, Any]:
    from pathlib import Path

    from hvil.experiments.outcome.results import read_results, write_results
    from hvil.experiments.reproduce import show

    results = read_results(Path(args.from_records))
    out = Path(args.out or args.from_records)
    out.mkdir(parents=True, exist_ok=True)
    if args.out:
        write_results(results, out)
    return _shown(args, results, show(results, out))


def _run_experiment(args: argparse.Namespace, engine: "Engine") -> dict[str, Any]:
    import sys
    from pathlib import Path

    from hvil.experiments.experiment import Part
    from hvil.experiments.experiment_files import find_experiment
    from hvil.experiments.reproduce import default_directory, run_experiment, show
    from hvil.gate.progress import sweep_progress

    table = find_experiment(args.experiment, trust=args.trust)
    preset = args.preset or ("quick" if "quick" in table.presets else None)
    experiment = table.preset(preset) if preset else table
    out = Path(args.out or default_directory(experiment, preset))
    with sweep_progress(experiment.name) as progress:
        results, failures = run_experiment(
            experiment,
            out,
            preset=preset,
            source=args.experiment,
            part=Part(panels=tuple(args.panels), models=tuple(args.models), sizes=tuple(args.sizes)),
            workers=args.workers,
            engine=engine,
            on_progress=progress,
        )
    for failure in failures:
        print(f"{failure.key}: {failure.reason}", file=sys.stderr)
    if not results.records:
        raise OSError("no cell succeeded")
    return _shown(args, results, show(results, out)) | {"failures": [failure._asdict() for failure in failures]}


def _shown(args: argparse.Namespace, results: "Results", shown: "Shown") -> dict[str, Any]:
    """Print the verdicts, and return what `--json` prints."""
    from rich.table import Table

    from hvil.gate.text import console, in_line

    if not args.json:
        terminal = console(width=FILE_WIDTH)
        if shown.findings:
            table = Table("claim", "measured", "verdict", title=in_line(results.experiment.title))
            for finding in shown.findings:
                words = f"  {finding.panel}" if finding.panel else f"{finding.claim.ours}: {finding.claim.says}"
                table.add_row(in_line(words), in_line(finding.measured or "–"), str(finding.verdict))
            terminal.print(table)
        terminal.print(f"{len(results.records)} of {results.expected} records; {shown.page}")
    return {
        "experiment": results.experiment.name,
        "preset": results.preset,
        "records": len(results.records),
        "expected": results.expected,
        "findings": [
            {
                "claim": finding.claim.says,
                "ours": finding.claim.ours,
                "theirs": finding.claim.theirs,
                "panel": finding.panel,
                "measure": finding.claim.measure,
                "measured": finding.measured,
                "verdict": str(finding.verdict),
            }
            for finding in shown.findings
        ],
        "pictures": [str(path) for path in shown.pictures],
        "page": str(shown.page),
    }
