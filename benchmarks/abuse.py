"""Abuse every command with hostile inputs: whatever they hold, the answer is success or one clear line.

    python -m benchmarks.abuse [--cases 50000] [--first 0] [--seed 0] [--only KIND] [--keep DIRECTORY]

A case is a valid input of some kind (trace files, call graphs, experiments, programs, run directories and each of their
files, records, words of the command line) that was changed: bytes flipped, cut and doubled, values of JSON replaced,
files replaced by links, pipes and devices, archives and tables that claim or unpack to far more than they are. Cases
run in forked workers, many in a row; one that dies is replaced and its case counts as a crash. Around the directory
of a case lie files of others, which no case may touch. The table has a row for each kind; exit code 1 if any case
was not as it should be, and its input is kept. A case depends on its number and the seed alone, so that the cases can
be split into ranges (`--first`).
"""

import argparse
import contextlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import NamedTuple

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ARROW_IO_THREADS"):
    os.environ.setdefault(_name, "1")

from benchmarks.hostile import KINDS, Kind, World  # noqa: E402 (libraries read their number of threads when loaded)

SECONDS = 5.0
"""Processor time of a case, at most."""
TIMES, MEMORY = 10, 200 << 20
"""Memory of a case, at most: so many times its input's size, and so many bytes."""
WALL_SECONDS = 120.0
"""A case that takes longer is stuck, whatever it waits for."""

GOOD = ("accepted", "refused")
BAD = ("traceback", "crash", "slow", "memory", "outside", "several lines", "wrong code")


class Outcome(NamedTuple):
    """What became of a case."""

    case: int
    kind: str
    result: str
    detail: str = ""


class Slow(BaseException):
    """A case took too long."""


def case_of(number: int, seed: int, kinds: list[Kind]) -> tuple[Kind, random.Random]:
    """The kind of a case, and the random numbers that make it."""
    rng = random.Random(f"{seed} {number}")
    return kinds[number % len(kinds)], rng


def run_case(number: int, seed: int, kinds: list[Kind], world: World) -> Outcome:
    """Make a case, run it, and judge it."""
    kind, rng = case_of(number, seed, kinds)
    world.clean()
    action, size = kind.make(rng, world)
    before = world.others()
    _reset_peak()
    memory, started = _memory(), time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, 2 * SECONDS)
    output, errors = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            code = action()
        result, detail = _judged(code, errors.getvalue())
    except Slow:
        result, detail = "slow", f"over {2 * SECONDS:g} s"
    except BaseException:
        result, detail = "traceback", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    seconds, taken = time.process_time() - started, _peak() - memory
    if world.others() != before:
        result, detail = "outside", "a file of others was changed"
    elif result in GOOD and seconds > SECONDS:
        result, detail = "slow", f"{seconds:.1f} s"
    elif result in GOOD and taken > TIMES * size + MEMORY:
        result, detail = "memory", f"{taken >> 20} MB for {size >> 10} KB"
    return Outcome(number, kind.name, result, detail)


def _judged(code: int, errors: str) -> tuple[str, str]:
    """What an exit code and the lines on standard error amount to."""
    if code == 0:
        return "accepted", ""
    lines = [line for line in errors.splitlines() if not line.startswith(("note:", "report:"))]
    if len(lines) != 1 or len(errors) > 2000:
        return "several lines", errors[:2000]
    return ("refused", "") if code == 2 else ("wrong code", f"{code}: {errors[:500]}")


def worker(first: int, last: int, seed: int, kinds: list[Kind], world: World, keep: Path, pipe: int) -> None:
    """Run cases in a row, keep the inputs of those that got by, and tell each outcome."""
    signal.signal(signal.SIGVTALRM, _too_slow)
    with os.fdopen(pipe, "w") as stream:
        for number in range(first, last):
            stream.write(json.dumps({"begin": number}) + "\n")
            stream.flush()
            outcome = run_case(number, seed, kinds, world)
            if outcome.result in BAD:
                keep_input(outcome, world, keep)
            stream.write(json.dumps(outcome._asdict()) + "\n")
            stream.flush()
            if outcome.result == "memory":  # what it took would count against the next case
                return


def keep_input(outcome: Outcome, world: World, keep: Path) -> None:
    """Copy the directory of a case that was not as it should be."""
    target = keep / f"{outcome.kind}-{outcome.case}"
    shutil.rmtree(target, ignore_errors=True)
    with contextlib.suppress(OSError, shutil.Error):  # what cannot be copied, such as a pipe, is left out
        shutil.copytree(world.case, target, symlinks=True)


def run_all(cases: range, seed: int, kinds: list[Kind], world: World, keep: Path) -> list[Outcome]:
    """Run all cases, a worker at a time."""
    outcomes: list[Outcome] = []
    following = cases.start
    while following < cases.stop:
        following = _run_worker(following, cases.stop, seed, kinds, world, keep, outcomes)
    return outcomes


def _run_worker(
    first: int, last: int, seed: int, kinds: list[Kind], world: World, keep: Path, outcomes: list[Outcome]
) -> int:
    """Run cases until they are done or the worker dies; the number of the case to go on with."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            worker(first, last, seed, kinds, world, keep, writing)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    begun, done = first - 1, first - 1
    with os.fdopen(reading) as stream:
        signal.alarm(int(WALL_SECONDS))
        for line in stream:
            message = json.loads(line)
            if "begin" in message:
                begun = message["begin"]
                signal.alarm(int(WALL_SECONDS))
                continue
            outcome = Outcome(**message)
            outcomes.append(outcome)
            _tell(outcome)
            done = outcome.case
    signal.alarm(0)
    _, status = os.waitpid(child, 0)
    if begun > done:
        crash = Outcome(begun, case_of(begun, seed, kinds)[0].name, "crash", f"the process ended with {status}")
        outcomes.append(crash)
        keep_input(crash, world, keep)
        _tell(crash)
    return begun + 1


def _tell(outcome: Outcome) -> None:
    if outcome.result in BAD:
        print(f"case {outcome.case}, {outcome.kind}: {outcome.result}: {outcome.detail[-800:]}", flush=True)


def _too_slow(*_: object) -> None:
    raise Slow


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def table(outcomes: list[Outcome]) -> str:
    """What became of the cases of each kind."""
    names = [*GOOD, *BAD]
    lines = [f"{'kind':16}{'cases':>8}" + "".join(f"{name:>15}" for name in names)]
    for kind in [*dict.fromkeys(outcome.kind for outcome in outcomes), "all"]:
        counts = Counter(outcome.result for outcome in outcomes if kind in (outcome.kind, "all"))
        lines.append(f"{kind:16}{counts.total():>8}" + "".join(f"{counts[name]:>15}" for name in names))
    return "\n".join(lines)


def main() -> int:
    """Run, print, and keep what failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=50_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(KINDS), help="one kind of input")
    parser.add_argument("--keep", type=Path, default=Path("abuse_defects"), help="where hostile inputs go that got by")
    args = parser.parse_args()
    kinds = [KINDS[args.only]] if args.only else list(KINDS.values())
    started = time.monotonic()
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as directory:
        cases = range(args.first, args.first + args.cases)
        outcomes = run_all(cases, args.seed, kinds, World(Path(directory)), args.keep.absolute())
    print(table(outcomes))
    print(f"{len(outcomes)} cases in {time.monotonic() - started:.0f} s")
    return 1 if any(outcome.result in BAD for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
