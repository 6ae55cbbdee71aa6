"""`hvil evaluate`: how well a run does on test traces, along the teacher's actions and on its own."""

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hvil.data.traces import Traces
    from hvil.training.run import Run

SUMMARY = (
    "Measure a run: error along teacher traces (all, and those not in the training set), success of roll-outs in the "
    "task's environment, and the call structure. Writes evaluation.json into the run."
)
EXAMPLES = [
    "hvil evaluate runs/karel-F-hvil-0",
    "hvil evaluate runs/karel-F-hvil-0 --traces 2000 --json",
    "hvil evaluate runs/karel-F-hvil-0 other_traces.npz",
    "hvil evaluate runs/karel-F-hvil-0 --exact --traces 100",
]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("run", metavar="RUN", help="a run directory")
    parser.add_argument("source", metavar="SOURCE", nargs="?", help="a task or trace file (default: the run's own)")
    parser.add_argument("--traces", type=int, metavar="N", help="how many test traces (default: those of the run)")
    parser.add_argument("--seed", type=int, metavar="S", help="of a task's test traces (default: the run's)")
    parser.add_argument("--no-rollouts", action="store_true", help="only follow the teacher's traces")
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


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Load the run, evaluate it, print the numbers."""
    from hvil.gate.errors import InputError
    from hvil.training.run import load

    if args.traces is not None and args.traces < 1:
        raise InputError(f"--traces {args.traces}: expected at least 1")
    loaded = load(args.run)
    traces = _test_traces(loaded, args.source, args.traces, args.seed)
    return finish(loaded, traces, args.json, args.source, not args.no_rollouts, args.samples if args.exact else None)


def _test_traces(loaded: "Run", source: str | None, count: int | None, seed: int | None) -> "Traces | None":
    from hvil.data.sources import columns_of, drawn, find_task, is_file
    from hvil.data.trace_files import load as load_traces

    source = source or (None if count is None and seed is None else loaded.config.task)
    if source is None:
        test = loaded.data.test
        return test if test is None or count is None else test[:count]
    if is_file(source):
        return load_traces(source, columns_of(loaded.config.data))[:count]
    seed = loaded.config.training.seed if seed is None else seed
    return drawn(find_task(source), count or loaded.config.data.test_traces, seed, test=True)


def finish(
    trained: "Run",
    traces: "Traces | None",
    quiet: bool,
    source: str | None = None,
    rollouts: bool = True,
    exact_samples: int | None = None,
) -> dict[str, Any]:
    """Evaluate a run, write `evaluation.json`, print a table; the result is what `--json` prints.

    Without test traces, only the training error is known, and the error on others is left open. A number of samples
    adds the gap to exact inference.
    """
    from rich.console import Console

    from hvil.gate.files import write_json

    tested = trained.data.training if traces is None else traces
    gap = {} if exact_samples is None else _exact(trained, tested, exact_samples)
    evaluation = trained.evaluate(tested, rollouts=rollouts)
    measured = evaluation.to_mapping() | gap
    if traces is None:
        training_error = measured["error"]
        measured |= {"error": None, "error_interval": None, "error_unseen": None, "error_unseen_interval": None}
    elif trained.knows_data:
        training_error = float(trained.policy.wrong(trained.data.training).mean())
    else:
        training_error = None
    result = {
        "run": str(trained.path),
        "source": source or trained.config.data.source or None,
        **measured,
        "training_error": training_error,
        "updates": trained.updates,
        "seconds": round(trained.seconds, 3),
    }
    assert trained.path is not None
    write_json(trained.path / "evaluation.json", result)
    if not quiet:
        console = Console()
        console.print(evaluation.table("on the training traces" if traces is None else str(trained.path)))
        shown = "unknown" if training_error is None else f"{training_error:.1%}"
        of = f" of {len(trained.data.training)} traces" if trained.knows_data else ""
        if gap:
            console.print(
                f"exact inference, mean of a trace: log p(x) {gap['log_likelihood']:.3f}, ELBO {gap['elbo']:.3f}, "
                f"KL[q ‖ posterior] {gap['posterior_kl']:.3f}; q's greedy structure is the most likely one in "
                f"{gap['posterior_most_likely']:.1%} of the traces"
            )
        console.print(f"{trained.path}: {trained.updates} updates, {trained.seconds:.0f} s, training error {shown}{of}")
    return result


def _exact(trained: "Run", traces: "Traces", samples: int) -> dict[str, Any]:
    import numpy as np

    from hvil.analysis.gap import exact_report

    trained.config.check(traces)
    return exact_report(trained.learner, traces, samples, np.random.default_rng(trained.config.training.seed))
