"""`hvil fit`: learn a policy from demonstrations, into a run directory."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from hvil.cli.commands.inspect import FILES
from hvil.cli.engines import add_engine_flags, engine_of

if TYPE_CHECKING:
    from pathlib import Path

    from hvil.training.fit import Prepared
    from hvil.training.loop import Observer
    from hvil.training.run import Run

SUMMARY = (
    "Learn a policy from a task's demonstrations or a trace file. The planner decides the settings that you do not "
    "give: --plan shows them with the reasons. For data of your own there is early stopping, and two baselines are "
    "trained on the same traces. All settings are recorded in the run's config.json."
)
EXAMPLES = [
    "hvil fit karel:F --demos 10 --seed 0",
    "hvil fit bubblesort --demos 30 --out runs/sort",
    "hvil fit bubblesort --out runs/sort --resume --updates 3000",
    "hvil fit traces.parquet",
    "hvil fit logs/ --observation-columns x,y,carrying",
    "hvil fit traces.parquet --plan",
    "hvil fit karel:F --demos 10 --watch",
    "hvil fit --config runs/sort/run.toml --seed 1 --out runs/sort-1",
    "hvil fit log.csv --trace-column episode --action-column move --observation-columns x,y,carrying",
]
ADVICE_TRACES = 100
"""Training traces in which the procedures that act are looked for, at most."""
OWN_FLAGS = ("source", "demos", "test_traces")
"""Settings whose flags have a help text of their own here."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    from hvil.data.settings import DataSettings
    from hvil.gate.settings import add_flags, setting_names
    from hvil.learners import LEARNERS
    from hvil.learners.settings import TrainingSettings

    parser.add_argument(
        "source",
        nargs="*",
        metavar="SOURCE",
        help=f"a task (bubblesort, karel:F, mnist-parity:0.7, thereandback, treewalk), {FILES}, minari:ID",
    )
    parser.add_argument(
        "--config", metavar="FILE.toml", help="take source and settings from a file, such as the run.toml of a run"
    )
    parser.add_argument("--model", metavar="NAME", help=f"the learner: {', '.join(LEARNERS.names())} (default: hvil)")
    parser.add_argument("--demos", type=int, metavar="N", help="training traces (default: the task's; of a file all)")
    parser.add_argument(
        "--test-traces",
        type=int,
        metavar="N",
        help="traces to measure the error on: fresh ones of a task, held out of a file",
    )
    parser.add_argument(
        "--call-graph",
        metavar="SPEC",
        help="tree:KxD, binary:N, chain:N, complete:N, annotations (the graph that they show), or a JSON file",
    )
    parser.add_argument("--out", metavar="RUN", help="a new run directory (default: runs/SOURCE-MODEL-SEED)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out from its last checkpoint")
    parser.add_argument("--plan", action="store_true", help="show every setting and the reason for it; train nothing")
    add_engine_flags(parser, "restarts")
    parser.add_argument(
        "--log",
        choices=("tensorboard", "trackio", "wandb"),
        help="also pass the numbers on to this tool; it needs the extra of its name",
    )
    parser.add_argument(
        "--watch", action="store_true", help="serve the report of the run so far on this machine, while it trains"
    )
    parser.add_argument(
        "--port", type=int, default=0, metavar="P", help="where --watch listens (default: any free port)"
    )
    parser.add_argument(
        "--baselines",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="also train a feed-forward and an LSTM policy, and compare (default: for data of your own)",
    )
    add_flags(parser, DataSettings, leave_out=OWN_FLAGS)
    described: set[str] = set()
    for name in LEARNERS.names():
        add_flags(parser, LEARNERS[name], leave_out=tuple(described), title=f"settings of {name}")
        described |= setting_names(LEARNERS[name])
    add_flags(parser, TrainingSettings)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Plan, train, evaluate, and say how it went."""
    # Imports stand in the functions for start-up speed: `--help` needs few of them.
    from contextlib import nullcontext
    from pathlib import Path

    from hvil.cli.commands.evaluate import finish
    from hvil.data.file_names import joined
    from hvil.data.sources import short_name
    from hvil.training.execution import earlier_config, refuse_existing
    from hvil.training.fit import BASELINES, prepare
    from hvil.training.loop import intervals
    from hvil.training.observers import Announcement
    from hvil.training.plan import refuse_unknown
    from hvil.training.restarts import train_plan
    from hvil.training.watching import watching

    engine = engine_of(args)
    args.source = joined(args.source) if args.source else None
    _fill_in(args)
    out = Path(args.out or f"runs/{short_name(args.source)}-{args.model or 'hvil'}-{args.seed or 0}")
    if not args.resume and not args.plan:
        refuse_existing(out)  # before the data are loaded, which may take a while
    earlier = earlier_config(out) if args.resume else None
    given, given_for_baselines = _given(args, args.model or ("hvil" if earlier is None else earlier.learner))
    prepared = prepare(args.source, given, args.call_graph, earlier=earlier)
    data, plan = prepared
    with_baselines = data.task is None and plan.config.learner not in BASELINES
    if args.baselines is not None:
        with_baselines = args.baselines
    if not with_baselines:
        refuse_unknown(given | given_for_baselines, plan.config.learner)
    if args.plan:
        return _show_plan(prepared, args.json)
    own_data = data.task is None
    config = plan.config
    announcement: list[Observer] = [Announcement(plan.lines(data))] if own_data and not args.json else []
    with watching(out, args.port) if args.watch else nullcontext() as address:
        if address is not None:
            print(f"watch it at {address}", file=sys.stderr, flush=True)
        trained = train_plan(
            plan,
            data,
            out,
            resume=args.resume,
            log=args.log,
            progress=True,
            observers=announcement,
            workers=args.workers,
            engine=engine,
        )
    if config.training.restarts > 1 and not args.json:
        _show_restarts(out)
    if trained.updates < config.training.updates and not args.json:
        # Training stops `patience` evaluations after the best one.
        best = trained.updates - config.training.patience * intervals(config.training).evaluation
        print(f"stopped early after {trained.updates} updates; the weights of update {best} are kept")
    result = finish(trained, data.test, args.json) | {"call_graph": plan.reasons.get("call_graph")}
    if with_baselines:
        result["baselines"] = _compare(trained, given | given_for_baselines, args.resume, args.json)
    if own_data:
        path, _ = trained.report()
        print(f"report: {path}", file=sys.stderr)  # standard output is for the results
    return result


def _fill_in(args: argparse.Namespace) -> None:
    """Take what the command line does not say from the file of `--config`."""
    from hvil.gate.errors import InputError
    from hvil.training.plan import check_settings
    from hvil.training.recipe import read_recipe

    if args.config is not None:
        recipe = read_recipe(args.config)
        try:
            check_settings(recipe.settings)
        except InputError as error:
            raise InputError(f"{args.config}: {error}") from error
        given = {"source": recipe.source, "call_graph": recipe.call_graph, **recipe.settings}
        for name, value in given.items():
            if getattr(args, name, None) is None:
                setattr(args, name, value)
    if args.source is None:
        raise InputError("no source: name a task or a file, or give --config")


def _show_restarts(out: "Path") -> None:
    """Say how the restarts of a run compare: by their objective on the training traces, the higher the better."""
    from hvil.gate.files import read_json
    from hvil.training.restarts import RECORD

    record = read_json(out / RECORD)
    for restart, values in record["merit"].items():
        judged = ", ".join(f"{value:.3f} after {update} updates" for update, value in values.items())
        program = record.get("programs", {}).get(restart)
        size = f"; program of {program['length']} parts, explains {program['explained']} traces" if program else ""
        kept = "  (kept)" if int(restart) == record["best"] else ""
        print(f"restart {restart}: merit {judged}{size}{kept}")


def _given(args: argparse.Namespace, learner: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings that the user gave: those for the run, and those that only the baselines have, not its learner.

    The first may hold settings of yet other learners; the planner refuses them.
    """
    from hvil.data.settings import DataSettings
    from hvil.gate.settings import setting_names
    from hvil.learners import LEARNERS
    from hvil.learners.settings import TrainingSettings
    from hvil.training.fit import BASELINES

    kinds: list[type] = [DataSettings, TrainingSettings, *(LEARNERS[name] for name in LEARNERS.names())]
    names = setting_names(*kinds) - {"source"} | {"model"}
    given = {name: getattr(args, name) for name in sorted(names) if getattr(args, name, None) is not None}
    of_learner = setting_names(LEARNERS[learner])
    of_baselines = setting_names(*(LEARNERS[name] for name in BASELINES)) - of_learner
    return (
        {name: value for name, value in given.items() if name not in of_baselines},
        {name: value for name, value in given.items() if name in of_baselines},
    )


