"""Prints the table of docs/domains.md: demonstrations of the paper's Karel programs, on one core.

Usage: python scripts/karel_table.py [COUNT]
"""

import sys
import time

import numpy as np

from hvil.domains.karel import PROGRAMS, Outcome, generate, parse
from hvil.domains.karel.compiler import run
from hvil.domains.karel.generator import GROUP

# What a correct generator gives: mean number of actions, share of random grids that terminate without a crash.
REFERENCE = {
    "A": (3.7, 0.19),
    "B": (3.7, 0.19),
    "C": (4.0, 0.22),
    "D": (12.3, 0.63),
    "E": (12.4, 0.63),
    "F": (14.5, 0.67),
}


def main() -> None:
    """Generate, check that every group covers, print one row a program."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    generate(parse(PROGRAMS["A"]), GROUP, seed=0)  # compiles the machine, or loads it
    print(
        "| program | mean actions (reference) | longest | share of grids that terminate (reference) "
        "| groups that cover | seconds |"
    )
    print("|---|---|---|---|---|---|")
    for name, source in PROGRAMS.items():
        start = time.perf_counter()
        made = generate(parse(source), count, seed=0)
        seconds = time.perf_counter() - start
        lengths = np.diff(made.recording.offsets)
        runs = run(made.code, made.grids.worlds)
        assert (runs.outcomes == Outcome.FINISHED).all()
        whole = count // GROUP * GROUP
        covers = runs.covered[:whole].reshape(-1, GROUP, len(made.code.points)).any(axis=1).all(axis=1)
        print(
            f"| {name} | {lengths.mean():.2f} ({REFERENCE[name][0]}) | {lengths.max()} | "
            f"{made.terminated / made.drawn:.3f} ({REFERENCE[name][1]}) | {covers.mean():.0%} | {seconds:.1f} |"
        )


if __name__ == "__main__":
    main()
