"""Flags that several commands share: how many jobs at a time and who runs them, and where a run's traces are."""

import argparse
from typing import TYPE_CHECKING

from hvil.gate.errors import InputError

if TYPE_CHECKING:
    from hvil.gate.engine.local import Engine


def add_engine_flags(parser: argparse.ArgumentParser, jobs: str) -> None:
    """Add the flags; `jobs` says what is run, in the plural."""
    parser.add_argument(
        "--engine", choices=("local", "ray"), default="local", help=f"who runs the {jobs} (default: %(default)s)"
    )
    parser.add_argument("--workers", type=int, metavar="K", help=f"{jobs} at a time (default: one a processor)")
    parser.add_argument(
        "--ray-address", metavar="HOST:PORT", help="a running Ray cluster (default: one is started on this machine)"
    )


def add_source_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag by which the user names the traces of a run that somebody else trained."""
    parser.add_argument(
        "--source",
        dest="own_source",
        metavar="SOURCE",
        help="where the run's own traces are, if somebody else trained it (a run that you trained knows it)",
    )


def engine_of(args: argparse.Namespace) -> "Engine":
    """The engine that the flags name."""
    # Imports stand here for start-up speed.
    from hvil.gate.engine.local import run_jobs
    from hvil.gate.engine.ray import ray_engine

    if args.workers is not None and args.workers < 1:
        raise InputError(f"--workers {args.workers}: expected at least 1")
    if args.ray_address and args.engine != "ray":
        raise InputError("--ray-address is for --engine ray")
    return ray_engine(args.ray_address, args.workers) if args.engine == "ray" else run_jobs
