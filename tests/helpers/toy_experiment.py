"""A small table of an experiment, for tests that need one."""

from hvil.experiments.experiment import Experiment

TABLE = Experiment(
    name="toy",
    title="A toy",
    panels={"A": "karel:A", "B": "karel:B"},
    models={"ours": {}, "theirs": {"model": "lstm"}},
    sizes=(10, 20, 40),
    runs=3,
    measures=("error", "error_unseen", "error_best"),
)
