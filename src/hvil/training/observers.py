"""Observers of a training run: the metrics file, TensorBoard, an announcement, the progress bar.

`loop.Observer` is their interface.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from hvil.gate.errors import InputError
from hvil.gate.files import write_text
from hvil.gate.progress import bar_of_tasks


class MetricsFile:
    """Writes one JSON object a line. A resumed run first drops the lines of updates after its checkpoint."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream: IO[str] | None = None

    def begin(self, update: int, updates: int) -> None:
        """Drop the lines of later updates, and open the file."""
        earlier = (line for line in read_metrics(self.path) if line["update"] <= update)
        write_text(self.path, "".join(f"{json.dumps(line)}\n" for line in earlier))
        self._stream = self.path.open("a", encoding="utf-8")

    def tick(self, update: int, loss: float, metrics: Mapping[str, float]) -> None:
        """Nothing: single updates are not recorded."""

    def record(self, values: Mapping[str, float]) -> None:
        """Write a line and flush it, so that a killed run has every line up to its last checkpoint."""
        assert self._stream is not None
        line = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._stream.write(json.dumps(line) + "\n")
        self._stream.flush()

    def end(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics file, without a last line that a killed process left unfinished."""
    if not path.is_file():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            break
        if not isinstance(line, dict) or not isinstance(line.get("update"), int):
            break
        lines.append(line)
    return lines


class TensorBoard:
    """Writes the same numbers for TensorBoard; it needs the extra `tensorboard`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InputError("--tensorboard needs TensorBoard: pip install 'hvil[tensorboard]'") from error
        self._make = SummaryWriter
        self._writer: SummaryWriter | None = None

    def begin(self, update: int, updates: int) -> None:
        """Open the log; events after the checkpoint are hidden."""
        self._writer = self._make(str(self.directory), purge_step=update + 1)

    def tick(self, update: int, loss: float, metrics: Mapping[str, float]) -> None:
        """Nothing: single updates are not recorded."""

    def record(self, values: Mapping[str, float]) -> None:
        """One curve a name."""
        assert self._writer is not None
        for name, value in values.items():
            if name != "update":
                self._writer.add_scalar(name, value, int(values["update"]))

    def end(self) -> None:
        """Close the log."""
        if self._writer is not None:
            self._writer.close()


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


def on_terminal() -> bool:
    """Whether a person watches standard error."""
    return sys.stderr.isatty()
