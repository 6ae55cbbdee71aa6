"""A worker process of a sweep: it reads jobs as JSON lines on standard input, writes records to files, reports back.

`local` starts it as `python -m hvil.gate.engine.worker WORK`, where WORK is `module:function`, a `Work` of
`here`.
"""

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from hvil.gate.engine.here import do_job, find_work
from hvil.gate.engine.local import Job
from hvil.gate.errors import InputError

REPORT_SECONDS = 0.5
"""The least time between two reports of progress: a bar needs no more, and an update may take only a millisecond."""


def main(work: str) -> None:
    """Serve jobs until standard input ends."""
    channel = _own_channel()
    function = find_work(work)
    jobs = _jobs()
    while True:
        job = jobs.get()
        try:
            do_job(function, job, _reporter(channel))
            _say(channel, {"done": True})
        except Exception as error:  # the parent has to know of every kind of failure
            _say(channel, {"failure": f"{type(error).__name__}: {error}", "bad_input": isinstance(error, InputError)})


def _own_channel() -> IO[str]:
    """The pipe to the parent. From now on, what libraries print goes to standard error and does not disturb it."""
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return channel


def _jobs() -> "queue.Queue[Job]":
    """A queue that a thread fills with jobs. When the input ends, the parent is gone: the thread ends this process."""
    jobs: queue.Queue[Job] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            message = json.loads(line)
            places = {name: Path(message[name]) for name in ("target", "scratch")}
            jobs.put(Job(key=message["key"], cell=message["cell"], **places))
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return jobs


def _reporter(channel: IO[str]) -> Callable[[float], None]:
    """A callback for progress that reports now and then."""
    last = time.monotonic()

    def report(share: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= REPORT_SECONDS:
            last = now
            _say(channel, {"progress": share})

    return report


def _say(channel: IO[str], message: dict[str, Any]) -> None:
    channel.write(json.dumps(message) + "\n")
    channel.flush()


if __name__ == "__main__":
    main(sys.argv[1])
