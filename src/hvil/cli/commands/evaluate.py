"""`hvil evaluate`: how well a run does on test traces, along the teacher's actions and on its own."""

import argparse
from typing import TYPE_CHECKING, Any

from hvil.cli.commands.inspect import FILES
from hvil.cli.engines import add_source_flag

if TYPE_CHECKING:
    from pathlib import Path

    from hvil.analysis.evaluation import Evaluation
    from hvil.data.settings import DataSettings
    from hvil.data.traces import Traces
    from hvil.training.run import Run

SUMMARY = (
    "Measure a run: error along teacher traces (all, and those not in the training set), success of roll-outs in the "
    "task's environment, and the call structure. Writes evaluation.json into the run; evaluations on other "
    "traces, or of the run's program in place of its network, go beside it."
)
EXAMPLES = [
    "hvil evaluate runs/karel-F-hvil-0",
    "hvil evaluate runs/karel-F-hvil-0 --traces 2000 --json",
    "hvil evaluate runs/karel-F-hvil-0 other_traces.npz",
    "hvil evaluate runs/karel-F-hvil-0 --exact --traces 100",
    "hvil evaluate runs/thereandback-hvil-0 thereandback:6-30 --depth 40",
    "hvil evaluate runs/karel-F-hvil-0 --program",
    "hvil evaluate runs/karel-F-hvil-0 karel:F --traces 2000 --program --json",
]
COLUMN_SETTINGS = (
    "trace_column",
    "step_column",
    "action_column",
    "observation_columns",
    "annotation_column",
    "download",
)
"""Settings of the data that may be given anew for another table."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("run", metavar="RUN", help="a run directory")
    parser.add_argument("source", metavar="SOURCE", nargs="*", help=f"a task, {FILES} (default: the run's own)")
    add_source_flag(parser)
    parser.add_argument("--traces", type=int, metavar="N", help="how many test traces (default: those of the run)")
    parser.add_argument("--seed", type=int, metavar="S", help="of a task's test traces (default: the run's)")
    parser.add_argument("--no-rollouts", action="store_true", help="only follow the teacher's traces")
    parser.add_argument(
        "--depth",
        type=int,
        metavar="D",
        help="how high the stack may be, for programs that call themselves (default: as in training)",
    )
    parser.add_argument(
        "--program",
        action="store_true",
        help="evaluate the program that `hvil explain` prints, in place of the network (into evaluation-program.json)",
    )
    parser.add_argument(
        "--exact",
        action="store_true",
        help="also sum over all call structures: log p(x), the ELBO and the posterior's divergence of each trace",
    )
    parser.add_argument(
        "--samples",
        type=int,
        default=400,
        metavar="N",
        help="call structures drawn for each trace with --exact (default: %(default)s)",
    )
    add_column_flags(parser)


def add_column_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say how another table is to be read; what is not given is as the run has it."""
    from dataclasses import fields

    from hvil.data.settings import DataSettings
    from hvil.gate.settings import add_flags

    others = [entry.name for entry in fields(DataSettings) if entry.name not in COLUMN_SETTINGS]
    add_flags(
        parser, DataSettings, leave_out=others, title="columns of another table (default: as the run reads its own)"
    )


