"""The settings of the data room: which traces a run is trained and tested on."""

from dataclasses import dataclass
from typing import Literal

from hvil.gate.settings import setting


@dataclass(frozen=True)
class DataSettings:
    """Which traces a run is trained and tested on. A run records them, so that they can be loaded again."""

    source: str = setting("", "a task, an .npz, .parquet or .csv file, or minari:ID; empty: traces given from Python")
    demos: int = setting(0, "training traces (0: the task's default; of a file all but the test traces)", low=0)
    test_traces: int = setting(500, "test traces", low=0)
    validation: float = setting(0.1, "share of the training traces held out for early stopping", low=0, high=0.5)
    stream: Literal["auto", "yes", "no"] = setting(
        "auto", "train from a Parquet file of ours a few row groups at a time (auto: if it is larger than 1 GB)"
    )
    trace_column: str = setting("trace", "column of a table that says which trace a row belongs to")
    step_column: str = setting("step", "column with the order of a trace's rows (may be missing)")
    action_column: str = setting("action", "column with the action")
    observation_columns: str = setting(
        "", "columns with the observation, separated by commas (empty: all named observation.NAME)"
    )
    annotation_column: str = setting(
        "stack", "column with the call structure: lists of procedure names, or labels of segments"
    )
    annotated_fraction: float = setting(
        1.0, "fraction of the training traces that keep the call structure they came with", low=0, high=1
    )
