"""The settings of the data room: which traces a run is trained and tested on."""

from dataclasses import dataclass
from typing import Literal

from hvil.gate.settings import setting


@dataclass(frozen=True)
class DataSettings:
    """Which traces a run is trained and tested on. A run records them, so that they can be loaded again."""

    source: str = setting(
        "", "a task, trace files, a pattern or a directory of them, or minari:ID; empty: traces given from Python"
    )
    demos: int = setting(0, "training traces (0: the task's default; of a file all but the test traces)", low=0)
    test_traces: int = setting(500, "test traces", low=0)
    validation: float = setting(0.1, "share of the training traces held out for early stopping", low=0, high=0.5)
    stream: Literal["auto", "yes", "no"] = setting(
        "auto", "train from a Parquet file of ours a few row groups at a time (auto: if it is larger than 1 GB)"
    )
    trace_column: str = setting(
        "",
        "column of a table that says which trace a row belongs to (empty: by its name, such as episode or session_id)",
    )
    step_column: str = setting(
        "", "column that orders a trace's rows: numbers or times (empty: by its name or type; rows may stand in order)"
    )
    action_column: str = setting("", "column with the action (empty: by its name, such as action, move or command)")
    observation_columns: str = setting(
        "",
        "columns with the observation, separated by commas (empty: all named observation.NAME, or else all that say "
        "nothing else, neither identify rows nor are always the same)",
    )
    annotation_column: str = setting(
        "", "column with the call structure: lists of procedure names, or labels of segments (empty: stack, if there)"
    )
    elapsed: bool = setting(False, "give the time since the last step as an input, from the column with times")
    pictures: Literal["auto", "yes", "no"] = setting(
        "auto", "read bytes in two or three dimensions as pictures (auto: if they go beyond 31; else as categories)"
    )
    download: bool = setting(False, "download the Minari data set if it is not on this machine")
    annotated_fraction: float = setting(
        1.0, "fraction of the training traces that keep the call structure they came with", low=0, high=1
    )
