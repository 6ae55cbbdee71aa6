"""Runs jobs as Ray tasks, on a running cluster or on one that it starts here; records come back to the driver.

The work is the same as that of `local`. Ray tries the task of a lost worker again. What the workers print goes to Ray's
own logs.
"""

import json
import logging
import os
import secrets
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hvil import __version__
from hvil.gate.border import own_directory
from hvil.gate.engine.here import find_work
from hvil.gate.engine.local import (
    ATTEMPTS,
    THREADS,
    Engine,
    Failure,
    Job,
    OnJobDone,
    OnJobProgress,
    worker_environment,
)
from hvil.gate.errors import InputError, one_line
from hvil.gate.files import lock, parse_json, remove_directory, write_json
from hvil.gate.settings import from_mapping


def ray_engine(address: str | None = None, workers: int | None = None) -> Engine:
    """Make an engine for `sweep`.

    Args:
        address: the address of a running cluster (`HOST:PORT`, or `auto`); None starts a cluster on this machine for
            the time of the sweep.
        workers: how many cells run at a time; by default as many as the cluster has processors.
    """

    def run(
        jobs: Sequence[Job],
        work: str,
        processes: int,
        log: Path,
        on_progress: OnJobProgress,
        on_done: OnJobDone,
    ) -> list[Failure]:
        if not jobs:
            return []
        ray = _connected(address, workers or processes)
        try:
            # On a running cluster Ray itself waits for free processors, and uses those that join later.
            at_once = workers or (len(jobs) if address else processes)
            return _run(ray, jobs, work, at_once, on_done)
        finally:
            ray.shutdown()

    return run


def _connected(address: str | None, workers: int) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address is None:  # our own cluster: only who can read the token may give it work
        # Without clusters of several machines, whatever the system, Ray listens on the loopback address alone.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    # Without this, Ray hides the GPUs from tasks that ask for none, and warns that it will stop doing so.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise InputError("--engine ray needs Ray: pip install 'hvil[ray]'") from error
    options: dict[str, Any] = {"address": address}
    if address is None:
        options = {
            "address": "local",
            "num_cpus": workers,
            "include_dashboard": False,
            "runtime_env": {"env_vars": worker_environment()},
        }
    try:
        ray.init(**options, log_to_driver=False, logging_level=logging.ERROR, configure_logging=True)
    except Exception as error:  # Ray has no exception type of its own for it
        reason = " ".join(str(error).split())[:300]
        if address:
            raise InputError(f"--ray-address {address}: cannot be reached ({reason})") from error
        raise OSError(f"Ray could not be started on this machine ({reason})") from error
    return ray


def _run(ray: Any, jobs: Sequence[Job], work: str, at_once: int, on_done: OnJobDone) -> list[Failure]:
    task = ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(run_task)
    waiting, running, failures = deque(jobs), dict[Any, Job](), list[Failure]()
    while waiting or running:
        while waiting and len(running) < at_once:
            job = waiting.popleft()
            running[task.remote(work, json.dumps(job.cell), job.key, __version__)] = job
        (done,), _ = ray.wait(list(running), num_returns=1)
        job = running.pop(done)
        try:
            answer = _read_answer(ray.get(done), job.key)
        except ray.exceptions.RayError as error:  # the worker or its machine is gone, too often
            reason = f"its worker was lost {ATTEMPTS} times ({type(error).__name__})"
            failures.append(Failure(key=job.key, reason=reason))
            continue
        except InputError as error:
            failures.append(Failure(key=job.key, reason=one_line(error, 300)))
            continue
        if answer.bad_input:
            raise InputError(f"{job.key}: {answer.failure}")
        if answer.record is None:
            failures.append(Failure(key=job.key, reason=answer.failure or "no record came back"))
            continue
        write_json(job.target, answer.record)
        on_done(job.key)
    return failures


@dataclass(frozen=True)
class _Answer:
    """What a worker sends back."""

    record: Mapping[str, Any] | None = None
    failure: str | None = None
    bad_input: bool = False


def _read_answer(text: Any, key: str) -> _Answer:
    """The answer of a worker, which may be on another machine: nothing but JSON of this form is accepted."""
    where = f"{key}: the worker's answer"
    if not isinstance(text, str):
        raise InputError(f"{where}: expected text, not {type(text).__name__}")
    return from_mapping(_Answer, parse_json(text, where), where, noun="entry")


def run_task(work: str, cell: str, key: str, version: str) -> str:
    """Do one job in a worker. Arguments and result are text: nothing but JSON travels between the machines."""
    if version != __version__:
        return json.dumps({"failure": f"the worker has hvil {__version__}, the driver {version}"})
    for name in THREADS:
        os.environ.setdefault(name, "1")
    # The name can be guessed: the directory counts only if it is this user's own.
    home = own_directory(own_directory(Path(tempfile.gettempdir()) / f"hvil-{os.getuid()}") / "unfinished")
    scratch = home / key
    # An earlier attempt may still run, because its driver has just died: wait for it, then go on from what it left. The
    # file of the lock stays: if it were removed, a worker that waits for the old file and one that makes a new file
    # would both have the lock.
    with lock(home / f"{key}.lock"):
        try:
            record = find_work(work)(json.loads(cell), lambda share: None, scratch)
        except Exception as error:  # the driver has to know of every kind of failure
            text = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            return json.dumps({"failure": text, "bad_input": isinstance(error, InputError)})
        remove_directory(scratch)
        return json.dumps({"record": record})
