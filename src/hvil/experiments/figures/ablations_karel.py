"""What the parts of HVIL do on Karel: final errors with one of them left out or exchanged."""

from dataclasses import replace

from hvil.experiments.experiment import Experiment, Preset
from hvil.experiments.figures import ablation_models as ablation
from hvil.experiments.figures.common import TEST_RUNS
from hvil.experiments.figures.karel_models import LETTERS, POOL

EXPERIMENT = Experiment(
    name="ablations-karel",
    title="Karel with 10 demonstrations: parts of HVIL left out",
    panels=LETTERS,
    models={name: {**settings, "call_graph": "tree:5x2"} for name, settings in ablation.MODELS.items()},
    sizes=(10,),
    runs=5,
    first_run=TEST_RUNS,
    test_traces=100,
    pool=POOL,
    settings={
        **ablation.SETTINGS,
        "hidden": 256,
        "counter": "hot4+20/10",
        "updates": 2_000,
        "entropy_decay_interval": 100,
    },
    presets={"ours": Preset(), "quick": Preset(runs=2)},
    measures=("error", "rollout_success"),
    claims=tuple(replace(claim, pooled=True) for claim in ablation.CLAIMS),
    notes=ablation.NOTES,
)
