"""A progress bar on standard error, for people at a terminal; silent elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with how much of `total` is done."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)


LINE_SECONDS = 60.0


@contextmanager
def sweep_progress(label: str) -> Iterator[Callable[[float, int, int], None]]:
    """Yield a function to call with the share of a sweep's work that is done, and how many of how many cells are.

    At a terminal it is a bar with the time left; elsewhere a line a minute, since a sweep runs for hours and a log
    is all that is seen of it.
    """
    if sys.stderr.isatty():
        with progress_bar(label, 1000) as bar:
            yield lambda share, done, total: bar(round(1000 * share))
        return
    started = last = time.monotonic()

    def line(share: float, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LINE_SECONDS and share > 0:
            last = now
            left = (now - started) * (1 - share) / share
            # Before the first cell ends the time left would be a guess: say how far the work is instead.
            told = f"about {_duration(left)} left" if done else f"{share:.0%} of the work done"
            print(f"{label}: {done} of {total} cells, {told}", file=sys.stderr, flush=True)

    yield line


def _duration(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"
