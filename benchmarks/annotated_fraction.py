"""How much is a known call structure worth: bubble-sort error against the fraction of annotated demonstrations.

    python -m benchmarks.annotated_fraction [--updates 2000] [--runs 2] [--out annotated_fraction]

Trains HVIL on 10 and on 30 demonstrations, a fraction of which keeps the teacher's call structure (the rest has none),
with the entropy schedule of the preset compressed to the number of updates. Every run is kept, a later call goes on;
`errors.json` holds what is done so far, the table and the picture come after each round of runs.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hvil.experiments.outcome.plots import COLOURS, MARKERS, drawing, save_figure
from hvil.gate.files import write_json

DEMOS = (10, 30)
FRACTIONS = (0.0, 0.1, 0.25, 0.5, 1.0)
DECAYS = 20
"""The entropy weight falls so often in the 20,000 updates of the preset, and here too."""


class Cell(NamedTuple):
    """One place on the curve, and the test error of each run there."""

    demos: int
    fraction: float
    errors: list[float]


def main() -> None:
    """Train what is missing, a run of every cell before the next run; after each round print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=2_000)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("annotated_fraction"))
    args = parser.parse_args()
    cells = [Cell(demos, fraction, []) for demos in DEMOS for fraction in FRACTIONS]
    for seed in range(args.runs):
        for cell in cells:
            cell.errors.append(error(args.out, cell.demos, cell.fraction, args.updates, seed))
            write_json(args.out / "errors.json", {"updates": args.updates, "cells": [each._asdict() for each in cells]})
            print(f"{cell.demos} demonstrations, {cell.fraction:.0%}, seed {seed}: {cell.errors[-1]:.1%}", flush=True)
        show(cells)
        draw(cells, args.updates, args.out)


def show(cells: list[Cell]) -> None:
    """Print a table, as the documentation has it."""
    print("\n| demonstrations | annotated | error | runs |\n|---|---|---|---|")
    for cell in cells:
        runs = ", ".join(f"{100 * value:.0f}" for value in cell.errors)
        print(f"| {cell.demos} | {cell.fraction:.0%} | {np.mean(cell.errors):.0%} | {runs} |", flush=True)


def error(out: Path, demos: int, fraction: float, updates: int, seed: int) -> float:
    """The test error of one run."""
    run = out / f"{demos}-{fraction:g}-{updates}-{seed}"
    if not (run / "evaluation.json").exists():
        flags = {
            "--demos": demos,
            "--annotated-fraction": fraction,
            "--annotations": "use",
            "--updates": updates,
            "--entropy-decay-interval": max(updates // DECAYS, 1),
            "--seed": seed,
            "--out": run,
        }
        command = [sys.executable, "-m", "hvil", "fit", "bubblesort", "--resume"]
        command += [str(part) for pair in flags.items() for part in pair]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return float(json.loads((run / "evaluation.json").read_text())["error"])


def draw(cells: list[Cell], updates: int, out: Path) -> None:
    """Means as lines, runs as marks."""
    with drawing() as plt:
        figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
        for number, demos in enumerate(DEMOS):
            mine = [cell for cell in cells if cell.demos == demos]
            places = [100 * cell.fraction for cell in mine]
            style = {"color": COLOURS[number], "marker": MARKERS[number]}
            axes.plot(places, [100 * np.mean(cell.errors) for cell in mine], label=f"{demos} demonstrations", **style)
            for place, cell in zip(places, mine, strict=True):
                axes.plot([place] * len(cell.errors), 100 * np.array(cell.errors), alpha=0.35, linestyle="", **style)
        axes.set(xlabel="demonstrations with a call structure (%)", ylabel="test traces with an error (%)")
        axes.set(title=f"Bubble sort, {updates:,} updates", ylim=(0, 100))
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
        save_figure(figure, out, "annotated_fraction")
        plt.close(figure)


if __name__ == "__main__":
    main()
