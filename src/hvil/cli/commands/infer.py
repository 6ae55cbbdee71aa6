"""`hvil infer`: the call structure of given traces, as data."""

import argparse
from typing import TYPE_CHECKING, Any

from hvil.cli.commands.evaluate import add_column_flags, column_settings
from hvil.cli.commands.inspect import FILES

if TYPE_CHECKING:
    from pathlib import Path

    from hvil.analysis.structures import Segments
    from hvil.data.traces import Traces
    from hvil.learners.learner import InferredSteps
    from hvil.machine.callgraph import CallGraph

TASK_TRACES = 100
"""Traces of a task whose structure is inferred if no number is given."""

SUMMARY = (
    "Infer the call structure of traces under a run's posterior and write it as data: a row a step, with the stack, "
    "the active procedure, the segment and, for a run with effects, what the procedure returns with. A table of yours "
    "keeps its rows, their order and all its columns. Other sources give a trace file whose annotations are this "
    "structure."
)
EXAMPLES = [
    "hvil infer runs/karel-F-hvil-0 karel:F --traces 100 --out segments.parquet",
    "hvil infer runs/karel-F-hvil-0 traces.npz --out annotated.npz",
    "hvil infer runs/log-hvil-0 log.csv --out labelled.csv --segments segments.csv",
    "hvil infer runs/karel-F-hvil-0 traces.parquet --out segments.parquet --exact",
]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("run", metavar="RUN", help="a run directory")
    parser.add_argument("source", metavar="SOURCE", nargs="+", help=f"a task, {FILES}, or minari:ID")
    parser.add_argument(
        "--out",
        metavar="FILE",
        required=True,
        help="FILE.parquet or FILE.csv (a table of yours keeps its rows and columns, and gets more columns), or "
        "FILE.npz for annotated traces",
    )
    parser.add_argument(
        "--segments",
        metavar="FILE",
        help="also write one row a segment, to FILE.parquet or FILE.csv: trace, segment, start, end, procedure, depth",
    )
    parser.add_argument("--samples", action="store_true", help="draw the structure instead of the most likely steps")
    parser.add_argument("--exact", action="store_true", help="from the exact posterior (short traces), not the learned")
    parser.add_argument("--traces", type=int, metavar="N", help="how many (default: all of a file, 100 of a task)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of a task's traces, and of --samples")
    add_column_flags(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Load the run and the traces, infer, write."""
    # Imports stand in the functions for start-up speed: `--help` needs none of them.
    from pathlib import Path

    import numpy as np

    from hvil.analysis.effects import postconditions
    from hvil.analysis.segment_files import labelled_table, segment_table, write_table
    from hvil.analysis.structures import infer, segments
    from hvil.data.file_names import joined
    from hvil.data.reading import NO_READING
    from hvil.data.sources import columns_of, is_file, traces_to_test
    from hvil.data.trace_files import is_foreign_table, load_located
    from hvil.gate.errors import InputError
    from hvil.training.run import load

    out = Path(args.out)
    to_segments = None if args.segments is None else Path(args.segments)
    if out.suffix not in (".parquet", ".npz", ".csv"):
        raise InputError(f"{out}: expected FILE.parquet, FILE.npz or FILE.csv")
    if to_segments is not None and to_segments.suffix not in (".parquet", ".csv"):
        raise InputError(f"{to_segments}: expected FILE.parquet or FILE.csv (--segments)")
    if args.seed < 0 or (args.traces is not None and args.traces < 1):
        raise InputError("--seed must be 0 or more, --traces at least 1")
    loaded = load(args.run)
    config = loaded.config
    args.source = joined(args.source)
    settings, reading = column_settings(args, loaded), config.reading or NO_READING
    located = None
    if out.suffix != ".npz" and is_file(args.source) and is_foreign_table(args.source):
        located = load_located(args.source, columns_of(settings), reading)
        traces = located.traces[: args.traces]
    else:
        traces = traces_to_test(args.source, settings, args.traces, TASK_TRACES, args.seed, reading)
    if out.suffix == ".csv" and located is None:
        raise InputError(f"{out}: these traces come from no table with columns of its own; expected FILE.parquet")
    traces = config.matched(traces, args.source)
    config.graph.check_actions(traces.actions, args.source)
    rng = np.random.default_rng(args.seed) if args.samples else None
    inferred = infer(loaded.learner, traces, rng, args.exact)
    segmented = segments(config.graph, traces, inferred.steps)
    effects = postconditions(loaded.learner)
    if located is None:
        _write(out, traces, segmented, effects)
    else:
        rows = located.rows[: traces.row_offsets[-1]]
        write_table(out, labelled_table(located._replace(traces=traces, rows=rows), segmented))
    if to_segments is not None:
        write_table(to_segments, segment_table(traces, segmented))
    result = {
        "run": str(loaded.path),
        "source": args.source,
        "out": str(out),
        **_measures(config.graph, traces, inferred, segmented),
        **({"effects": effects} if effects else {}),
    }
    if not args.json:
        used = ", ".join(f"{name} {share:.0%}" for name, share in result["procedures"].items() if share)
        print(
            f"{out}: {result['traces']} traces, {result['actions']} actions in {result['segments']} segments, "
            f"mean depth {result['mean_depth']:.2f}; actions of {used}"
        )
        for name, text in effects.items():
            print(f"{name} returns with {text}")
    return result


def _write(out: "Path", traces: "Traces", segmented: "Segments", effects: dict[str, str]) -> None:
    """Write the traces with the inferred structure as their annotations; a Parquet file also has the segments."""
    from dataclasses import replace

    from hvil.analysis.segment_files import write_segments
    from hvil.data.trace_files import save
    from hvil.gate.files import write_atomically

    if out.suffix == ".parquet":
        write_atomically(out, lambda path: write_segments(path, traces, segmented, effects))
    else:
        save(replace(traces, annotations=segmented.annotations), out)


def _measures(graph: "CallGraph", traces: "Traces", inferred: "InferredSteps", segmented: "Segments") -> dict[str, Any]:
    """The structure in numbers; `procedures` is the share of the actions that each procedure takes."""
    import numpy as np

    shares = np.bincount(segmented.procedure, minlength=len(graph.procedures)) / len(segmented.procedure)
    last_segments = segmented.segment[traces.offsets[1:] - 1]
    return {
        "traces": len(traces),
        "actions": len(traces.actions),
        "segments": int((last_segments + 1).sum()),
        "mean_depth": float(segmented.annotations.depths.mean()),
        "php_steps_per_action": len(inferred.steps.choice) / len(traces.actions),
        "log_q": float(inferred.log_q.sum() / len(traces)),
        "procedures": dict(zip(graph.procedures, shares.tolist(), strict=True)),
    }