def _show_plan(prepared: "Prepared", quiet: bool) -> dict[str, Any]:
    """Print every setting with its value and the reason for it."""
    from rich.table import Table

    from hvil.gate.text import console

    plan = prepared.plan
    settings = plan.settings() | {"call_graph": plan.config.graph.to_mapping()}
    if not quiet:
        for line in plan.lines(prepared.data):
            print(line)
        table = Table("setting", "value", "why")
        for name, value in settings.items():
            shown = f"{len(plan.config.graph.procedures)} procedures" if name == "call_graph" else str(value)
            table.add_row(name, shown, plan.reasons.get(name, "given"))
        console().print(table)
    return {"settings": settings, "reasons": dict(plan.reasons)}


def _compare(trained: "Run", given: dict[str, Any], resume: bool, quiet: bool) -> dict[str, Any]:
    """Train the baselines on the same traces, into the run's directory, and show them beside the run."""
    from rich.table import Table

    from hvil.analysis.evaluation import WRONG_END, WRONG_TRACE, evaluate, held_out_score
    from hvil.gate.files import write_json
    from hvil.gate.text import console
    from hvil.training.fit import fit_baselines
    from hvil.training.run_files import BASELINES as BASELINES_FILE

    runs = {trained.config.learner: trained, **fit_baselines(trained, given, resume=resume, progress=True)}
    test, kind = (trained.data.test, "test") if trained.data.test else (trained.data.training, "training")
    table = Table(
        "policy",
        "error",
        "nats per action",
        "updates",
        "seconds",
        title=f"on {len(test)} {kind} traces",
        caption=f"{WRONG_TRACE if test.vectors is None else WRONG_END}; "
        "nats per action: log-likelihood, the higher the better",
    )
    results: dict[str, Any] = {}
    for policy, each in runs.items():
        evaluation = evaluate(each.learner, test)
        score = held_out_score(each.learner, test)
        bound = "≥ " if evaluation.log_likelihood is None else ""
        table.add_row(policy, str(evaluation.error), f"{bound}{score:.3f}", str(each.updates), f"{each.seconds:.0f}")
        results[policy] = {
            "error": evaluation.error.value,
            "error_interval": list(evaluation.error.interval),
            "log_likelihood_per_action": score,
            "updates": each.updates,
            "seconds": round(each.seconds, 3),
        }
    assert trained.path is not None
    write_json(trained.path / BASELINES_FILE, results)
    if not quiet:
        console().print(table)
        for line in advice(trained, results):
            print(line)
    return results


def advice(trained: "Run", results: dict[str, Any]) -> list[str]:
    """What a user should know of a comparison: whether the hierarchy is used, and whether it was needed.

    Args:
        trained: the run.
        results: the error of the run and of each baseline, by their names.
    """
    from hvil.analysis.structures import infer
    from hvil.learners.learner import InfersStructure

    lines = []
    own, plain = results[trained.config.learner], results.get("feedforward")
    if plain is not None and plain["error"] <= own["error_interval"][1] and plain["error"] <= own["error"]:
        lines.append("a feed-forward policy does as well on these traces: they do not ask for a memory")
    if isinstance(trained.learner, InfersStructure):
        steps = infer(trained.learner, trained.data.training[:ADVICE_TRACES]).steps
        acting = steps.procedure[steps.choice < trained.config.graph.terminate]
        used = sorted(set(acting.tolist()))
        if len(used) == 1:
            name = trained.config.graph.procedures[used[0]]
            lines.append(
                f"one procedure ({name}) takes all actions: no hierarchy was found; try --restarts 4, another "
                "--call-graph, or mark some sub-tasks (--annotation-column)"
            )
    return lines
