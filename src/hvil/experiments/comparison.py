"""Records of a comparison put together: means with intervals, paired differences, a table, a picture.

Takes what `sweep` left; runs nothing itself.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from hvil.analysis.statistics import Estimate, Paired, interquartile_mean, paired, share_estimate, shown
from hvil.data.tasks import find_task
from hvil.experiments.engine.cells import Cell, self_contained
from hvil.experiments.outcome.plots import draw_curve, drawing, save_figure, set_axes
from hvil.experiments.variants import Variant

MEASURES = {
    "error": "error",
    "error_unseen": "error, unseen traces",
    "rollout_success": "roll-out success",
    "training_error": "training error",
}


class Point(NamedTuple):
    """One learner with one number of demonstrations."""

    learner: str
    demos: int
    measures: Mapping[str, Estimate]
    interquartile_mean: float
    """Of the error."""
    seconds: float
    """Mean time of training."""
    versus_first: Paired | None
    """Error of this learner minus that of the first one, on the same training sets; None for the first itself."""


def comparison_cells(
    name: str, demos: Sequence[int], learners: Sequence[Variant], runs: int, test_traces: int
) -> dict[tuple[str, int, int], Cell]:
    """The cells by learner, demonstrations and run; in an order in which all learners advance together."""
    contents = find_task(name).contents
    settings = {learner.name: self_contained(learner.settings) for learner in learners}
    return {
        (learner.name, count, run): Cell(name, count, run, settings[learner.name], test_traces, contents=contents)
        for run in range(runs)
        for count in demos
        for learner in learners
    }


def summarise(cells: Mapping[tuple[str, int, int], Cell], records: Mapping[str, Mapping[str, Any]]) -> list[Point]:
    """One point for each learner and number of demonstrations that has a record."""
    learners = list(dict.fromkeys(name for name, _, _ in cells))
    points = []
    for learner in learners:
        for demos in dict.fromkeys(count for _, count, _ in cells):
            runs = {
                run: records[cell.key]
                for (n, d, run), cell in cells.items()
                if (n, d) == (learner, demos) and cell.key in records
            }
            if not runs:
                continue
            first = {
                run: records[cell.key]["error"]
                for (n, d, run), cell in cells.items()
                if (n, d) == (learners[0], demos) and cell.key in records and run in runs
            }
            pairs = [(runs[run]["error"], error) for run, error in first.items()]
            points.append(
                Point(
                    learner,
                    demos,
                    _measures(list(runs.values())),
                    interquartile_mean(np.array([record["error"] for record in runs.values()])),
                    float(np.mean([record["seconds"] for record in runs.values()])),
                    paired(*np.array(pairs).T) if pairs and learner != learners[0] else None,
                )
            )
    return points


def _measures(records: Sequence[Mapping[str, Any]]) -> dict[str, Estimate]:
    values = {name: [r[name] for r in records if r.get(name) is not None] for name in MEASURES}
    return {name: share_estimate(np.array(found)) for name, found in values.items() if found}


def to_mapping(point: Point) -> dict[str, Any]:
    """The form of `--json`."""
    return {
        "learner": point.learner,
        "demos": point.demos,
        **{name: _estimate(estimate) for name, estimate in point.measures.items()},
        "error_interquartile_mean": point.interquartile_mean,
        "seconds": round(point.seconds, 3),
        "versus_first": point.versus_first
        and {
            "difference": _estimate(point.versus_first.difference),
            "p_value": point.versus_first.p_value,
            "first_lower": point.versus_first.first_lower,
        },
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "mean": estimate.mean,
        "interval": None if estimate.interval is None else list(estimate.interval),
        "runs": estimate.runs,
    }


def table(points: Sequence[Point], title: str) -> Table:
    """Every learner's error with its interval, and what else was measured."""
    result = Table(title=title, caption="error: test traces with a wrong action; [95% interval over runs, Student's]")
    result.add_column("demos", justify="right")
    result.add_column("learner", overflow="fold")
    for name in ("error", "middle half", "unseen", "success", "training", "runs", "s"):
        result.add_column(name, justify="right", no_wrap=True)
    for demos in dict.fromkeys(point.demos for point in points):
        for point in (p for p in points if p.demos == demos):
            measures = point.measures
            result.add_row(
                str(demos),
                point.learner,
                shown(measures["error"]),
                f"{point.interquartile_mean:.1%}",
                *(f"{measures[name].mean:.1%}" if name in measures else "–" for name in list(MEASURES)[1:]),
                str(measures["error"].runs),
                f"{point.seconds:.0f}",
            )
        result.add_section()
    return result


def differences(points: Sequence[Point]) -> Table | None:
    """How each learner's error differs from the first one's, on the same training sets; None if there is but one."""
    result = Table(title="differences on the same training sets", caption="p: sign flips of the pairs")
    result.add_column("demos", justify="right")
    result.add_column("error of", overflow="fold")
    for name in ("difference", "p", "lower in"):
        result.add_column(name, justify="right", no_wrap=True)
    for point in sorted(points, key=lambda p: p.demos):
        if point.versus_first is not None:
            pair, names = point.versus_first, f"{point.learner} − {points[0].learner}"
            difference = shown(pair.difference, sign="+")
            result.add_row(str(point.demos), names, difference, f"{pair.p_value:.2f}", f"{pair.first_lower:.0%}")
    return result if result.rows else None


def draw(points: Sequence[Point], title: str, directory: Path) -> list[Path]:
    """The learning curves as `curve.png` and `curve.svg`: mean error over demonstrations, bars for the intervals."""
    with drawing() as plt:
        figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
        for number, learner in enumerate(dict.fromkeys(point.learner for point in points)):
            mine = [point for point in points if point.learner == learner]
            # Slightly apart, so that bars at the same number of demonstrations do not hide each other.
            places = [point.demos * 1.015**number for point in mine]
            draw_curve(axes, number, learner, places, [point.measures["error"] for point in mine])
        axes.set(xscale="log", xlabel="demonstrations", ylabel="test traces with an error (%)", title=title)
        set_axes(axes, sorted({point.demos for point in points}))
        runs = max(point.measures["error"].runs for point in points)
        axes.legend(title=f"mean of {runs} runs, 95%", frameon=False)
        paths = save_figure(figure, directory, "curve")
        plt.close(figure)
    return paths
