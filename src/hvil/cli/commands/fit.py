"""`hvil fit`: learn a policy from demonstrations, into a run directory."""

import argparse
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from hvil.data.sources import Data
    from hvil.learners.config import Config
    from hvil.training.run import Run

SUMMARY = (
    "Learn a policy from a task's demonstrations or a trace file. Settings not given come from the task's preset; for "
    "data of your own they are chosen from the data, with early stopping, and two baselines are trained on the same "
    "traces. All of it is recorded in the run's config.json."
)
EXAMPLES = [
    "hvil fit karel:F --demos 10 --seed 0",
    "hvil fit bubblesort --demos 30 --updates 20000 --out runs/sort",
    "hvil fit bubblesort --demos 30 --updates 20000 --out runs/sort --resume",
    "hvil fit traces.parquet",
    "hvil fit log.csv --trace-column episode --action-column move --observation-columns x,y,carrying",
]
BASELINES: tuple[Literal["feedforward"], Literal["lstm"]] = ("feedforward", "lstm")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    from hvil.gate.settings import add_flags
    from hvil.learners.config import DataSettings, ModelSettings, TrainingSettings

    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="a task (bubblesort, karel:F, mnist-parity:0.7), FILE.npz, FILE.parquet, FILE.csv, minari:ID",
    )
    parser.add_argument("--demos", type=int, metavar="N", help="training traces (default: the task's; of a file all)")
    parser.add_argument(
        "--test-traces",
        type=int,
        metavar="N",
        help="traces to measure the error on: fresh ones of a task, held out of a file",
    )
    parser.add_argument("--call-graph", metavar="SPEC", help="tree:KxD, binary:N, chain:N, complete:N, or a JSON file")
    parser.add_argument("--out", metavar="RUN", help="a new run directory (default: runs/SOURCE-MODEL-SEED)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out from its last checkpoint")
    parser.add_argument("--tensorboard", action="store_true", help="also write TensorBoard's files into the run")
    parser.add_argument(
        "--baselines",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="also train a feed-forward and an LSTM policy, and compare (default: for data of your own)",
    )
    add_flags(parser, DataSettings, leave_out=("source", "demos", "test_traces"))
    add_flags(parser, ModelSettings)
    add_flags(parser, TrainingSettings)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Train, evaluate, and say how it went."""
    from pathlib import Path

    from hvil.cli.commands.evaluate import finish
    from hvil.data.inputs import suitable_inputs
    from hvil.data.sources import is_file, load_data, short_name
    from hvil.gate.settings import from_flags
    from hvil.learners.config import Config, DataSettings, ModelSettings, TrainingSettings
    from hvil.training.defaults import default_settings
    from hvil.training.loop import intervals
    from hvil.training.observers import Announcement, on_terminal
    from hvil.training.presets import preset
    from hvil.training.run import fit_config, refuse_existing

    name = args.model or ModelSettings.model
    known = {} if is_file(args.source) else preset(args.source, name)
    seed = from_flags(TrainingSettings, args).seed
    out = Path(args.out or f"runs/{short_name(args.source)}-{name}-{seed}")
    if not args.resume:
        refuse_existing(out)
    settings = from_flags(DataSettings, args, known)
    data = load_data(settings, seed)
    foreign = data.task is None
    known = default_settings(data, args.updates) if foreign else preset(data.training.attributes.get("task"), name)
    model = from_flags(ModelSettings, args, known)
    graph, reason = _call_graph(args.call_graph, data, model.annotations == "use")
    config = Config.of(
        data.training,
        graph,
        model,
        from_flags(TrainingSettings, args, known),
        settings,
        suitable_inputs(data.training) if foreign and model.network == "mlp" else None,
    )
    watchers = [Announcement(_choices(config, data, reason))] if foreign and not args.json else []
    progress = on_terminal()
    trained = fit_config(
        config, data, out, resume=args.resume, tensorboard=args.tensorboard, progress=progress, watchers=watchers
    )
    if trained.updates < config.training.updates and not args.json:
        best = trained.updates - config.training.patience * intervals(config.training)[0]
        print(f"stopped early after {trained.updates} updates; the weights of update {best} are kept")
    result = finish(trained, data.test, args.json) | {"call_graph": reason}
    wanted = args.baselines if args.baselines is not None else foreign and name not in BASELINES
    if wanted:
        result["baselines"] = _compare(trained, config, data, args.resume, progress, args.json)
    if foreign:
        _report(out)
    return result


def _call_graph(spec: str | None, data: "Data", annotated: bool) -> tuple[Any, str | None]:
    """The graph that is asked for, or one that suits the data and why."""
    from hvil.training.defaults import default_call_graph

    if spec is not None:
        return spec, None
    if data.task is not None:
        return data.task.default_call_graph, None
    chosen = default_call_graph(data.training, annotated)
    label = chosen.graph if isinstance(chosen.graph, str) else "annotated"
    return chosen.graph, f"{label} ({chosen.reason})"


def _choices(config: "Config", data: "Data", reason: str | None) -> list[str]:
    """What was chosen for data that comes from no task of ours, a line each, for the user to know and to change."""
    from hvil.training.loop import intervals

    parts = {"to learn from": data.training, "to stop early by": data.validation, "held out for the test": data.test}
    if data.stream is not None:
        parts["to learn from"] = data.stream  # type: ignore[assignment]
    lines = ["traces: " + ", ".join(f"{len(part)} {use}" for use, part in parts.items() if part is not None)]
    if reason:
        lines.append(f"call graph {reason}; choose another with --call-graph")
    if config.inputs is not None:
        values = config.inputs.values
        scaled = sum(pair != (0.0, 1.0) for pair in zip(config.inputs.means, config.inputs.scales, strict=True))
        columns = {"one-hot": sum(map(bool, values)), "standardised": scaled}
        columns["as they are"] = len(values) - sum(columns.values())
        shown = ", ".join(f"{count} {how}" for how, count in columns.items() if count)
        lines.append(f"columns of an observation: {shown}")
    settings = config.training
    if settings.patience:
        lines.append(
            f"at most {settings.updates} updates; looks every {intervals(settings)[0]}, and stops when the held-out "
            f"likelihood has not improved {settings.patience} times in a row"
        )
    return lines


def _compare(
    trained: "Run", config: "Config", data: "Data", resume: bool, progress: bool, quiet: bool
) -> dict[str, Any]:
    """Train the baselines on the same traces, into the run's directory, and show them beside it."""
    from dataclasses import replace

    from rich.console import Console
    from rich.table import Table

    from hvil.analysis.evaluation import evaluate, held_out_score
    from hvil.gate.files import write_json
    from hvil.training.run import fit_config

    assert trained.path is not None
    runs: dict[str, Run] = {config.model.model: trained}
    for name in BASELINES:
        other = replace(config, model=replace(config.model, model=name, annotations="ignore"))
        runs[name] = fit_config(other, data, trained.path / name, resume=resume, progress=progress)
    test = data.test or data.training
    table = Table("policy", "error", "nats per action", "updates", "seconds", title=f"on {len(test)} held-out traces")
    results: dict[str, Any] = {}
    for policy, each in runs.items():
        found = evaluate(each.learner, test)
        score = held_out_score(each.learner, test)
        bound = "≥ " if found.log_likelihood is None else ""
        table.add_row(policy, str(found.error), f"{bound}{score:.3f}", str(each.updates), f"{each.seconds:.0f}")
        results[policy] = {
            "error": found.error.value,
            "error_interval": list(found.error.interval),
            "log_likelihood_per_action": score,
            "updates": each.updates,
            "seconds": round(each.seconds, 3),
        }
    write_json(trained.path / "baselines.json", results)
    if not quiet:
        Console().print(table)
    return results


def _report(out: Any) -> None:
    """Write the run's report; what it says of itself goes to standard error, as progress does."""
    from contextlib import redirect_stdout
    from sys import stderr

    from hvil.cli.main import main

    with redirect_stdout(stderr):
        main(["report", str(out)])
