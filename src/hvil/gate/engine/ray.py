"""Runs jobs as Ray tasks, on a running cluster or on one that it starts here; records come back to the driver.

The work is the same as that of `local`. Ray tries the task of a lost worker again. What the workers print goes to Ray's
own logs.
"""

import json
import logging
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from hvil import __version__
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
from hvil.gate.errors import InputError
from hvil.gate.files import lock, write_json


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
            answer = json.loads(ray.get(done))
        except ray.exceptions.RayError as error:  # the worker or its machine is gone, too often
            reason = f"its worker was lost {ATTEMPTS} times ({type(error).__name__})"
            failures.append(Failure(key=job.key, reason=reason))
            continue
        if answer.get("bad_input"):
            raise InputError(f"{job.key}: {answer['failure']}")
        if "failure" in answer:
            failures.append(Failure(key=job.key, reason=answer["failure"]))
            continue
        write_json(job.target, answer["record"])
        on_done(job.key)
    return failures


def run_task(work: str, cell: str, key: str, version: str) -> str:
    """Do one job in a worker. Arguments and result are text: nothing but JSON travels between the machines."""
    if version != __version__:
        return json.dumps({"failure": f"the worker has hvil {__version__}, the driver {version}"})
    for name in THREADS:
        os.environ.setdefault(name, "1")
    module, _, name = work.partition(":")
    home = Path(tempfile.gettempdir()) / f"hvil-{os.getuid()}" / "unfinished"
    home.mkdir(parents=True, exist_ok=True)
    scratch = home / key
    # An earlier attempt may still run, because its driver has just died: wait for it, then go on from what it left. The
    # file of the lock stays: if it were removed, a worker that waits for the old file and one that makes a new file
    # would both have the lock.
    with lock(home / f"{key}.lock"):
        try:
            function = getattr(import_module(module), name)
            record = function(json.loads(cell), lambda share: None, scratch)
        except Exception as error:  # the driver has to know of every kind of failure
            text = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            return json.dumps({"failure": text, "bad_input": isinstance(error, InputError)})
        shutil.rmtree(scratch, ignore_errors=True)
        return json.dumps({"record": record})
