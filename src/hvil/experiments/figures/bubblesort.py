"""The bubble-sort figure: how much data HVIL and the LSTM need.

Beside the paper's two models it has HVIL with input sparsity, the best LSTM that we have, and the ceiling: HVIL that is
trained on the teacher's own call structure.
"""

from hvil.experiments.best_found import best_found
from hvil.experiments.experiment import Claim, Experiment, Preset
from hvil.experiments.figures.common import TRAINING

HVIL, SPARSE, CEILING = "HVIL", "HVIL, input sparsity", "ceiling: annotated traces"
LSTM, BEST_LSTM = "LSTM", "LSTM, best settings found"
SPARSITY = {"input_sparsity": 0.03, "entropy_weight": 0.3, "entropy_final": -0.01}
"""The settings of version 0.1 that differ from the paper's."""
PAPER_ERROR = 0.24
"""HVIL's error with 30 demonstrations in the paper."""

EXPERIMENT = Experiment(
    name="bubblesort",
    title="Bubble sort: error against the number of demonstrations",
    panels={"bubble sort": "bubblesort"},
    models={
        HVIL: {"model": "hvil"},
        LSTM: {"model": "lstm", "layers": 4, "units": 64, "last_action": False},
        SPARSE: {"model": "hvil", **SPARSITY},
        BEST_LSTM: {"model": "lstm", "layers": 4, "units": 64, **best_found("bubblesort", "lstm")},
        CEILING: {"model": "hvil", "annotations": "use", "updates": 5_000},
    },
    sizes=(10, 20, 30, 40, 50, 60, 70, 80, 90, 100),
    runs=3,
    test_traces=500,
    settings={
        **TRAINING,
        "hidden": 100,
        "batch_size": 10,
        "updates": 100_000,
        "entropy_decay_interval": 5_000,
    },
    presets={
        "paper": Preset(),
        "quick": Preset(sizes=(10, 30, 70, 100), settings={"updates": 20_000, "entropy_decay_interval": 1_000}),
    },
    measures=("error", "error_best"),
    claims=(
        Claim("24% error with 30 demonstrations", "at-most", HVIL, sizes=(30,), level=PAPER_ERROR),
        Claim("the LSTM needs more than 70 demonstrations for it", "above", LSTM, sizes=(70,), level=PAPER_ERROR),
        Claim("24% error with less than half the LSTM's data", "half-data", HVIL, LSTM, level=PAPER_ERROR),
        Claim("24% error with less than half the LSTM's data", "half-data", HVIL, BEST_LSTM, level=PAPER_ERROR),
        Claim("the error is lower than the LSTM's", "lower", HVIL, LSTM),
        Claim("the error is lower than the LSTM's", "lower", HVIL, BEST_LSTM),
        Claim(
            "(ours) with input sparsity, 24% with less than half the LSTM's data",
            "half-data",
            SPARSE,
            LSTM,
            level=PAPER_ERROR,
        ),
        Claim("(ours) with input sparsity, lower than the best LSTM's", "lower", SPARSE, BEST_LSTM),
        Claim("(ours) input sparsity lowers HVIL's error", "lower", SPARSE, HVIL),
        Claim("(ours) known structure lowers HVIL's error", "lower", CEILING, HVIL),
        *(
            Claim(f"(ours, seen afterwards) lower than the LSTM's with {amount}", "lower", HVIL, other, sizes=sizes)
            for amount, sizes in (("little data", (10, 30)), ("more data", (70, 100)))
            for other in (LSTM, BEST_LSTM)
        ),
    ),
    notes=(
        "The weights are those after the last update, for all models. The paper's LSTM sees observations only; the "
        "best settings found for it (docs/baselines.md): it sees the action before, learning rate 3e-3, 8,000 updates. "
        "HVIL with input sparsity (0.03) also has our entropy schedule, from 0.3 to -0.01; the ceiling is trained "
        "for 5,000 updates, which is enough. The list's length is an input of all models. The paper does not say how "
        "many test traces it used; here they are fresh ones for each run."
    ),
)
