"""Runs jobs as Ray tasks, on a cluster that is there or on one that is started here; records come back to the driver.

The same work as `local_engine`'s, elsewhere. A lost worker's task is tried again by Ray. What the workers print goes to
Ray's own logs.
"""

import fcntl
import json
import logging
import os
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from hvil import __version__
from hvil.experiments.engine.local import ATTEMPTS, THREADS, Engine, Failure, Job
from hvil.gate.errors import InputError
from hvil.gate.files import write_json


def ray_engine(address: str | None = None, workers: int | None = None) -> Engine:
    """An engine for `sweep`.

    Args:
        address: of a running cluster (`HOST:PORT`, or `auto`); None starts one on this machine for the time of the
            sweep.
        workers: how many cells at once; by default as many as the cluster has processors.
    """

    def run(
        jobs: Sequence[Job],
        work: str,
        processes: int,
        log: Path,
        on_progress: Callable[[str, float], None],
        on_done: Callable[[str], None],
    ) -> list[Failure]:
        if not jobs:
            return []
        ray = _connected(address, workers or processes)
        try:
            # On a running cluster Ray itself waits for free processors, also for those that join later.
            at_once = workers or (len(jobs) if address else processes)
            return _run(ray, jobs, work, at_once, on_done)
        finally:
            ray.shutdown()

    return run


def _connected(address: str | None, workers: int) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray would otherwise hide the GPUs from tasks that ask for none, and warn that it will stop doing so.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise InputError("--engine ray needs Ray: pip install 'hvil[ray]'") from error
    options: dict[str, Any] = {"address": address}
    if address is None:
        paths = [str(Path(__file__).resolve().parents[3]), *(path for path in sys.path if path)]
        environment = {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))} | dict.fromkeys(THREADS, "1")
        options = {
            "address": "local",
            "num_cpus": workers,
            "include_dashboard": False,
            "runtime_env": {"env_vars": environment},
        }
    try:
        ray.init(**options, log_to_driver=False, logging_level=logging.ERROR, configure_logging=True)
    except Exception as error:  # Ray has no type of its own for it
        reason = " ".join(str(error).split())[:300]
        if address:
            raise InputError(f"--ray-address {address}: cannot be reached ({reason})") from error
        raise OSError(f"Ray could not be started on this machine ({reason})") from error
    return ray


def _run(ray: Any, jobs: Sequence[Job], work: str, at_once: int, on_done: Callable[[str], None]) -> list[Failure]:
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
            failures.append(Failure(job.key, reason))
            continue
        if answer.get("bad_input"):
            raise InputError(f"{job.key}: {answer['failure']}")
        if "failure" in answer:
            failures.append(Failure(job.key, answer["failure"]))
            continue
        write_json(job.target, answer["record"])
        on_done(job.key)
    return failures


def run_task(work: str, cell: str, key: str, version: str) -> str:
    """What a worker does: text in, text out, so that nothing but JSON travels."""
    if version != __version__:
        return json.dumps({"failure": f"the worker has hvil {__version__}, the driver {version}"})
    for name in THREADS:
        os.environ.setdefault(name, "1")
    module, _, name = work.partition(":")
    home = Path(tempfile.gettempdir()) / f"hvil-{os.getuid()}" / "unfinished"
    home.mkdir(parents=True, exist_ok=True)
    scratch = home / key
    # What an earlier attempt left is gone on with; if it still runs, because its driver has just died, we wait for it.
    with (home / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            function = getattr(import_module(module), name)
            record = function(json.loads(cell), lambda share: None, scratch)
        except Exception as error:  # whatever it is, the driver has to know
            text = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            return json.dumps({"failure": text, "bad_input": isinstance(error, InputError)})
        shutil.rmtree(scratch, ignore_errors=True)
        Path(lock.name).unlink(missing_ok=True)
        return json.dumps({"record": record})
