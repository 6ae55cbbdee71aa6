"""What the two Karel figures share: the programs, the five models, and how they are trained."""

from collections.abc import Mapping
from typing import Any

from hvil.experiments.best_found import best_found
from hvil.experiments.experiment import Preset
from hvil.experiments.figures.common import TRAINING

PANELS = {f"program {letter}": f"karel:{letter}" for letter in "ABCDEF"}

LSTM, SEEING_LSTM = "LSTM", "LSTM that sees its last action"
FLAT, TWO_LEVELS, THREE_LEVELS = "HVIL, 1 procedure", "HVIL, 6 procedures", "HVIL, 31 procedures"

MODELS: Mapping[str, Mapping[str, Any]] = {
    TWO_LEVELS: {"model": "hvil", "call_graph": "tree:5x2"},
    LSTM: {"model": "lstm", "layers": 2, "units": 64, "last_action": False},
    SEEING_LSTM: {"model": "lstm", "layers": 2, "units": 64, **best_found("karel", "lstm")},
    FLAT: {"model": "hvil", "call_graph": "tree:5x1"},
    THREE_LEVELS: {"model": "hvil", "call_graph": "tree:5x3"},
}

SETTINGS: Mapping[str, Any] = {
    **TRAINING,
    "hidden": 256,
    "batch_size": 10,
    "updates": 10_000,
    "entropy_decay_interval": 500,
}

POOL = 10_000
"""The number of demonstrations of each program that the paper has."""

PRESETS = {
    "paper": Preset(),
    "quick": Preset(runs=3, settings={"updates": 2_000, "entropy_decay_interval": 100}),
}

NOTES = (
    "The weights are those after the last update, for all models. The paper says neither how long it trained nor how "
    "many runs it averaged: preset `paper` has 10,000 updates and 10 runs. The entropy schedule is that of bubble "
    "sort, compressed to the number of updates. The paper's LSTM sees observations only; beside it stands one that "
    "also sees the action before, the best setting found (docs/baselines.md)."
)
