"""When does the future help inference? MNIST parity with a few annotated demonstrations.

    python examples/future.py [--out results/future] [--runs 5] [--workers 2]

The teacher means the true parity and slips; the digit is shown when it is too late for the policy. Some demonstrations
say which procedure acted. From those a posterior that sees the digit can name the procedure of all others, one
that does not has to read the images. Leaves see nothing (`--open-loop-leaves`): they cannot learn slips by heart.
Prints errors and their differences with 95% intervals; every result is kept in OUT/records.jsonl and not run again.
"""

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from hvil.statistics import student_interval

DEMOS, TEST, UPDATES = 200, 1_000, 600
SEES = {"all": "sees all", "no-final": "does not see the digit"}
ANNOTATED = (0, 10, 20, 40)
SETTINGS: dict[str, Any] = {
    "network": "convnet",
    "hidden": 64,
    "context": 32,
    "batch_size": 20,
    "updates": UPDATES,
    "entropy_weight": 1.0,
    "entropy_decay": 0.7,
    "entropy_decay_interval": UPDATES // 20,
    "annotations": "use",
    "threads": 1,
}


def main() -> None:
    """Run what is missing, then print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/future"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "records.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = [record["cell"] for record in records]
    cells = [
        {"p": p, "annotated": count, "open_loop_leaves": open_loop, "posterior_sees": sees, "run": run}
        for run, p, open_loop, count, sees in product(range(args.runs), (0.6, 0.7), (True, False), ANNOTATED, SEES)
        if open_loop or count == 20
    ]
    with ProcessPoolExecutor(args.workers) as pool, path.open("a") as file:
        jobs = [pool.submit(run_cell, cell) for cell in cells if cell not in done]
        for job in as_completed(jobs):
            records.append(job.result())
            file.write(json.dumps(records[-1]) + "\n")
            file.flush()
            print(records[-1], flush=True)
    print(table([record for record in records if record["cell"] in cells]))


def run_cell(cell: dict[str, Any]) -> dict[str, Any]:
    """Train and test; deterministic."""
    import hvil
    from hvil.annotations import Annotations
    from hvil.domains.task import task
    from hvil.segments import keep_annotations

    source, run = task(f"mnist-parity:{cell['p']}"), cell["run"]
    traces, test = source.demonstrations(DEMOS, run), source.test_demonstrations(TEST, run)
    procedure = 1 + traces.metadata["digit"].astype(int) % 2
    stacks = np.stack([np.zeros_like(procedure), procedure], axis=1)
    annotations = Annotations(("root", "sub_1", "sub_2"), stacks, np.ones_like(procedure))
    traces = keep_annotations(replace(traces, annotations=annotations), cell["annotated"] / DEMOS, run)
    chosen = {name: cell[name] for name in ("open_loop_leaves", "posterior_sees")}
    learned = hvil.fit(traces, source.default_call_graph, seed=run, **SETTINGS, **chosen)
    return {"cell": cell, "error": float(learned.policy.wrong(test).mean())}


def table(records: list[dict[str, Any]]) -> str:
    """Mean errors, and the difference that seeing the digit makes, in points of per cent."""
    errors: dict[tuple[Any, ...], dict[str, dict[int, float]]] = {}
    for record in records:
        cell = record["cell"]
        key = (cell["p"], cell["open_loop_leaves"], cell["annotated"])
        errors.setdefault(key, {}).setdefault(cell["posterior_sees"], {})[cell["run"]] = 100 * record["error"]
    lines = [
        f"| p | leaves see | annotated of {DEMOS} | posterior {' | posterior '.join(SEES.values())} | difference |",
        "|---|---|---|---|---|---|",
    ]
    for (p, open_loop, count), found in sorted(errors.items()):
        runs = sorted(set.intersection(*(set(found.get(sees, {})) for sees in SEES)))
        columns = [np.array([found[sees][run] for run in runs]) for sees in SEES]
        means = " | ".join(f"{column.mean():.1f}% {_interval(column)}" for column in columns)
        gain = columns[0] - columns[1]
        seen = "nothing" if open_loop else "the image"
        lines.append(f"| {p:g} | {seen} | {count} | {means} | {gain.mean():+.1f} {_interval(gain)} |")
    return "\n".join(lines)


def _interval(values: np.ndarray) -> str:
    found = student_interval(values)
    return "" if found is None else f"[{found[0]:.1f}, {found[1]:.1f}]"


if __name__ == "__main__":
    main()
