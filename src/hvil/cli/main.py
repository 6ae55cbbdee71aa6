"""The command line: it parses, calls the module of one command, and prints. Commands are imported when called.

Exit codes: 0 done, 1 the work failed, 2 bad input, 130 interrupted. Errors are one line on standard error.
"""

import argparse
import io
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from hvil import __version__
from hvil.gate.errors import InputError, one_line

COMMANDS: Mapping[str, str] = {
    "demos": "write demonstrations of a task",
    "bench": "measure speed, as ratios in one run",
    "compare": "train learners on the same demonstrations, with intervals and a curve",
    "explain": "print what was learned as a program",
    "evaluate": "measure a run's error and its roll-outs",
    "fit": "learn a policy from demonstrations",
    "infer": "write the call structure of given traces, as data",
    "inspect": "describe a trace file and its problems",
    "graph": "show a call graph as text, Graphviz DOT or JSON",
    "reproduce": "run a figure of the paper, or an experiment of your own, and judge its claims",
    "report": "write one HTML page to read a run and step through it",
}
"""Name and summary of each command; the module `hvil.cli.commands.NAME` does the work."""


class _Parser(argparse.ArgumentParser):
    """A parser that complains in one line."""

    def error(self, message: str) -> Any:
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        args = _parser(arguments).parse_args(arguments)
    except SystemExit as exit_:
        return int(exit_.code or 0)
    command = import_module(f"hvil.cli.commands.{args.command}")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without our symbols shows ? instead of failing
    try:
        result = command.run(args)
        if args.json:
            json.dump(_jsonable(result), sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
            sys.stdout.write("\n")
        sys.stdout.flush()
        failures = result.get("failures")
        if failures:  # some cells of a sweep failed; the results of the others have been shown
            return _complain(args.command, f"{len(failures)} cells failed; the same command tries them again", 1)
    except InputError as error:
        return _complain(args.command, error, 2)
    except BrokenPipeError:  # the reader has gone: what is still flushed at exit must go nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return _complain(args.command, "interrupted", 130)
    except (OSError, FloatingPointError, MemoryError) as error:
        return _complain(args.command, error, 1)
    return 0


def _jsonable(value: Any) -> Any:
    """The value with null for numbers that are not finite: JSON has no other word for them."""
    if isinstance(value, Mapping):
        return {key: _jsonable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _complain(command: str, error: object, code: int) -> int:
    sys.stderr.write(f"hvil {command}: error: {one_line(error)}\n")
    return code


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of all commands; only the module of the command that is called is imported, and only it has flags."""
    parser = _Parser(
        prog="hvil",
        description="Learn hierarchical control programs from demonstrations.",
        epilog="Each command has its own --help, with examples.",
    )
    parser.add_argument("--version", action="version", version=f"hvil {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    called = next((argument for argument in arguments if argument in COMMANDS), None)
    for name, summary in COMMANDS.items():
        if name != called:
            commands.add_parser(name, help=summary)
            continue
        module = import_module(f"hvil.cli.commands.{name}")
        command = commands.add_parser(
            name,
            help=summary,
            description=module.SUMMARY,
            epilog="examples:\n" + "\n".join(f"  {example}" for example in module.EXAMPLES),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument("--json", action="store_true", help="print one JSON object on standard output")
        module.configure(command)
    return parser
