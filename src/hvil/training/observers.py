"""Observers of a training run: the metrics file, an announcement, the progress bar.

`loop.Observer` is their interface; `loggers` has those that pass numbers on to other tools.
"""

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from hvil.gate.border import has_file
from hvil.gate.errors import InputError
from hvil.gate.files import append_file, json_line, naming_failures, parse_json, read_lines, write_text
from hvil.gate.progress import bar_of_tasks


class MetricsFile:
    """Writes one JSON object a line. A resumed run first drops the lines of updates after its checkpoint."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream: IO[str] | None = None

    def begin(self, update: int, updates: int) -> None:
        """Drop the lines of later updates, and open the file."""
        earlier = (line for line in read_metrics(self.path) if line["update"] <= update)
        write_text(self.path, "".join(map(json_line, earlier)))
        self._stream = append_file(self.path)

    def tick(self, update: int, loss: float, metrics: Mapping[str, float]) -> None:
        """Nothing: single updates are not recorded."""

    def record(self, values: Mapping[str, float]) -> None:
        """Write a line and flush it, so that a killed run has every line up to its last checkpoint."""
        assert self._stream is not None
        line = {name: value if math.isfinite(value) else None for name, value in values.items()}
        with naming_failures(self.path):
            self._stream.write(json_line(line))
            self._stream.flush()

    def end(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics file, without a last line that a killed process left unfinished."""
    lines: list[dict[str, Any]] = []
    for text in read_lines(path, errors="replace") if has_file(path) else []:
        try:
            line = parse_json(text, str(path))
        except InputError:
            break
        numbers = isinstance(line, dict) and all(
            value is None or type(value) in (int, float) for value in line.values()
        )
        if not numbers or type(line.get("update")) is not int:
            break
        lines.append(line)
    return lines


class Announcement:
    """Prints some lines when the training begins. Bad input has been refused by then: no error follows them."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines

    def begin(self, update: int, updates: int) -> None:
        """Say it."""
        print("\n".join(self.lines), flush=True)

    def tick(self, update: int, loss: float, metrics: Mapping[str, float]) -> None:
        """Nothing more to say."""

    def record(self, values: Mapping[str, float]) -> None:
        """Nothing more to say."""

    def end(self) -> None:
        """Nothing more to say."""


class ShareDone:
    """Tells a callback how far the training is: the share of its updates, or of the way to a pause."""

    def __init__(self, progress: Callable[[float], None], until: int | None = None) -> None:
        self._progress, self._until = progress, until
        self._end = 1

    def begin(self, update: int, updates: int) -> None:
        """Learn where the training ends."""
        self._end = max(self._until or updates, 1)

    def tick(self, update: int, loss: float, metrics: Mapping[str, float]) -> None:
        """Tell it."""
        self._progress(update / self._end)

    def record(self, values: Mapping[str, float]) -> None:
        """Records are the metrics file's."""

    def end(self) -> None:
        """Nothing is left to tell."""


class ProgressBar:
    """Shows updates, loss, error, PHP steps per action and the time left on standard error."""

    SECONDS = 0.2
    """Seconds between two drawings. The bar draws when it is told of an update: a thread would disturb the loop."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._bar: Any = None
        self._error = "–"
        self._drawn = 0.0

    def begin(self, update: int, updates: int) -> None:
        """Show the bar."""
        self._bar = bar_of_tasks(auto_refresh=False)
        self._task = self._bar.add_task(self.label, total=updates, completed=update, numbers="")
        self._bar.start()

    def tick(self, update: int, loss: float, metrics: Mapping[str, float]) -> None:
        """Draw, if the last drawing is old enough."""
        now = time.monotonic()
        if now - self._drawn < self.SECONDS:
            return
        self._drawn = now
        steps = metrics.get("php_steps_per_action")
        numbers = f"loss {loss:.4g}  error {self._error}" + (f"  steps/action {steps:.2f}" if steps else "")
        self._bar.update(self._task, completed=update, numbers=numbers, refresh=True)

    def record(self, values: Mapping[str, float]) -> None:
        """Remember the error of the last evaluation."""
        error = values.get("error", values.get("training_error"))
        if error is not None:
            self._error = f"{error:.1%}"

    def end(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()


class ProgressLines:
    """Writes a line to standard error now and then, for those who read a log and see no bar."""

    SECONDS = 30.0
    """Seconds between two lines, and before the first: short fits stay silent."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._updates = 0
        self._error = ""
        self._last = 0.0

    def begin(self, update: int, updates: int) -> None:
        """Begin to count the time."""
        self._updates, self._last = updates, time.monotonic()

    def tick(self, update: int, loss: float, metrics: Mapping[str, float]) -> None:
        """Write a line, if the last one is old enough."""
        now = time.monotonic()
        if now - self._last >= self.SECONDS:
            self._last = now
            print(f"{self.label}: update {update} of {self._updates}, loss {loss:.4g}{self._error}", file=sys.stderr)

    def record(self, values: Mapping[str, float]) -> None:
        """Remember the error of the last evaluation."""
        error = values.get("error", values.get("training_error"))
        if error is not None:
            self._error = f", error {error:.1%}"

    def end(self) -> None:
        """Nothing is left to say."""


def shown_progress(label: str) -> ProgressBar | ProgressLines:
    """A bar if a person watches standard error, else a line now and then."""
    return ProgressBar(label) if sys.stderr.isatty() else ProgressLines(label)
