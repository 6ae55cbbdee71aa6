"""`hvil fit`: learn a policy from demonstrations, into a run directory."""

import argparse
from typing import Any

SUMMARY = (
    "Learn a policy from a task's demonstrations or a trace file. Settings not given come from the task's preset "
    "(recorded in the run's config.json), else from the defaults below."
)
EXAMPLES = [
    "hvil fit karel:F --demos 10 --seed 0",
    "hvil fit bubblesort --demos 30 --updates 20000 --out runs/sort",
    "hvil fit bubblesort --demos 30 --updates 20000 --out runs/sort --resume",
    "hvil fit traces.npz --call-graph tree:5x2 --model hvil",
]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    from hvil.config import ModelSettings, TrainingSettings
    from hvil.settings import add_flags

    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="a task (bubblesort, karel:F, mnist-parity:0.7), FILE.npz, FILE.parquet, minari:ID",
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
    add_flags(parser, ModelSettings)
    add_flags(parser, TrainingSettings)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Train, evaluate, and say how it went."""
    from pathlib import Path

    from hvil.commands.evaluate import finish
    from hvil.config import Config, DataSettings, ModelSettings, TrainingSettings
    from hvil.observers import on_terminal
    from hvil.presets import DEFAULT_CALL_GRAPH, preset
    from hvil.run import fit_config, refuse_existing
    from hvil.settings import from_flags
    from hvil.sources import is_file, load_data, short_name

    name = args.model or ModelSettings.model
    known = {} if is_file(args.source) else preset(args.source, name)
    seed = from_flags(TrainingSettings, args).seed
    out = Path(args.out or f"runs/{short_name(args.source)}-{name}-{seed}")
    if not args.resume:
        refuse_existing(out)
    settings = from_flags(DataSettings, args, known)
    data = load_data(settings, seed)
    known = preset(data.training.attributes.get("task"), name)
    graph = args.call_graph or (data.task.default_call_graph if data.task else DEFAULT_CALL_GRAPH)
    config = Config.of(
        data.training,
        graph,
        from_flags(ModelSettings, args, known),
        from_flags(TrainingSettings, args, known),
        settings,
    )
    trained = fit_config(config, data, out, resume=args.resume, tensorboard=args.tensorboard, progress=on_terminal())
    return finish(trained, data.test, args.json)
