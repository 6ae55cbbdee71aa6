"""Runs jobs in worker processes on this machine: one thread each, restarted when they die, gone when we go.

Knows nothing of what a job is: a cell goes in as JSON, the worker leaves its record in a file (see `worker`).
"""

import json
import os
import selectors
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from hvil.gate.errors import InputError

ATTEMPTS = 3
"""How often a job is tried whose worker dies (killed, out of memory) before it is given up."""

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class Job(NamedTuple):
    """One piece of work."""

    key: str
    cell: dict[str, Any]
    target: Path
    """The file that the worker writes."""
    scratch: Path
    """A directory for what is unfinished; it survives the worker, and goes when the job is done."""


class Failure(NamedTuple):
    """A job that could not be done."""

    key: str
    reason: str


Engine = Callable[[Sequence[Job], str, int, Path, Callable[[str, float], None], Callable[[str], None]], list[Failure]]
"""Whoever can do jobs: see `run_jobs` for the arguments and the result."""


class _Worker:
    """A process and the job it has."""

    def __init__(self, work: str, log: Path) -> None:
        source = str(Path(__file__).resolve().parents[3])
        paths = [source, *(path for path in sys.path if path), os.environ.get("PYTHONPATH", "")]
        environment = dict(os.environ) | dict.fromkeys(THREADS, "1")
        environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path for path in paths if path))
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hvil.experiments.engine.worker", work],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                start_new_session=True,  # an interrupt is for us; we end the workers
            )
        self.job: Job | None = None
        self._partial = b""

    def give(self, job: Job) -> None:
        """Hand over a job; that the worker is dead will be seen when it is read from."""
        self.job = job
        assert self.process.stdin is not None
        line = json.dumps({"cell": job.cell, "target": str(job.target), "scratch": str(job.scratch)})
        with suppress(BrokenPipeError):
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()

    def messages(self) -> list[dict[str, Any]] | None:
        """What it said since last time; None if it is dead."""
        assert self.process.stdout is not None
        data = os.read(self.process.stdout.fileno(), 65536)
        if not data:
            return None
        *lines, self._partial = (self._partial + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self) -> None:
        """Make sure it is gone."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def run_jobs(
    jobs: Sequence[Job],
    work: str,
    workers: int,
    log: Path,
    on_progress: Callable[[str, float], None],
    on_done: Callable[[str], None],
) -> list[Failure]:
    """Do all jobs, in about the given order.

    Args:
        jobs: with different keys.
        work: `module:function`, what the workers call for each.
        workers: how many processes.
        log: file that what the workers print is added to.
        on_progress: told which job is how far.
        on_done: told which job's record is in its file.

    Returns:
        The jobs that failed, with the reason.

    Raises:
        InputError: a job's input is bad; the rest is not tried.
    """
    waiting, attempts, failures = deque(jobs), dict.fromkeys((job.key for job in jobs), 0), list[Failure]()
    pool: list[_Worker] = []
    selector = selectors.DefaultSelector()

    def start() -> None:
        worker = _Worker(work, log)
        pool.append(worker)
        assert worker.process.stdout is not None
        selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
        feed(worker)

    def feed(worker: _Worker) -> None:
        worker.job = None
        if waiting:
            job = waiting.popleft()
            attempts[job.key] += 1
            worker.give(job)

    def bury(worker: _Worker) -> None:
        selector.unregister(worker.process.stdout)  # type: ignore[arg-type]
        pool.remove(worker)
        worker.end()
        job = worker.job
        if job is not None and job.target.exists():
            on_done(job.key)  # it died after its work
        elif job is not None and attempts[job.key] < ATTEMPTS:
            waiting.appendleft(job)
        elif job is not None:
            code = worker.process.returncode
            failures.append(Failure(job.key, f"its worker died {ATTEMPTS} times (exit code {code}); see {log}"))
        if waiting:
            start()

    try:
        for _ in range(min(workers, len(jobs))):
            start()
        while any(worker.job is not None for worker in pool):
            for key, _ in selector.select():
                worker: _Worker = key.data
                messages = worker.messages()
                if messages is None:
                    bury(worker)
                    continue
                for message in messages:
                    assert worker.job is not None
                    if "progress" in message:
                        on_progress(worker.job.key, float(message["progress"]))
                        continue
                    if message.get("bad_input"):
                        raise InputError(f"{worker.job.key}: {message['failure'].partition(': ')[2]}")
                    if "failure" in message:
                        failures.append(Failure(worker.job.key, message["failure"]))
                    else:
                        on_done(worker.job.key)
                    feed(worker)
    finally:
        selector.close()
        for worker in pool:
            worker.end()
    return failures
