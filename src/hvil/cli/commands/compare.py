"""`hvil compare`: several learners on the same demonstrations, with intervals, paired differences and a curve."""

import argparse
from typing import Any

SUMMARY = (
    "Train learners on the same demonstrations and compare their errors: a table with 95% intervals over runs, paired "
    "differences, and a curve (PNG and SVG). Interrupt it and start it again: it continues where it was."
)
EXAMPLES = [
    "hvil compare karel:F --demos 10,40 --models hvil,lstm --runs 5",
    "hvil compare bubblesort --demos 30 --models lstm,lstm:learning_rate=0.003,updates=8000,feedforward",
    "hvil compare karel:A --demos 10,20 --models hvil:call_graph=tree:5x1,hvil:call_graph=tree:5x2 --json",
]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    from hvil.gate.settings import add_flags
    from hvil.learners.settings import TrainingSettings

    parser.add_argument("task", metavar="TASK", help="bubblesort, karel:A to karel:F, mnist-parity:0.7, …")
    parser.add_argument("--demos", default="10,20,40", metavar="N,N,…", help="training traces (default: %(default)s)")
    parser.add_argument(
        "--models",
        default="hvil,lstm",
        metavar="LEARNER,…",
        help="learners; a learner may be followed by settings (lstm:learning_rate=0.003,updates=8000) or by :best, "
        "the best settings found for a baseline (default: %(default)s)",
    )
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="training sets (default: %(default)s)")
    parser.add_argument("--test-traces", type=int, default=100, metavar="N", help="for each run (default: %(default)s)")
    parser.add_argument(
        "--workers", type=int, metavar="K", help="processes, one thread each (default: one a processor)"
    )
    parser.add_argument("--out", metavar="DIR", help="where records and pictures go (default: runs/compare-TASK)")
    parser.add_argument(
        "--only-named", action="store_true", help="do not add the best settings found for a baseline beside the paper's"
    )
    add_flags(parser, TrainingSettings)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the cells that have not been run, and show all of them."""
    import sys
    from dataclasses import fields
    from pathlib import Path

    from rich.console import Console

    from hvil.data.sources import short_name
    from hvil.experiments import comparison
    from hvil.experiments.engine.sweep import sweep
    from hvil.experiments.variants import variants, with_best
    from hvil.gate.errors import InputError
    from hvil.gate.files import write_json
    from hvil.gate.progress import progress_bar
    from hvil.learners.settings import TrainingSettings

    for name in ("runs", "test_traces", "workers"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise InputError(f"--{name.replace('_', '-')} {value}: expected at least 1")
    demos = _numbers(args.demos)
    overrides = {entry.name: getattr(args, entry.name) for entry in fields(TrainingSettings) if entry.name != "seed"}
    overrides = {name: value for name, value in overrides.items() if value is not None}
    learners = variants(args.models, args.task, overrides)
    if not args.only_named:
        learners = with_best(learners, args.task, overrides)
    cells = comparison.comparison_cells(args.task, demos, learners, args.runs, args.test_traces)
    out = Path(args.out or f"runs/compare-{short_name(args.task)}")
    with progress_bar(f"{len(cells)} trainings on {args.task}", 1000) as bar:
        swept = sweep(list(cells.values()), out, args.workers, lambda share: bar(round(1000 * share)))
    for failure in swept.failures:
        print(f"{failure.key}: {failure.reason}", file=sys.stderr)
    points = comparison.summarise(cells, swept.records)
    if not points:
        raise OSError("no training succeeded")
    title = f"{args.task}, {args.test_traces} test traces a run"
    pictures = comparison.draw(points, args.task, out)
    result = {
        "task": args.task,
        "out": str(out),
        "points": [comparison.to_mapping(point) for point in points],
        "learners": {learner.name: dict(learner.settings) for learner in learners},
        "pictures": [str(path) for path in pictures],
        "failures": [failure._asdict() for failure in swept.failures],
    }
    write_json(out / "comparison.json", result)
    if not args.json:
        console = Console()
        if not console.is_terminal:
            console.width = max(console.width, 120)
        console.print(comparison.table(points, title))
        pairs = comparison.differences(points)
        if pairs is not None:
            console.print(pairs)
        console.print(f"records in {out / 'cells'}, pictures {pictures[0]} and {pictures[1]}", highlight=False)
    return result


def _numbers(text: str) -> list[int]:
    from hvil.gate.errors import InputError

    try:
        numbers = sorted({int(word) for word in text.split(",")})
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < 1:
        raise InputError(f"--demos {text}: expected numbers of traces, such as 10,20,40")
    return numbers