def column_settings(args: argparse.Namespace, loaded: "Run") -> "DataSettings":
    """The data settings of a run, with the columns that the user names for another table."""
    from dataclasses import replace

    given = {name: getattr(args, name) for name in COLUMN_SETTINGS if getattr(args, name) is not None}
    return replace(loaded.config.data, **given)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Load the run, evaluate it, print the numbers."""
    # Imports stand in the functions for start-up speed: `--help` needs none of them.
    from hvil.data.file_names import joined
    from hvil.gate.errors import InputError
    from hvil.training.run import load

    if args.traces is not None and args.traces < 1:
        raise InputError(f"--traces {args.traces}: expected at least 1")
    if args.program and args.exact:
        raise InputError("--exact measures a posterior over call structures, which a program does not have")
    loaded = load(args.run, args.own_source)
    if args.depth is not None:
        loaded = loaded.at_depth(args.depth)
    args.source = joined(args.source) or None
    traces = _test_traces(loaded, args.source, args.traces, args.seed, column_settings(args, loaded))
    others = args.source or (loaded.config.task if args.traces is not None or args.seed is not None else None)
    samples = args.samples if args.exact else None
    return finish(loaded, traces, args.json, others, not args.no_rollouts, samples, args.depth, args.program)


def _test_traces(
    loaded: "Run", source: str | None, count: int | None, seed: int | None, settings: "DataSettings"
) -> "Traces | None":
    """The traces to test on: the run's own, unless a source, a count of a task's traces or a seed is given."""
    from hvil.data.reading import NO_READING
    from hvil.data.sources import traces_to_test

    config = loaded.config
    source = source or (None if count is None and seed is None else config.task)
    if source is None:
        test = loaded.data.test
        return test if test is None or count is None else test[:count]
    seed = config.training.seed if seed is None else seed
    reading = config.reading or NO_READING
    return config.matched(traces_to_test(source, settings, count, config.data.test_traces, seed, reading), source)


def finish(
    trained: "Run",
    traces: "Traces | None",
    quiet: bool,
    source: str | None = None,
    rollouts: bool = True,
    exact_samples: int | None = None,
    depth: int | None = None,
    program: bool = False,
) -> dict[str, Any]:
    """Evaluate a run, write the result into it, print a table; the result is what `--json` prints.

    Args:
        trained: a run in a directory.
        traces: what to test on; None: only the training error is measured, and the error on other traces is left open.
        quiet: print nothing.
        source: where the traces come from; None: from the run's own source.
        rollouts: whether to roll out in the task's environment.
        exact_samples: call structures to draw for each trace, to compare with exact inference; None: no comparison.
        depth: how high the run's stack may be, if it is not as in training.
        program: evaluate the run's program in place of its network.
    """
    from hvil.analysis.evaluation import has_failed, search_failure
    from hvil.training.execution import MEASURED

    assert trained.path is not None
    tested = trained.data.training if traces is None else traces
    gap = {} if exact_samples is None else _gap(trained, tested, exact_samples)
    evaluation = trained.evaluate(tested, rollouts=rollouts, program=program)
    measured = evaluation.to_mapping() | gap
    if traces is None:
        training_error = measured["error"]
        measured |= {"error": None, "error_interval": None, "error_unseen": None, "error_unseen_interval": None}
    else:
        training_error = _training_error(trained, program)
    failed = not program and has_failed(training_error)
    failure = search_failure(trained.policy, trained.data.training[:MEASURED]) if failed else None
    result = {
        "run": str(trained.path),
        "source": source or trained.config.data.source or None,
        "depth": depth,
        **measured,
        "training_error": training_error,
        "failure": failure,
        "updates": trained.updates,
        "seconds": round(trained.seconds, 3),
    }
    _keep(trained.path / own_file(source, exact_samples, rollouts, depth, program), result)
    if not quiet:
        title = "on the training traces" if traces is None else str(trained.path)
        title += ": its program" if program else ""
        title += "" if depth is None else f", stack of at most {depth}"
        _print(trained, evaluation, title, gap, training_error)
        for warning in (failure, evaluation.collapse):
            if warning:
                print(warning)
    return result


def _keep(file: "Path", result: dict[str, Any]) -> None:
    """Write the result into the run; a run that cannot be written to is evaluated all the same."""
    import sys

    from hvil.gate.errors import InputError, one_line
    from hvil.gate.files import write_json

    try:
        write_json(file, result)
    except (InputError, OSError) as error:
        sys.stderr.write(f"note: the result is not kept: {one_line(error)}\n")


def own_file(
    source: str | None, exact_samples: int | None, rollouts: bool, depth: int | None = None, program: bool = False
) -> str:
    """Where an evaluation goes: the run's own test result is not overwritten by one on other data or in another way."""
    from hvil.data.sources import short_name
    from hvil.training.run_files import EVALUATION

    if source is None and exact_samples is None and rollouts and depth is None and not program:
        return EVALUATION
    words = [*([short_name(source)] if source else []), *(["exact"] if exact_samples else [])]
    words += [*([] if rollouts else ["no-rollouts"]), *([] if depth is None else [f"depth{depth}"])]
    words += ["program"] if program else []
    return f"evaluation-{'-'.join(words)}.json"


def _gap(trained: "Run", traces: "Traces", samples: int) -> dict[str, Any]:
    """How far the run is from exact inference."""
    import numpy as np

    from hvil.analysis.gap import exact_report

    traces = trained.config.matched(traces)
    return exact_report(trained.learner, traces, samples, np.random.default_rng(trained.config.training.seed))


def _training_error(trained: "Run", program: bool) -> float | None:
    policy = trained.program if program else trained.policy
    return float(policy.wrong(trained.data.training).mean()) if trained.knows_data else None


def _print(
    trained: "Run", evaluation: "Evaluation", title: str, gap: dict[str, Any], training_error: float | None
) -> None:
    from hvil.gate.text import console

    terminal = console()
    terminal.print(evaluation.table(title))
    if gap:
        terminal.print(
            f"exact inference, mean of a trace: log p(x) {gap['log_likelihood']:.3f}, ELBO {gap['elbo']:.3f}, "
            f"KL[q ‖ posterior] {gap['posterior_kl']:.3f}; q's greedy structure is the most likely one in "
            f"{gap['posterior_most_likely']:.1%} of the traces"
        )
    error = "unknown" if training_error is None else f"{training_error:.1%} of {len(trained.data.training)} traces"
    terminal.print(f"{trained.path}: {trained.updates} updates, {trained.seconds:.0f} s, training error {error}")
