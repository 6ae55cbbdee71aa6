"""Loggers: observers that pass a run's numbers on to another tool. `LOGGERS` has them by name.

Each needs the extra of its name. A missing one is one line that says what to install.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from hvil.gate.errors import InputError
from hvil.learners.config import Config
from hvil.training.loop import Observer

PROJECT = "hvil"
"""Under this name W&B and trackio file the runs."""


def logger(name: str, out: Path, config: Config) -> Observer:
    """The logger of that name for the run in `out`.

    Raises:
        InputError: there is no such logger, or its extra is not installed.
    """
    if name not in LOGGERS:
        raise InputError(f"log {name!r}: no such logger; expected {', '.join(LOGGERS)}")
    try:
        return LOGGERS[name](out, config)
    except ImportError as error:
        raise InputError(f"log {name}: not installed; pip install 'hvil[{name}]'") from error


class TensorBoard:
    """Writes the numbers as TensorBoard's files, into the run directory."""

    def __init__(self, out: Path, config: Config) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.directory = out / "tensorboard"
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


class Tracker:
    """Sends the numbers to W&B or trackio: both have the functions `init`, `log` and `finish`."""

    def __init__(self, library: str, out: Path, config: Config) -> None:
        self._library: Any = import_module(library)
        self._name, self._config = out.resolve().name, config.to_mapping()
        self._begun = False

    def begin(self, update: int, updates: int) -> None:
        """Open a run there, with the whole configuration."""
        self._library.init(project=PROJECT, name=self._name, config=self._config)
        self._begun = True

    def tick(self, update: int, loss: float, metrics: Mapping[str, float]) -> None:
        """Nothing: single updates are not recorded."""

    def record(self, values: Mapping[str, float]) -> None:
        """One row a record."""
        self._library.log(
            {name: value for name, value in values.items() if name != "update"}, step=int(values["update"])
        )

    def end(self) -> None:
        """Close the run."""
        if self._begun:
            self._library.finish()


LOGGERS: Mapping[str, Callable[[Path, Config], Observer]] = {
    "tensorboard": TensorBoard,
    "trackio": lambda out, config: Tracker("trackio", out, config),
    "wandb": lambda out, config: Tracker("wandb", out, config),
}
"""Loggers by name, each made from the run directory and the configuration."""
