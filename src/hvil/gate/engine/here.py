"""Runs jobs one after another in this process, for work that has a process of its own already.

Nothing has to be started: a short training takes less time than the imports of a new process.
"""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from hvil.gate.engine.local import Failure, Job, OnJobDone, OnJobProgress
from hvil.gate.files import remove_directory, write_json

Work = Callable[..., dict[str, Any]]
"""What is done with a cell (a mapping): it gets a callback for progress and a scratch directory, and gives the record.
The scratch directory exists only if an interrupted attempt left it."""


def run_here(
    jobs: Sequence[Job],
    work: str,
    workers: int,
    log: Path,
    on_progress: OnJobProgress,
    on_done: OnJobDone,
) -> list[Failure]:
    """Do all jobs in their order, as `run_jobs` does them in other processes. What goes wrong is raised."""
    function = find_work(work)
    for job in jobs:
        do_job(function, job, partial(on_progress, job.key))
        on_done(job.key)
    return []


def find_work(work: str) -> Work:
    """The function that `module:function` names."""
    module, _, name = work.partition(":")
    function: Work = getattr(import_module(module), name)
    return function


def do_job(function: Work, job: Job, progress: Callable[[float], None]) -> None:
    """Do a job, write its record, and leave no scratch directory."""
    record = function(job.cell, progress, job.scratch)
    write_json(job.target, record)
    remove_directory(job.scratch)
