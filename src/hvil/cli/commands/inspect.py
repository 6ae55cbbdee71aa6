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
    "hvil inspect logs/",
    "hvil inspect monday.csv tuesday.csv.gz",
    "hvil inspect log.csv --trace-column episode --action-column move --observation-columns x,y,carrying --json",
]
FILES = "trace files (.npz, .parquet, .csv, .tsv, .jsonl, .feather; text also as .gz), a pattern, a directory"
"""What a source may be beside a task."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    from hvil.data.settings import DataSettings
    from hvil.gate.settings import add_flags

    parser.add_argument("file", metavar="FILE", nargs="+", help=f"{FILES}, or minari:ID")
    left_out = ("source", "demos", "test_traces", "validation", "stream", "annotated_fraction")
    add_flags(parser, DataSettings, leave_out=left_out)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Load the traces, describe them, print the description."""
    # Imports stand in the functions for start-up speed: `--help` needs none of them.
    from hvil.data.file_names import joined
    from hvil.data.settings import DataSettings
    from hvil.data.sources import is_file, traces_from
    from hvil.gate.errors import InputError
    from hvil.gate.settings import from_flags
    from hvil.training.inspection import inspect

    settings, file = from_flags(DataSettings, args), joined(args.file)
    if not is_file(file):
        raise InputError(f"{file}: no such file or directory, or of an unknown format; expected {FILES}, or minari:ID")
    inspection = inspect(traces_from(file, settings), settings.pictures)
    if not args.json:
        _print(file, inspection)
    return {"file": file, **inspection.to_mapping()}


def _print(name: str, inspection: "Inspection") -> None:
    from rich.table import Table

    from hvil.gate.text import console, in_line

    terminal = console()
    table = Table("what", "value", title=in_line(name))
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
    procedures = in_line(", ".join(inspection.procedures))
    table.add_row("annotated", annotated + (f": {procedures}" if inspection.annotated else ""))
    table.add_row("call graph by default", inspection.call_graph)
    terminal.print(table)
    total = max(sum(inspection.actions.values()), 1)
    if inspection.continuous:
        actions = Table("continuous action", "from", "to", "values", "seen as")
        for number in inspection.continuous:
            actions.add_row(
                in_line(number.name), f"{number.low:.4g}", f"{number.high:.4g}", str(number.different), number.seen_as
            )
    else:
        actions = Table("action", "taken", "share")
        for action, count in list(inspection.actions.items())[:40]:
            actions.add_row(in_line(action), str(count), f"{count / total:.1%}")
    terminal.print(actions)
    if inspection.table:
        read = Table("column of the file", "how it is read", "changed by")
        for column in inspection.table:
            read.add_row(in_line(column.name), in_line(column.read_as), column.flag)
        terminal.print(read)
    if inspection.columns:
        columns = Table("number", "from", "to", "values", "seen as")
        for number in inspection.columns:
            columns.add_row(
                in_line(number.name), f"{number.low:.4g}", f"{number.high:.4g}", str(number.different), number.seen_as
            )
        terminal.print(columns)
    for oddity in inspection.oddities:
        terminal.print(f"note: {in_line(oddity)}")
