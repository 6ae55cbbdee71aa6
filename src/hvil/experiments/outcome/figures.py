"""Draws an experiment in the paper's arrangement: one panel a task, error against size, all models in each."""

import math
from pathlib import Path
from typing import Any

from hvil.experiments.experiment import MEASURES
from hvil.experiments.outcome.plots import draw_curve, drawing, save_figure, set_axes
from hvil.experiments.outcome.results import Results

AXES = {"demos": "demonstrations", "percentile": "percentile of the training lengths"}


def draw(results: Results, directory: Path) -> list[Path]:
    """One picture a measure, as PNG and SVG; `NAME` for the first, `NAME-MEASURE` for the others."""
    paths = []
    for number, measure in enumerate(results.experiment.measures):
        name = results.experiment.name + (f"-{measure.removeprefix('error_')}" if number else "")
        paths += _draw(results, measure, directory, name)
    return paths


def _draw(results: Results, measure: str, directory: Path, name: str) -> list[Path]:
    experiment = results.experiment
    panels = list(experiment.panels)
    columns = {1: 1, 2: 2, 4: 2}.get(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    with drawing() as plt:
        size = (6.5, 5.0) if len(panels) == 1 else (4.0 * columns, 3.1 * rows + 0.9)
        figure, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained", sharex=True)
        flat = list(grid.flat)
        for axes, panel in zip(flat, panels, strict=False):
            _panel(axes, results, panel, measure)
        for axes in flat[len(panels) :]:
            axes.set_visible(False)
        figure.suptitle(experiment.title)
        for axes in flat[len(panels) - columns : len(panels)]:  # the lowest panel of each column
            axes.set_xlabel(AXES[experiment.axis])  # a label of the whole figure would collide with the legend
            axes.tick_params(labelbottom=True)
        figure.supylabel(f"{MEASURES[measure].partition(',')[0]} (%)", fontsize=10)
        handles, labels = flat[0].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=2 if len(panels) == 1 else min(len(labels), 4),
            frameon=False,
            title=_caption(measure, results),
        )
        paths = save_figure(figure, directory, name)
        plt.close(figure)
    return paths


def _caption(measure: str, results: Results) -> str:
    runs = max((len(results.values(*place[:3])) for place in results.records), default=0)
    up_to = "up to " if len(results.records) < results.expected else ""
    stopped = ", each run at its best evaluation" if measure == "error_best" else ""
    return f"mean of {up_to}{runs} run{'s' if runs != 1 else ''}, 95% intervals{stopped}"


def _panel(axes: Any, results: Results, panel: str, measure: str) -> None:
    experiment = results.experiment
    logarithmic = experiment.axis == "demos" and max(experiment.sizes) >= 8 * min(experiment.sizes)
    # Slightly apart, so that bars at the same place do not hide each other.
    width = (max(experiment.sizes) - min(experiment.sizes) or 1) / 100
    for number, model in enumerate(experiment.models):
        found = [(size, results.estimate(panel, model, size, measure)) for size in experiment.sizes]
        points = [(size, estimate) for size, estimate in found if estimate is not None]
        shift = number - (len(experiment.models) - 1) / 2
        places = [size * 1.02**shift if logarithmic else size + shift * width for size, _ in points]
        draw_curve(axes, number, model, places, [estimate for _, estimate in points])
    axes.set_title(panel, fontsize=10)
    if logarithmic:
        axes.set_xscale("log")
    set_axes(axes, experiment.sizes)
