"""`hvil infer`: the call structure of given traces, as data."""

import argparse
from typing import Any

SUMMARY = (
    "Infer the call structure of traces under a run's posterior and write it as data: a row a step, with the stack, "
    "the active procedure and the segment. The file is also a trace file whose annotations are this structure."
)
EXAMPLES = [
    "hvil infer runs/karel-F-hvil-0 karel:F --traces 100 --out segments.parquet",
    "hvil infer runs/karel-F-hvil-0 traces.npz --out annotated.npz",
    "hvil infer runs/karel-F-hvil-0 traces.parquet --out segments.parquet --exact",
]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("run", metavar="RUN", help="a run directory")
    parser.add_argument("source", metavar="SOURCE", help="a task, FILE.npz, FILE.parquet, FILE.csv or minari:ID")
    parser.add_argument("--out", metavar="FILE", required=True, help="FILE.parquet, or FILE.npz for annotated traces")
    parser.add_argument("--samples", action="store_true", help="draw the structure instead of the most likely steps")
    parser.add_argument("--exact", action="store_true", help="from the exact posterior (short traces), not the learned")
    parser.add_argument("--traces", type=int, metavar="N", help="how many (default: all of a file, 100 of a task)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of a task's traces, and of --samples")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Load the run and the traces, infer, write."""
    from dataclasses import replace
    from pathlib import Path

    import numpy as np

    from hvil.analysis.segment_files import write_segments
    from hvil.analysis.structures import infer, segments
    from hvil.data.sources import columns_of, drawn, find_task, is_file
    from hvil.data.trace_files import load as load_traces
    from hvil.data.trace_files import save
    from hvil.gate.errors import InputError
    from hvil.gate.files import write_atomically
    from hvil.training.run import load

    out = Path(args.out)
    if out.suffix not in (".parquet", ".npz"):
        raise InputError(f"{out}: expected FILE.parquet or FILE.npz")
    if args.seed < 0 or (args.traces is not None and args.traces < 1):
        raise InputError("--seed must be 0 or more, --traces at least 1")
    loaded = load(args.run)
    if is_file(args.source):
        traces = load_traces(args.source, columns_of(loaded.config.data))[: args.traces]
    else:
        traces = drawn(find_task(args.source), args.traces or 100, args.seed, test=True)
    loaded.config.check(traces, args.source)
    loaded.config.graph.check_actions(traces.actions, args.source)
    rng = np.random.default_rng(args.seed) if args.samples else None
    steps, log_q = infer(loaded.learner, traces, rng, args.exact)
    found = segments(loaded.config.graph, traces, steps)
    if out.suffix == ".parquet":
        write_atomically(out, lambda path: write_segments(path, traces, found))
    else:
        save(replace(traces, annotations=found.annotations), out)
    depths = found.annotations.depths
    names = loaded.config.graph.procedures
    shares = np.bincount(found.procedure, minlength=len(names)) / len(found.procedure)
    segment_count = int((found.segment[traces.offsets[1:] - 1] + 1).sum())
    result = {
        "run": str(loaded.path),
        "source": args.source,
        "out": str(out),
        "traces": len(traces),
        "actions": len(traces.actions),
        "segments": segment_count,
        "mean_depth": float(depths.mean()),
        "php_steps_per_action": len(steps.choice) / len(traces.actions),
        "log_q": float(log_q.sum() / len(traces)),
        "procedures": {name: float(share) for name, share in zip(names, shares, strict=True)},
    }
    if not args.json:
        used = ", ".join(f"{name} {share:.0%}" for name, share in result["procedures"].items() if share)
        print(
            f"{out}: {len(traces)} traces, {len(traces.actions)} actions in {segment_count} segments, mean depth "
            f"{result['mean_depth']:.2f}; actions of {used}"
        )
    return result
