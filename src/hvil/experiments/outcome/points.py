"""The points of a comparison: each learner with each amount of data, beside the first learner; as JSON and as tables.

A comparison is an experiment with one panel. Nothing is run here: the records come from `sweep`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from hvil.analysis.statistics import Estimate, Paired, interquartile_mean, paired, shown
from hvil.experiments.outcome.results import Results

COLUMNS = {"error_unseen": "unseen", "rollout_success": "success", "training_error": "training"}
"""The measures beside the error, and the headings of their columns."""


class Point(NamedTuple):
    """One learner with one number of demonstrations."""

    learner: str
    demos: int
    measures: Mapping[str, Estimate]
    """The mean of each measure over runs; measures that no run has are left out."""
    interquartile_mean: float
    """The mean error of the middle half of the runs."""
    seconds: float
    """The mean time of training."""
    versus_first: Paired | None
    """The error of this learner minus that of the first one, on the same training sets; None for the first itself."""


def compared_points(results: Results) -> list[Point]:
    """One point for each learner and number of demonstrations that has a record."""
    experiment = results.experiment
    (panel,) = experiment.panels
    first = next(iter(experiment.models))
    points = []
    for learner in experiment.models:
        for demos in experiment.sizes:
            errors = results.values(panel, learner, demos)
            if not errors:
                continue
            estimates = {name: results.estimate(panel, learner, demos, name) for name in experiment.measures}
            points.append(
                Point(
                    learner=learner,
                    demos=demos,
                    measures={name: estimate for name, estimate in estimates.items() if estimate is not None},
                    interquartile_mean=interquartile_mean(np.array(list(errors.values()))),
                    seconds=float(np.mean(list(results.values(panel, learner, demos, "seconds").values()))),
                    versus_first=None if learner == first else _paired(errors, results.values(panel, first, demos)),
                )
            )
    return points


def _paired(errors: Mapping[int, float], others: Mapping[int, float]) -> Paired | None:
    """The differences in the runs that both have; None if there is no such run."""
    runs = [run for run in errors if run in others]
    if not runs:
        return None
    return paired(np.array([errors[run] for run in runs]), np.array([others[run] for run in runs]))


def to_mapping(point: Point) -> dict[str, Any]:
    """The form of a point in `comparison.json`."""
    pair = point.versus_first
    return {
        "learner": point.learner,
        "demos": point.demos,
        **{name: _estimate_to_mapping(estimate) for name, estimate in point.measures.items()},
        "error_interquartile_mean": point.interquartile_mean,
        "seconds": round(point.seconds, 3),
        "versus_first": pair
        and {
            "difference": _estimate_to_mapping(pair.difference),
            "p_value": pair.p_value,
            "first_lower": pair.first_lower,
        },
    }


def _estimate_to_mapping(estimate: Estimate) -> dict[str, Any]:
    return {
        "mean": estimate.mean,
        "interval": None if estimate.interval is None else list(estimate.interval),
        "runs": estimate.runs,
    }


def table_of_errors(points: Sequence[Point], title: str) -> Table:
    """The error of every learner with its interval, and the other measures."""
    table = Table(title=title, caption="error: test traces with a wrong action; [95% interval over runs, Student's]")
    table.add_column("demos", justify="right")
    table.add_column("learner", overflow="fold")
    for heading in ("error", "middle half", *COLUMNS.values(), "runs", "s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for demos in dict.fromkeys(point.demos for point in points):
        for point in (point for point in points if point.demos == demos):
            error = point.measures["error"]
            table.add_row(
                str(demos),
                point.learner,
                shown(error),
                f"{point.interquartile_mean:.1%}",
                *(f"{point.measures[name].mean:.1%}" if name in point.measures else "–" for name in COLUMNS),
                str(error.runs),
                f"{point.seconds:.0f}",
            )
        table.add_section()
    return table


def table_of_differences(points: Sequence[Point]) -> Table | None:
    """How the error of each learner differs from that of the first; None if there is only one learner."""
    table = Table(title="differences on the same training sets", caption="p: sign flips of the pairs")
    table.add_column("demos", justify="right")
    table.add_column("error of", overflow="fold")
    for heading in ("difference", "p", "lower in"):
        table.add_column(heading, justify="right", no_wrap=True)
    for point in sorted(points, key=lambda point: point.demos):
        if point.versus_first is not None:
            pair = point.versus_first
            table.add_row(
                str(point.demos),
                f"{point.learner} − {points[0].learner}",
                shown(pair.difference, sign="+"),
                f"{pair.p_value:.2f}",
                f"{pair.first_lower:.0%}",
            )
    return table if table.rows else None
