"""A comparison: an experiment with one panel, made from the learners that a user names. `hvil compare` does this.

`variants` reads the names of the learners; `outcome.points` compares their records.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hvil.experiments.engine.cells import check_record
from hvil.experiments.engine.sweep import OnProgress, ignore_progress, sweep
from hvil.experiments.experiment import Experiment
from hvil.experiments.outcome.plots import draw_measure
from hvil.experiments.outcome.points import Point, compared_points, to_mapping
from hvil.experiments.outcome.results import collect
from hvil.experiments.variants import Variant
from hvil.gate.engine.local import Engine, Failure, run_jobs
from hvil.gate.files import write_json


class Comparison(NamedTuple):
    """A comparison that has been run, and the files that show it."""

    experiment: Experiment
    directory: Path
    points: list[Point]
    pictures: list[Path]
    failures: list[Failure]

    def to_mapping(self) -> dict[str, Any]:
        """The form of `comparison.json`."""
        (task,) = self.experiment.panels.values()
        return {
            "task": task,
            "out": str(self.directory),
            "points": [to_mapping(point) for point in self.points],
            "learners": {name: dict(settings) for name, settings in self.experiment.models.items()},
            "pictures": [str(path) for path in self.pictures],
            "failures": [failure._asdict() for failure in self.failures],
        }


def comparison_table(
    task: str, demos: Sequence[int], learners: Sequence[Variant], runs: int, test_traces: int
) -> Experiment:
    """The table of a comparison. Its only panel has the task's name."""
    return Experiment(
        name="comparison",
        title=f"{task}, {test_traces} test traces a run",
        panels={task: task},
        models={learner.name: learner.settings for learner in learners},
        sizes=tuple(demos),
        runs=runs,
        test_traces=test_traces,
        measures=("error", "error_unseen", "rollout_success", "training_error"),
    )


def compare(
    experiment: Experiment,
    directory: Path,
    workers: int | None = None,
    on_progress: OnProgress = ignore_progress,
    engine: Engine = run_jobs,
) -> Comparison:
    """Run the cells that have no record, compare the learners, and write `comparison.json` and the pictures `curve`.

    Raises:
        OSError: no cell succeeded, so there is nothing to compare.
    """
    cells = experiment.cells()
    swept = sweep(list(cells.values()), directory, workers, on_progress, engine=engine)
    records = {key: check_record(record, f"the record {key}") for key, record in swept.records.items()}
    results = collect(experiment, cells, records)
    if not results.records:
        raise OSError("no training succeeded; the first failure is {}: {}".format(*swept.failures[0]))
    comparison = Comparison(
        experiment=experiment,
        directory=directory,
        points=compared_points(results),
        pictures=draw_measure(results, "error", directory, "curve"),
        failures=swept.failures,
    )
    write_json(directory / "comparison.json", comparison.to_mapping())
    return comparison
