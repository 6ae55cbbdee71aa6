"""The command line: it parses, calls the module of one command, and prints. Commands are imported when called.

Exit codes: 0 done, 1 the work failed, 2 bad input, 130 interrupted. Errors are one line on standard error.
"""

import argparse
import errno
import io
import json
import math
import os
import sys
from collections.abc import Container, Mapping, Sequence
from importlib import import_module
from typing import Any

from hvil import CACHE_NOTE, __version__
from hvil.gate.budget import VARIABLE, set_limit
from hvil.gate.errors import LONGEST, InputError, one_line
from hvil.gate.text import visible_output

COMMANDS: Mapping[str, str] = {
    "demos": "write demonstrations of a task",
    "bench": "measure speed, as ratios in one run",
    "card": "write the model card of a run",
    "completion": "print the completion script of a shell",
    "compare": "train learners on the same demonstrations, with intervals and a curve",
    "demo": "take a tour: learn, compare, print the program, write the report",
    "doctor": "check the installation: versions, cache, device, threads, browser",
    "explain": "print what was learned as a program",
    "evaluate": "measure a run's error and its roll-outs",
    "fit": "learn a policy from demonstrations",
    "infer": "write the call structure of given traces, as data",
    "inspect": "describe a trace file and its problems",
    "graph": "show a call graph as text, Graphviz DOT or JSON",
    "pull": "fetch a run from the Hub",
    "push": "send a run to the Hub",
    "reproduce": "run a figure of the paper, or an experiment of your own, and judge its claims",
    "runs": "tabulate the runs in a directory",
    "report": "write one HTML page to read a run and step through it",
}
"""Name and summary of each command; the module `hvil.cli.commands.NAME` does the work."""

CELLS_FAILED = "{} cells failed; the same command tries them again"
"""What is said of a result with `failures`, if the module of the command has no `FAILED` of its own."""

NO_NAMES = (errno.ENAMETOOLONG, errno.ELOOP)
"""Errors of the system that say: what the user gave is the name of nothing."""


class _Parser(argparse.ArgumentParser):
    """A parser that complains in one line."""

    def error(self, message: str) -> Any:
        self.exit(2, f"{self.prog}: error: {one_line(message, LONGEST)} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without our symbols shows their numbers
    with visible_output():
        return _main(list(sys.argv[1:] if arguments is None else arguments))


def _main(arguments: list[str]) -> int:
    called = _called(arguments)
    limit = os.environ.get(VARIABLE)
    try:
        args = command_parser([called] if called else []).parse_args(arguments)
        if CACHE_NOTE:
            sys.stderr.write(f"note: {CACHE_NOTE}\n")
        if args.limit is not None:
            set_limit(args.limit)
        command = import_module(f"hvil.cli.commands.{args.command}")
        result = command.run(args)
        if args.json:
            json.dump(_jsonable(result), sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
            sys.stdout.write("\n")
        sys.stdout.flush()
        failures = result.get("failures")
        if failures:  # some of the work failed, say cells of a sweep; the results of the rest have been shown
            return _complain(called, getattr(command, "FAILED", CELLS_FAILED).format(len(failures)), 1)
    except SystemExit as exit_:  # help, the version, or flags that cannot be understood
        return int(exit_.code or 0)
    except InputError as error:
        return _complain(called, error, 2)
    except BrokenPipeError:  # the reader has gone: what is still flushed at exit must go nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return _complain(called, "interrupted", 130)
    except MemoryError:
        return _complain(called, "out of memory", 1)
    except (OSError, FloatingPointError) as error:
        return _complain(called, error, 2 if getattr(error, "errno", None) in NO_NAMES else 1)
    finally:
        _restore(limit)
    return 0


def _open_closed_streams() -> None:
    """Point standard streams that the caller closed to nowhere: else the next file that is opened would become one."""
    for number, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))


def _restore(limit: str | None) -> None:
    """Put the limit back: a flag is for its own command, and tests run many in one process."""
    if limit is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = limit


def _called(arguments: Sequence[str]) -> str | None:
    """The command that is called, if there is one of the name."""
    return next((argument for argument in arguments if argument in COMMANDS), None)


def _jsonable(value: Any) -> Any:
    """The value with null for numbers that are not finite: JSON has no other word for them."""
    if isinstance(value, Mapping):
        return {key: _jsonable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _complain(command: str | None, error: object, code: int) -> int:
    name = "hvil" if command is None else f"hvil {command}"
    sys.stderr.write(f"{name}: error: {one_line(error, LONGEST)}\n")
    return code


def command_parser(with_flags: Container[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser of all commands. Only those `with_flags` have flags, because their modules have to be imported."""
    parser = _Parser(
        prog="hvil",
        description="Learn hierarchical control programs from demonstrations.",
        epilog="Each command has its own --help, with examples.",
    )
    parser.add_argument("--version", action="version", version=f"hvil {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    for name, summary in COMMANDS.items():
        if name not in with_flags:
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
        command.add_argument(
            "--limit",
            metavar="SIZE",
            help="memory that an input may take, such as 2GB (default: 8 times its size and 64 MB, at most 8 GB)",
        )
        module.configure(command)
    return parser
