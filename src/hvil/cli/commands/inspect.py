"""`hvil inspect`: describe a trace file, or say what is wrong with it (exit code 2)."""

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hvil.training.inspection import Inspection

SUMMARY = (
    "Describe a set of traces: lengths, actions, observations and what the networks would see of them, annotations, "
    "oddities. A file that cannot be used is an error (exit code 2) that names the problem and its place."
)
EXAMPLES = [
    "hvil inspect traces.parquet",
    "hvil inspect log.csv --trace-column episode --action-column move --observation-columns x,y,carrying --json",
]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    from hvil.data.settings import DataSettings
    from hvil.gate.settings import add_flags

    parser.add_argument("file", metavar="FILE", help="FILE.npz, FILE.parquet, FILE.csv or minari:ID")
    left_out = ("source", "demos", "test_traces", "validation", "annotated_fraction")
    add_flags(parser, DataSettings, leave_out=left_out)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Load the traces, describe them, print the description."""
    # Imports stand in the functions for start-up speed: `--help` needs none of them.
    from hvil.data.settings import DataSettings
    from hvil.data.sources import columns_of
    from hvil.data.trace_files import load
    from hvil.gate.settings import from_flags
    from hvil.training.inspection import inspect

    inspection = inspect(load(args.file, columns_of(from_flags(DataSettings, args))))
    if not args.json:
        _print(args.file, inspection)
    return {"file": args.file, **inspection.to_mapping()}


def _print(name: str, inspection: "Inspection") -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("what", "value", title=name)
    lengths = inspection.lengths
    table.add_row("traces", str(inspection.traces))
    table.add_row("steps", str(inspection.steps))
    table.add_row(
        "actions in a trace",
        f"{lengths['shortest']:.0f} to {lengths['longest']:.0f}, mean {lengths['mean']:.1f}, "
        f"median {lengths['median']:.0f}",
    )
    table.add_row("observation", f"shape {list(inspection.observation_shape)}, {inspection.observation_type}")
    annotated = f"{inspection.annotated:.0%} of the steps" if inspection.annotated else "no"
    table.add_row("annotated", annotated + (f": {', '.join(inspection.procedures)}" if inspection.annotated else ""))
    table.add_row("call graph by default", inspection.call_graph)
    console.print(table)
    total = max(sum(inspection.actions.values()), 1)
    actions = Table("action", "taken", "share")
    for action, count in list(inspection.actions.items())[:40]:
        actions.add_row(action, str(count), f"{count / total:.1%}")
    console.print(actions)
    if inspection.columns:
        columns = Table("column", "from", "to", "values", "seen as")
        for column in inspection.columns:
            columns.add_row(
                column.name, f"{column.low:.4g}", f"{column.high:.4g}", str(column.different), column.seen_as
            )
        console.print(columns)
    for oddity in inspection.oddities:
        console.print(f"note: {oddity}")
