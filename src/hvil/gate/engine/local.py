"""Runs jobs in worker processes on this machine: one thread each, replaced when they die, ended when we end.

It does not look into jobs: a cell goes to a worker as JSON, and the worker leaves its record in a file (see `worker`).
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
from hvil.gate.files import append_file

ATTEMPTS = 3
"""How often a job is tried. A worker that dies once was probably stopped from outside (a signal, other programs' need
for memory); a job whose worker dies three times probably kills it."""

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
"""The variables with which libraries are told to use one thread: the cells already use every processor."""


class Job(NamedTuple):
    """One piece of work."""

    key: str
    cell: dict[str, Any]
    target: Path
    """The file that the worker writes."""
    scratch: Path
    """A directory for the unfinished work. It survives the worker, and is removed when the job is done."""


class Failure(NamedTuple):
    """A job that could not be done."""

    key: str
    reason: str


OnJobProgress = Callable[[str, float], None]
"""Called with a job's key and the share of it that is done."""
OnJobDone = Callable[[str], None]
"""Called with the key of a job whose record is in its file."""

Engine = Callable[[Sequence[Job], str, int, Path, OnJobProgress, OnJobDone], list[Failure]]
"""A function that does jobs; `run_jobs` documents the arguments and the result."""


def worker_environment() -> dict[str, str]:
    """The variables that every worker needs: where our source and the caller's modules are, and one thread."""
    source = str(Path(__file__).resolve().parents[3])
    paths = [source, *sys.path, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, paths)))} | dict.fromkeys(THREADS, "1")


def run_jobs(
    jobs: Sequence[Job],
    work: str,
    workers: int,
    log: Path,
    on_progress: OnJobProgress,
    on_done: OnJobDone,
) -> list[Failure]:
    """Do all jobs, in about the given order.

    Args:
        jobs: what to do; their keys differ.
        work: `module:function`, what the workers call for each job.
        workers: how many processes.
        log: the file to which everything that the workers print is added.
        on_progress: called as jobs advance.
        on_done: called when a job is done.

    Returns:
        The jobs that failed, with the reason.

    Raises:
        InputError: a job's input is bad; the jobs that remain are not tried.
    """
    team = _Team(jobs, work, log, on_progress, on_done)
    try:
        for _ in range(min(workers, len(jobs))):
            team.start_worker()
        while team.busy:
            team.wait()
    finally:
        team.end()
    return team.failures


class _Worker:
    """A process and its job."""

    def __init__(self, work: str, log: Path) -> None:
        with append_file(log) as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hvil.gate.engine.worker", work],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(os.environ) | worker_environment(),
                start_new_session=True,  # an interrupt at the terminal reaches only us; we end the workers
            )
        self.job: Job | None = None
        self._partial = b""

    def give(self, job: Job) -> None:
        """Hand over a job. If the worker is dead, `messages` will say so."""
        self.job = job
        assert self.process.stdin is not None
        line = json.dumps(job._asdict() | {"target": str(job.target), "scratch": str(job.scratch)})
        with suppress(BrokenPipeError):
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()

    def messages(self) -> list[dict[str, Any]] | None:
        """What the worker has said since the last call; None if it is dead."""
        assert self.process.stdout is not None
        data = os.read(self.process.stdout.fileno(), 65536)
        if not data:
            return None
        *lines, self._partial = (self._partial + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self) -> None:
        """Kill the process, if it still lives, and close the pipes."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


class _Team:
    """The workers, the jobs that wait, and the jobs that failed."""

    def __init__(
        self, jobs: Sequence[Job], work: str, log: Path, on_progress: OnJobProgress, on_done: OnJobDone
    ) -> None:
        self.failures: list[Failure] = []
        self._work, self._log = work, log
        self._on_progress, self._on_done = on_progress, on_done
        self._waiting = deque(jobs)
        self._attempts = dict.fromkeys((job.key for job in jobs), 0)
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()

    @property
    def busy(self) -> bool:
        """Whether any worker has a job."""
        return any(worker.job is not None for worker in self._workers)

    def start_worker(self) -> None:
        """Start a process and give it a job."""
        worker = _Worker(self._work, self._log)
        self._workers.append(worker)
        assert worker.process.stdout is not None
        self._selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
        self._give_next(worker)

    def wait(self) -> None:
        """Wait until some workers have said something or died, and act on it."""
        for key, _ in self._selector.select():
            worker: _Worker = key.data
            messages = worker.messages()
            if messages is None:
                self._replace(worker)
                continue
            for message in messages:
                self._act(worker, message)

    def end(self) -> None:
        """End all processes."""
        self._selector.close()
        for worker in self._workers:
            worker.end()

    def _give_next(self, worker: _Worker) -> None:
        worker.job = None
        if self._waiting:
            job = self._waiting.popleft()
            self._attempts[job.key] += 1
            worker.give(job)

    def _act(self, worker: _Worker, message: dict[str, Any]) -> None:
        assert worker.job is not None
        key = worker.job.key
        if "progress" in message:
            self._on_progress(key, float(message["progress"]))
            return
        if message.get("bad_input"):
            raise InputError(f"{key}: {message['failure'].partition(': ')[2]}")
        if "failure" in message:
            self.failures.append(Failure(key=key, reason=message["failure"]))
        else:
            self._on_done(key)
        self._give_next(worker)

    def _replace(self, worker: _Worker) -> None:
        """Remove a dead worker, decide what becomes of its job, and start another if jobs wait."""
        self._selector.unregister(worker.process.stdout)  # type: ignore[arg-type]
        self._workers.remove(worker)
        worker.end()
        job = worker.job
        if job is not None and job.target.exists():
            self._on_done(job.key)  # it died after it had written the record
        elif job is not None and self._attempts[job.key] < ATTEMPTS:
            self._waiting.appendleft(job)
        elif job is not None:
            reason = f"its worker died {ATTEMPTS} times (exit code {worker.process.returncode}); see {self._log}"
            self.failures.append(Failure(key=job.key, reason=reason))
        if self._waiting:
            self.start_worker()
