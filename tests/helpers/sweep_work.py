"""Work for the workers of a sweep that takes no time: what happened is written beside the records."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from hvil.gate.errors import InputError


def work(cell: dict[str, Any], progress: Any, scratch: Path) -> dict[str, Any]:
    """Do what the cell's seed says, and leave a line in the log."""
    settings = cell["settings"]
    with open(os.environ["SWEEP_LOG"], "a", encoding="utf-8") as log:
        log.write(f"{cell['run']}\n")
    progress(0.5)
    time.sleep(settings.get("clip", 0.0))
    first = not scratch.exists()
    scratch.mkdir(parents=True, exist_ok=True)
    if settings.get("batch_size") == 1 and first:
        os.kill(os.getpid(), signal.SIGKILL)
    if settings.get("batch_size") == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if settings.get("batch_size") == 3:
        raise FloatingPointError("the loss became nan")
    if settings.get("batch_size") == 4:
        raise InputError("no such thing")
    print("what a library prints goes to the log")
    return {"error": cell["run"] / 10, "resumed": not first}
