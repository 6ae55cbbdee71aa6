"""What the parts of HVIL do on bubble sort: final errors with one of them left out or exchanged."""

from hvil.experiments.experiment import Experiment, Preset
from hvil.experiments.figures import ablation_models as ablation
from hvil.experiments.figures.common import TEST_RUNS

EXPERIMENT = Experiment(
    name="ablations-bubblesort",
    title="Bubble sort with 30 demonstrations: parts of HVIL left out",
    panels={"bubble sort": "bubblesort"},
    models=ablation.MODELS,
    sizes=(30,),
    runs=5,
    first_run=TEST_RUNS,
    test_traces=500,
    settings={
        **ablation.SETTINGS,
        "hidden": 100,
        "counter": "20/10",
        "input_sparsity": 0.03,
        "updates": 5_000,
        "entropy_decay_interval": 250,
    },
    presets={"ours": Preset(), "quick": Preset(runs=2)},
    measures=("error", "rollout_success", "training_error"),
    claims=ablation.CLAIMS,
    notes=ablation.NOTES,
)
