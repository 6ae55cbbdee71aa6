"""`evaluation.json` of a run, read without trust: who shows its numbers gets numbers."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hvil.gate.border import has_file
from hvil.gate.errors import InputError
from hvil.gate.files import read_json
from hvil.gate.settings import from_mapping, setting
from hvil.training.run_files import EVALUATION


@dataclass(frozen=True)
class _Measured:
    """What the report, the card and the table of runs rely on; the file holds more."""

    error: float | None = setting(None, "share of the test traces", low=0, high=1)
    error_interval: tuple[float, ...] | None = setting(None, "its interval", low=0, high=1)
    error_unseen: float | None = setting(None, "the same of unseen traces", low=0, high=1)
    error_unseen_interval: tuple[float, ...] | None = setting(None, "its interval", low=0, high=1)
    rollout_success: float | None = setting(None, "share of the roll-outs", low=0, high=1)
    rollout_success_interval: tuple[float, ...] | None = setting(None, "its interval", low=0, high=1)
    traces: int | None = setting(None, "test traces", low=0)
    updates: int | None = setting(None, "updates of the run", low=0)

    def __post_init__(self) -> None:
        """Refuse intervals that are none."""
        for interval in (self.error_interval, self.error_unseen_interval, self.rollout_success_interval):
            if interval is not None and len(interval) != 2:
                raise InputError(f"an interval of {len(interval)} numbers; expected 2")


def read_evaluation(run: Path | None) -> dict[str, Any]:
    """The evaluation that a run directory holds; nothing if there is none.

    Raises:
        InputError: the file is damaged, or one of its numbers is none.
    """
    if run is None or not has_file(run / EVALUATION):
        return {}
    contents = read_json(run / EVALUATION)
    if not isinstance(contents, dict):
        raise InputError(f"{run / EVALUATION}: expected an object, not {type(contents).__name__}")
    known = {entry.name for entry in fields(_Measured)}
    measured = {name: value for name, value in contents.items() if name in known}
    from_mapping(_Measured, measured, str(run / EVALUATION), noun="entry")
    return contents
