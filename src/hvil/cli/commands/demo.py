"""`hvil demo`: a tour in four steps, each of them a command that you could type yourself."""

import argparse
from typing import Any

SUMMARY = (
    "Learn Karel's program F from 10 demonstrations: as procedures on a call stack, and as an LSTM on the same data. "
    "Then print the learned program, and write the report. It takes a few minutes."
)
EXAMPLES = ["hvil demo", "hvil demo --out tour"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--out", default="demo", metavar="DIR", help="a new directory (default: %(default)s)")
    parser.add_argument(
        "--updates", type=int, metavar="N", help="train less than by default: shows the way, not the result"
    )


def steps(out: str, updates: int | None = None) -> list[tuple[str, str, list[str]]]:
    """The tour: of each step its name, what is said before it, and the command."""
    short = [] if updates is None else ["--updates", str(updates)]
    fit = ["fit", "karel:F", "--demos", "10", *short]
    return [
        (
            "hvil",
            "Learning Karel's program F from 10 demonstrations, as procedures on a call stack.",
            [*fit, "--out", f"{out}/hvil"],
        ),
        ("lstm", "The same demonstrations, as an LSTM.", [*fit, "--model", "lstm", "--out", f"{out}/lstm"]),
        (
            "lstm_best",
            "The same LSTM, but it also sees its last action, as the procedures do: the best setting found for it.",
            [*fit, "--model", "lstm", "--last-action", "--out", f"{out}/lstm-best"],
        ),
        ("program", "The learned procedures as code.", ["explain", f"{out}/hvil"]),
        ("report", "The page to step through it.", ["report", f"{out}/hvil"]),
    ]


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the commands one after the other."""
    # Imports stand in the function for start-up speed: `--help` needs none of them.
    import io
    import json
    import sys
    from contextlib import nullcontext, redirect_stdout
    from pathlib import Path

    from hvil.cli.main import main
    from hvil.gate.errors import InputError

    if Path(args.out).exists():
        raise InputError(f"{args.out}: exists already; choose another directory with --out")
    results: dict[str, Any] = {}
    for name, words, command in steps(args.out, args.updates):
        print(f"\n{words}\n$ hvil {' '.join(command)}", file=sys.stderr if args.json else sys.stdout, flush=True)
        printed = io.StringIO()
        with redirect_stdout(printed) if args.json else nullcontext():
            code = main([*command, "--json"] if args.json else command)
        if code == 130:
            raise KeyboardInterrupt
        if code:
            raise OSError(f"the step `hvil {' '.join(command)}` failed; the line above says why")
        results[name] = json.loads(printed.getvalue()) if args.json else None
    if not args.json:
        print(f"\nOpen {args.out}/hvil/report.html in a browser.")
    return {"out": args.out, **results}
