"""Progress on standard error: bars for people at a terminal, and lines in the log of a sweep.

Callers say how far the work is; nothing here knows what the work is.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hvil.gate.text import console, in_line

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with how much of `total` is done; without a terminal it does nothing."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    with bar_of_tasks() as bar:
        task = bar.add_task(in_line(label), total=total, numbers="")
        yield lambda done: bar.update(task, completed=done)


def bar_of_tasks(auto_refresh: bool = True) -> "Progress":
    """An empty bar that vanishes in the end. A task has a label, a total, and `numbers` to show, which may be empty.

    Args:
        auto_refresh: draw the bar now and then in a thread of its own; otherwise only when a caller asks for it.
    """
    # Here, because rich takes a while to load, and most commands have no bar.
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[numbers]}", markup=False),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console(stderr=True),
        auto_refresh=auto_refresh,
        transient=True,
    )


LINE_SECONDS = 60.0
"""The time between two lines in a log: a sweep of eight hours writes some 500 lines."""


@contextmanager
def share_progress(label: str) -> Iterator[Callable[..., None]]:
    """Yield a function to call with the share of the work that is done.

    At a terminal it shows a bar with the time left. Elsewhere it writes a line a minute, because a log is then all that
    people see. Two more arguments change the line: `words` stand in it instead of the share, and unless `certain` is
    true the line does not say how much time is left.
    """
    if sys.stderr.isatty():
        with progress_bar(label, 1000) as bar:
            yield lambda share, words="", certain=True: bar(round(1000 * share))
        return
    started = last = time.monotonic()

    def line(share: float, words: str = "", certain: bool = True) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LINE_SECONDS and share > 0:
            last = now
            left = (now - started) * (1 - share) / share
            state = f"about {_duration(left)} left" if certain else f"{share:.0%} of the work done"
            print(f"{label}: {words or f'{share:.0%} of the work done'}, {state}", file=sys.stderr, flush=True)

    yield line


@contextmanager
def sweep_progress(label: str) -> Iterator[Callable[[float, int, int], None]]:
    """Yield a function to call with the share of a sweep's work that is done, and with how many of how many cells are.

    Before the first cell ends, the time left would be a guess, so it is not told.
    """
    with share_progress(label) as progress:
        yield lambda share, done, total: progress(share, f"{done} of {total} cells", certain=done > 0)


def _duration(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"
