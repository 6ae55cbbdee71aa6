"""`hvil compare`: several learners on the same demonstrations, with intervals, paired differences and a curve.

Imports are inside the functions, so that `--help` answers at once.
"""

import argparse
from typing import TYPE_CHECKING, Any

from hvil.cli.engines import add_engine_flags, engine_of

if TYPE_CHECKING:
    from hvil.experiments.comparison import Comparison

SUMMARY = (
    "Train learners on the same demonstrations and compare their errors: a table with 95% intervals over runs, paired "
    "differences, and a curve (PNG and SVG). Interrupt it and start it again: it continues where it was."
)
EXAMPLES = [
    "hvil compare karel:F --demos 10,40 --models hvil,lstm --runs 5",
    "hvil compare bubblesort --demos 30 --models lstm,lstm:learning_rate=0.003,updates=8000,feedforward",
    "hvil compare log.csv --demos 20,50 --models hvil,feedforward --runs 3",
    "hvil compare karel:A --demos 10,20 --models hvil:call_graph=tree:5x1,hvil:call_graph=tree:5x2 --json",
]

FILE_WIDTH = 120
"""The least width of the tables in a file or a pipe: a learner with its settings and eight numbers fit in a line."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    from hvil.gate.settings import add_flags
    from hvil.learners.settings import TrainingSettings

    parser.add_argument(
        "task",
        metavar="SOURCE",
        help="bubblesort, karel:A to karel:F, mnist-parity:0.7, thereandback, treewalk, …, or a file of traces",
    )
    parser.add_argument("--demos", default="10,20,40", metavar="N,N,…", help="training traces (default: %(default)s)")
    parser.add_argument(
        "--models",
        default="hvil,lstm",
        metavar="LEARNER,…",
        help="learners; a learner may be followed by settings (lstm:learning_rate=0.003,updates=8000) or by :best, "
        "the best settings that we have for a baseline (default: %(default)s)",
    )
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="training sets (default: %(default)s)")
    parser.add_argument("--test-traces", type=int, default=100, metavar="N", help="for each run (default: %(default)s)")
    add_engine_flags(parser, "cells")
    parser.add_argument("--out", metavar="DIR", help="where records and pictures go (default: runs/compare-TASK)")
    parser.add_argument(
        "--only-named", action="store_true", help="do not add a baseline with its best settings beside the paper's"
    )
    add_flags(parser, TrainingSettings)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the cells that have no record, and show all of them."""
    import sys
    from pathlib import Path

    from hvil.data.sources import short_name
    from hvil.experiments.comparison import compare, comparison_table
    from hvil.experiments.variants import variants, with_best
    from hvil.gate.errors import InputError
    from hvil.gate.progress import sweep_progress

    for name in ("runs", "test_traces"):
        value = getattr(args, name)
        if value < 1:
            raise InputError(f"--{name.replace('_', '-')} {value}: expected at least 1")
    engine = engine_of(args)
    demos, overrides = _numbers(args.demos), _overrides(args)
    learners = variants(args.models, args.task, overrides)
    if not args.only_named:
        learners = with_best(learners, args.task, overrides)
    table = comparison_table(args.task, demos, learners, args.runs, args.test_traces)
    out = Path(args.out or f"runs/compare-{short_name(args.task)}")
    with sweep_progress(f"learners on {args.task}") as progress:
        comparison = compare(table, out, args.workers, progress, engine)
    for failure in comparison.failures:
        print(f"{failure.key}: {failure.reason}", file=sys.stderr)
    if not args.json:
        _print(comparison)
    return comparison.to_mapping()


def _print(comparison: "Comparison") -> None:
    from hvil.experiments.outcome.points import table_of_differences, table_of_errors
    from hvil.gate.text import console

    terminal = console(width=FILE_WIDTH)
    terminal.print(table_of_errors(comparison.points, comparison.experiment.title))
    differences = table_of_differences(comparison.points)
    if differences is not None:
        terminal.print(differences)
    png, svg = comparison.pictures
    terminal.print(f"records in {comparison.directory / 'cells'}, pictures {png} and {svg}")


def _overrides(args: argparse.Namespace) -> dict[str, Any]:
    """The training settings that were given as flags."""
    from dataclasses import fields

    from hvil.learners.settings import TrainingSettings

    values = {entry.name: getattr(args, entry.name) for entry in fields(TrainingSettings) if entry.name != "seed"}
    return {name: value for name, value in values.items() if value is not None}


def _numbers(text: str) -> list[int]:
    from hvil.gate.errors import InputError

    try:
        numbers = sorted({int(word) for word in text.split(",")})
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < 1:
        raise InputError(f"--demos {text}: expected numbers of traces, such as 10,20,40")
    return numbers
