"""How the defaults for data of one's own do on logs of several kinds, beside other settings.

    python -m benchmarks.own_data [--logs vending plc …] [--settings today search …] [--seeds 0 1 2] [--out FILE]

Four logs of `examples/flat_logs.py` need no hierarchy, two are exports of `examples/logs`, and one holds the actions of
a Karel program without its name. Each is learned by `hvil.fit` and measured on 200 fresh traces. Records are appended
to FILE (results/development/own_data.jsonl); what is there is not run again.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from examples import flat_logs
from examples.logs import plc, vending

import hvil
from hvil.data.tasks import STRUCTURE_SEARCH, find_task

FRESH, OTHER_SEED = 200, 50_000
Log = Callable[[int, int], hvil.Traces]

SEARCH: dict[str, Any] = {**STRUCTURE_SEARCH, "length_price": 0.0, "updates": 1000, "evaluate_every": 50}
PRICE: dict[str, Any] = {**SEARCH, "length_price": STRUCTURE_SEARCH["length_price"]}
SETTINGS: dict[str, dict[str, Any]] = {
    "today": {},
    "search": SEARCH,
    "search with a price": PRICE,
    "search with a price, no patience": {**PRICE, "patience": 0},
}
"""Today's defaults; the search for structure that tasks have, without and with their price of long procedures, and that
without early stopping."""


def exported(write: Callable[..., list[str]]) -> Log:
    """A log that a script writes to a file."""

    def log(count: int, seed: int) -> hvil.Traces:
        with tempfile.TemporaryDirectory() as directory:
            return hvil.load_traces(write(Path(directory), traces=count, seed=seed)[0])

    return log


def nameless(task: str) -> Log:
    """The traces of a task as a log of one's own: no call structure, nothing that says what the task is."""
    return lambda count, seed: replace(
        find_task(task).demonstrations(count, seed), annotations=None, metadata={}, attributes={}
    )


LOGS: dict[str, tuple[Log, int]] = {
    **{name: (log, flat_logs.TRACES) for name, log in flat_logs.LOGS.items()},
    "vending": (exported(vending.write), 150),
    "plc": (exported(plc.write), 100),
    "sow": (nameless("karel:sow"), 80),
}
"""Each log, and how many traces it has."""


def measure(log: str, settings: str, seed: int) -> dict[str, Any]:
    """Learn one log; what the policy and its program do on fresh traces."""
    draw, count = LOGS[log]
    began = time.perf_counter()
    run = hvil.fit(draw(count, seed), seed=seed, **SETTINGS[settings])
    seconds = time.perf_counter() - began
    evaluation, explanation = run.evaluate(draw(FRESH, OTHER_SEED + seed)), run.explain()
    return {
        "error": evaluation.error.value,
        "procedures_in_use": evaluation.procedures_in_use,
        "updates": run.updates,
        "seconds": round(seconds, 1),
        "lines": explanation.lines,
        "teacher_agreement": explanation.teacher_agreement,
        "no_hierarchy": explanation.no_hierarchy,
    }


def main() -> None:
    """Run what has no record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", nargs="+", choices=LOGS, default=list(LOGS))
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=["today", "search"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("results/development/own_data.jsonl"))
    args = parser.parse_args()
    there = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    for seed, log, settings in product(args.seeds, args.logs, args.settings):
        key = {"log": log, "settings": settings, "seed": seed}
        if not any(record.items() >= key.items() for record in there):
            record = key | measure(log, settings, seed)
            with args.out.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(record) + "\n")
            print(record, flush=True)


if __name__ == "__main__":
    main()
