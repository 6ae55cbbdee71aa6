"""`hvil demos`: write demonstrations of a task's teacher."""

import argparse
from typing import Any

SUMMARY = "Write demonstrations of a task, with the teacher's call structure if it has one. A seed gives the same file."
EXAMPLES = [
    "hvil demos bubblesort --count 100 --out bubblesort.npz",
    "hvil demos karel:F --count 100 --seed 7 --out karel_f.parquet",
    "hvil demos mnist-parity:0.7 --count 1000 --test --out parity_test.npz",
    "hvil demos karel:A --count 50 --out minari:hvil/karel-a-v0",
]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "task",
        metavar="TASK",
        help="bubblesort, karel:A to karel:F, karel:FILE, mnist-parity:P, thereandback, treewalk, or a domain of yours",
    )
    parser.add_argument("--count", type=int, default=100, metavar="N", help="how many traces (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="0 or more (default: %(default)s)")
    parser.add_argument("--out", required=True, metavar="FILE", help="a .npz or .parquet file, or minari:ID")
    parser.add_argument(
        "--test", action="store_true", help="test traces: independent draws; of MNIST the test images, true parity"
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Draw the traces, write them, say what they are."""
    # Imported here, for a fast start of the command line.
    from hvil.data import trace_files
    from hvil.data.sources import drawn
    from hvil.data.tasks import find_task
    from hvil.gate.errors import InputError

    if args.count < 1:
        raise InputError(f"--count {args.count}: expected at least 1")
    trace_files.check_target(args.out)
    task = find_task(args.task)
    traces = drawn(task, args.count, args.seed, test=args.test)
    trace_files.save(traces, args.out)
    if not args.json:
        print(f"{args.out}: {traces!r}")
    return {
        "out": args.out,
        "task": task.name,
        "count": len(traces),
        "seed": args.seed,
        "test": args.test,
        "actions": len(traces.actions),
        "mean_actions": float(traces.lengths.mean()),
        "longest": int(traces.lengths.max()),
        "annotated": traces.annotations is not None,
    }
