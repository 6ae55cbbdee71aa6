"""The bubble-sort figure: data efficiency of HVIL and an LSTM; beside them, input sparsity and the ceiling."""

from hvil.experiments.experiment import Claim, Experiment, Preset

EXPERIMENT = Experiment(
    name="bubblesort",
    title="Bubble sort: error against the number of demonstrations",
    panels={"bubble sort": "bubblesort"},
    models={
        "HVIL": {"model": "hvil"},
        "LSTM": {"model": "lstm", "layers": 4, "units": 64},
        "HVIL, input sparsity": {"model": "hvil", "input_sparsity": 0.03},
        "ceiling: annotated traces": {"model": "hvil", "annotations": "use"},
    },
    sizes=(10, 20, 30, 40, 50, 60, 70, 80, 90, 100),
    runs=3,
    test_traces=500,
    settings={
        "hidden": 100,
        "context": 32,
        "batch_size": 10,
        "learning_rate": 1e-3,
        "weight_decay": 1e-3,
        "entropy_weight": 1.0,
        "entropy_decay": 0.7,
        "updates": 100_000,
        "entropy_decay_interval": 5_000,
    },
    presets={
        "paper": Preset(),
        "quick": Preset(sizes=(10, 30, 70, 100), settings={"updates": 20_000, "entropy_decay_interval": 1_000}),
    },
    claims=(
        Claim("24% error with 30 demonstrations", "at-most", "HVIL", sizes=(30,), level=0.24),
        Claim("the LSTM needs more than 70 demonstrations for it", "above", "LSTM", sizes=(70,), level=0.24),
        Claim("24% error with less than half the LSTM's data", "half-data", "HVIL", "LSTM", level=0.24),
        Claim("the error is lower than the LSTM's", "lower", "HVIL", "LSTM"),
        Claim(
            "(ours) with input sparsity, 24% with less than half the LSTM's data",
            "half-data",
            "HVIL, input sparsity",
            "LSTM",
            level=0.24,
        ),
        Claim("(ours) input sparsity lowers HVIL's error", "lower", "HVIL, input sparsity", "HVIL"),
        Claim("(ours) known structure lowers HVIL's error", "lower", "ceiling: annotated traces", "HVIL"),
    ),
    notes=(
        "The weights are those after the last update, for all models. The list's length is an input of all models. "
        "The paper does not say how many test traces it used; here they are fresh ones for each run."
    ),
)
