"""When does the future help inference? Two tasks, a posterior that sees the future, and one that does not.

    python examples/future.py [--out results/future] [--runs 10] [--parity-runs 3] [--workers 2]

`parity`: the teacher names the parity of MNIST digits and sometimes slips; the digit is shown when it is too late to
act. Leaves see nothing (`--open-loop-leaves`), because otherwise they would learn the slips by heart, and some
demonstrations say which procedure acted. Given the image and the action, it does not depend on what comes later.

`intent`: the first observation decides (by the sign of a sum) which of two routines the teacher runs. Both wait twice,
and then their last actions differ, so only the future shows which procedure was called. Again some demonstrations say
which.

The script prints errors and their differences with 95% intervals. Every result is written to OUT/records.jsonl and not
run again.
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

import hvil
from hvil.analysis.statistics import student_interval
from hvil.data.annotations import Annotations
from hvil.data.segments import keep_annotations
from hvil.data.tasks import find_task
from hvil.gate.files import write_text

BLIND = {"parity": "no-final", "intent": "no-future"}
"""What is hidden from the posterior that does not see the future: the digit, or everything that comes after a step."""
TEST = 1_000
"""The number of test traces: a share of them has a standard error of at most 1.6 points."""
SUBPROCEDURES = [f"sub_{number}" for number in range(1, 6)]
FEATURES, WAITS = 20, 2
"""Of `intent`: how many numbers the first observation has, and how often the routines wait."""


def main() -> None:
    """Run the cells that have no record, then print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/future"))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--parity-runs", type=int, default=3, help="runs of the slower task")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "records.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = [record["cell"] for record in records]
    cells = [{**cell, "run": run} for run in range(args.runs) for cell in intent()]
    cells += [{**cell, "run": run} for run in range(args.parity_runs) for cell in parity()]
    with ProcessPoolExecutor(args.workers) as pool:
        for job in as_completed([pool.submit(run_cell, cell) for cell in cells if cell not in done]):
            records.append(job.result())
            write_text(path, "".join(json.dumps(record) + "\n" for record in records))
            print(records[-1], flush=True)
    print(table([record for record in records if record["cell"] in cells]))


def intent() -> list[dict[str, Any]]:
    """The cells of `intent`, without the number of the run."""
    return [
        {"task": "intent", "demos": 100, "annotated": annotated, "updates": updates, "posterior_sees": sees}
        for updates, annotated, sees in product((500, 1_000, 3_000), (0, 10, 20), ("all", "no-future"))
        if annotated or updates == 1_000
    ]


def parity() -> list[dict[str, Any]]:
    """The cells of `parity`, without the number of the run."""
    return [
        {"task": f"parity, p = {p}", "demos": 200, "annotated": annotated, "updates": 600, "posterior_sees": sees}
        for p, annotated, sees in product((0.6, 0.7), (0, 20, 40), ("all", "no-final"))
    ]


def run_cell(cell: dict[str, Any]) -> dict[str, Any]:
    """Train and test. The same cell always gives the same record."""
    run, updates = cell["run"], cell["updates"]
    settings: dict[str, Any] = {}
    if cell["task"] == "intent":
        traces, procedure, leaves = *intended(cell["demos"], run), ["wait", "even", "odd"]
        test = intended(TEST, 1_000 + run)[0]
    else:
        source = find_task(f"mnist-parity:{cell['task'].split()[-1]}")
        traces, test = source.demonstrations(cell["demos"], run), source.test_demonstrations(TEST, run)
        procedure, leaves = 1 + traces.metadata["digit"].astype(int) % 2, ["even", "odd"]
        settings = {"network": "convnet", "open_loop_leaves": True}
    graph = {"root": {"calls": SUBPROCEDURES, "actions": []}} | {name: {"actions": leaves} for name in SUBPROCEDURES}
    learned = hvil.fit(
        annotated(traces, procedure, cell["annotated"] / cell["demos"], run),
        {"root": "root", "procedures": graph},
        posterior_sees=cell["posterior_sees"],
        annotations="use",
        hidden=64,
        batch_size=20,
        updates=updates,
        entropy_decay_interval=updates // 20,
        seed=run,
        threads=1,
        **settings,
    )
    return {"cell": cell, "error": float(learned.policy.wrong(test).mean())}


def intended(count: int, seed: int) -> tuple[hvil.Traces, np.ndarray]:
    """Demonstrations of `intent`, and the number of the procedure that each calls."""
    cues = np.random.default_rng(seed).normal(size=(count, FEATURES)).astype(np.float32)
    procedure = 1 + (cues[:, :3].sum(axis=1) > 0)
    observations = np.zeros((count, WAITS + 2, FEATURES + 1), np.float32)
    observations[:, 0, :FEATURES] = cues
    observations[:, 1:, FEATURES] = 1
    actions = np.zeros((count, WAITS + 1), int)
    actions[:, -1] = procedure
    offsets = np.arange(count + 1) * (WAITS + 1)
    flat = observations.reshape(-1, FEATURES + 1)
    return hvil.Traces(flat, actions.ravel(), offsets, ("wait", "even", "odd")), procedure


def annotated(traces: hvil.Traces, procedure: np.ndarray, share: float, seed: int) -> hvil.Traces:
    """The traces with annotations: a share of them says at every step which procedure acts."""
    each = np.repeat(procedure, traces.lengths)
    kept = np.full(len(each), 2)
    kept[traces.offsets[:-1]] = 1
    annotations = Annotations(("root", "sub_1", "sub_2"), np.stack([np.zeros_like(each), each], axis=1), kept)
    return keep_annotations(replace(traces, annotations=annotations), share, seed)


def table(records: list[dict[str, Any]]) -> str:
    """Mean errors, and the difference that seeing the future makes, in points of per cent."""
    errors: dict[tuple[Any, ...], dict[str, dict[int, float]]] = {}
    for record in records:
        cell = record["cell"]
        key = (cell["task"], cell["updates"], cell["annotated"], cell["demos"])
        errors.setdefault(key, {}).setdefault(cell["posterior_sees"], {})[cell["run"]] = 100 * record["error"]
    lines = ["| task | updates | annotated | sees the future | does not | difference |", "|---|---|---|---|---|---|"]
    for (name, updates, count, demos), by_posterior in sorted(errors.items()):
        seeing, blind = by_posterior.get("all", {}), by_posterior.get(BLIND[name.split(",")[0]], {})
        runs = sorted(set(seeing) & set(blind))
        if not runs:
            continue
        columns = [np.array([errors_of[run] for run in runs]) for errors_of in (seeing, blind)]
        means = " | ".join(f"{column.mean():.1f}% {_interval(column, 0, 100)}" for column in columns)
        gain = columns[0] - columns[1]
        words = f"{gain.mean():+.1f} {_interval(gain)}"
        lines.append(f"| {name} | {updates:,} | {count} of {demos} | {means} | {words} |")
    return "\n".join(lines)


def _interval(values: np.ndarray, least: float = -100, most: float = 100) -> str:
    interval = student_interval(values)
    return "" if interval is None else "[{:.1f}, {:.1f}]".format(*np.clip(interval, least, most))


if __name__ == "__main__":
    main()
