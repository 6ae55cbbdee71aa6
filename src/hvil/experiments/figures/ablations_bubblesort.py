"""What the parts of HVIL do on bubble sort: final errors with one of them left out or exchanged."""

from collections.abc import Mapping
from typing import Any

from hvil.experiments.experiment import Claim, Experiment, Preset
from hvil.experiments.figures import ablation_models as ablation
from hvil.experiments.figures.common import AUTHORS, PAPERS, TEST_RUNS

OTHER_ESTIMATORS = {estimator: f"{PAPERS}, {estimator}" for estimator in ("analytic", "score")}
PAPERS_ESTIMATORS: Mapping[str, Mapping[str, Any]] = {
    name: {"model": "hvil", "counter": "raw", "input_sparsity": 0.0, **AUTHORS, "estimator": estimator}
    for estimator, name in {"rao-blackwell": PAPERS, **OTHER_ESTIMATORS}.items()
}
"""The paper's claim about estimators is about its own settings: one walk, no baseline, a raw counter."""

EXPERIMENT = Experiment(
    name="ablations-bubblesort",
    title="Bubble sort with 30 demonstrations: parts of HVIL left out",
    panels={"bubble sort": "bubblesort"},
    models={**ablation.MODELS, **PAPERS_ESTIMATORS},
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
    claims=(
        *ablation.CLAIMS,
        *(
            Claim(f"with the paper's settings, Rao–Blackwell is better than {estimator}", "lower", PAPERS, name)
            for estimator, name in OTHER_ESTIMATORS.items()
        ),
    ),
    notes=(
        f"{ablation.NOTES} The last three models have the paper's settings: one walk of each trace, no baseline, a raw "
        "counter, 10,000 updates, and one of the three estimators. They were added when the others had been run: "
        "those do not learn without a baseline in 5,000 updates, whatever the estimator."
    ),
)
