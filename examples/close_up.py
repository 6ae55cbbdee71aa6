"""A robot learns from a later close-up what it had in its hand: effects, without a single annotation.

    python examples/close_up.py [--out results/close_up] [--runs 10]

The robot sees an object from afar (twenty blurred numbers), puts it to the left or to the right, and only then a
camera shows which of six kinds it was. Three kinds belong left and three right; the person who demonstrates slips in
three of ten cases. Learned are a root that calls and six sub-procedures that act without looking.

Four models: a network without procedures; the procedures; the procedures with effects, which account for the kind that
the camera shows; and the same with the kinds of the demonstrations in random order, a control.

The script prints errors against the right side, and differences to the network without procedures with 95% intervals.
Every result is written to OUT/records.jsonl and not run again.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import hvil
from hvil.analysis.statistics import mean_estimate, shown
from hvil.gate.files import write_text

KINDS, FEATURES, SLIPS = 6, 20, 0.3
BLUR = 1.2
"""Standard deviation of what is seen from afar; the kinds are about 1.4 times the root of `FEATURES` apart."""
DEMOS, TEST = 200, 1_000
SIDES = ("left", "right")
LEAVES = [f"sub_{number}" for number in range(1, KINDS + 1)]
GRAPH = {"root": {"calls": LEAVES, "actions": []}} | {name: {"calls": [], "actions": list(SIDES)} for name in LEAVES}
PROCEDURES: dict[str, Any] = {"open_loop_leaves": True, "samples": 4, "baseline": "leave-one-out"}
MODELS: dict[str, dict[str, Any]] = {
    "network without procedures": {"model": "feedforward", "last_action": False},
    "procedures": PROCEDURES,
    "procedures with effects": {**PROCEDURES, "effects": 1.0},
    "effects of shuffled kinds": {**PROCEDURES, "effects": 1.0},
}


def main() -> None:
    """Run the cells that have no record, then print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/close_up"))
    parser.add_argument("--runs", type=int, default=10)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "records.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(record["model"], record["run"]) for record in records}
    for run in range(args.runs):
        for model in MODELS:
            if (model, run) not in done:
                records.append({"model": model, "run": run, "error": error_of(model, run)})
                write_text(path, "".join(json.dumps(record) + "\n" for record in records))
    print(table(records))


def error_of(model: str, run: int) -> float:
    """Train and test. The same model and run always give the same error."""
    settings = MODELS[model]
    has_procedures = settings is not MODELS["network without procedures"]
    schedule = {"hidden": 64, "entropy_decay_interval": 25} if has_procedures else {"units": 64}
    learned = hvil.fit(
        demonstrations(DEMOS, run, SLIPS, shuffled=model == "effects of shuffled kinds"),
        {"root": "root", "procedures": GRAPH},
        updates=500,
        batch_size=20,
        learning_rate=0.003,
        validation=0.0,
        seed=run,
        threads=1,
        **schedule,
        **settings,
    )
    return float(learned.policy.wrong(demonstrations(TEST, 1_000 + run, 0.0)).mean())


def demonstrations(count: int, seed: int, slips: float, shuffled: bool = False) -> hvil.Traces:
    """Two observations each: the object from afar, then its kind; and one action, the side."""
    centres = np.random.default_rng(7).normal(size=(KINDS, FEATURES))
    rng = np.random.default_rng(seed)
    kind = rng.integers(KINDS, size=count)
    observations = np.zeros((count, 2, FEATURES + KINDS), np.float32)
    observations[:, 0, :FEATURES] = centres[kind] + BLUR * rng.normal(size=(count, FEATURES))
    side = (kind % 2 + (rng.random(count) < slips)) % 2
    observations[np.arange(count), 1, FEATURES + (rng.permutation(kind) if shuffled else kind)] = 1
    names = (*(f"pixel_{i}" for i in range(FEATURES)), *(f"kind={i}" for i in range(KINDS)))
    return hvil.Traces(observations.reshape(2 * count, -1), side, np.arange(count + 1), SIDES, names)


def table(records: list[dict[str, Any]]) -> str:
    """Mean errors, and differences to the first model run by run."""
    errors = {model: {r["run"]: r["error"] for r in records if r["model"] == model} for model in MODELS}
    first = next(iter(MODELS))
    runs = sorted(set.intersection(*(set(by_run) for by_run in errors.values())))
    lines = [f"| model ({len(runs)} runs) | error | minus {first} |", "|---|---|---|"]
    for model in MODELS:
        own, other = (np.array([errors[name][run] for run in runs]) for name in (model, first))
        difference = "" if model == first else shown(mean_estimate(own - other), sign="+", unit=" points")
        lines.append(f"| {model} | {shown(mean_estimate(own))} | {difference} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
