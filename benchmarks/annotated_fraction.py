"""How much is a known call structure worth: bubble-sort error against the fraction of annotated demonstrations.

    python -m benchmarks.annotated_fraction [--updates 5000] [--runs 3] [--out annotated_fraction]

Trains HVIL on 10 and on 30 demonstrations, a fraction of which keeps the teacher's call structure (the rest has none),
with the entropy schedule of the preset compressed to the number of updates. Every run is kept, a later call goes on.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from hvil.statistics import bootstrap_interval

DEMOS = (10, 30)
FRACTIONS = (0.0, 0.25, 0.5, 1.0)


def main() -> None:
    """Train every cell, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=5_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("annotated_fraction"))
    args = parser.parse_args()
    print("| demonstrations | annotated | error | 95% interval | runs |\n|---|---|---|---|---|")
    for demos in DEMOS:
        for fraction in FRACTIONS:
            errors = np.array([error(args.out, demos, fraction, args.updates, seed) for seed in range(args.runs)])
            interval = bootstrap_interval(errors)
            shown = "" if interval is None else f"{interval[0]:.0%} to {interval[1]:.0%}"
            print(f"| {demos} | {fraction:.0%} | {errors.mean():.0%} | {shown} | {len(errors)} |", flush=True)


def error(out: Path, demos: int, fraction: float, updates: int, seed: int) -> float:
    """The test error of one run."""
    run = out / f"{demos}-{fraction:g}-{updates}-{seed}"
    if not (run / "evaluation.json").exists():
        flags = {
            "--demos": demos,
            "--annotated-fraction": fraction,
            "--annotations": "use",
            "--updates": updates,
            "--entropy-decay-interval": max(updates // 20, 1),
            "--seed": seed,
            "--out": run,
        }
        command = [sys.executable, "-m", "hvil", "fit", "bubblesort", "--resume"]
        command += [str(part) for pair in flags.items() for part in pair]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return float(json.loads((run / "evaluation.json").read_text())["error"])


if __name__ == "__main__":
    main()
