"""Draws an experiment as the paper does: one panel a task, error over size, all models in each panel.

The same records always give the same bytes.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hvil.analysis.statistics import Estimate
from hvil.experiments.experiment import AXES, MEASURES, Experiment
from hvil.experiments.outcome.results import Results
from hvil.gate.files import write_atomically
from hvil.gate.text import in_picture

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999", "#5D3A9B")
"""The colours of Okabe and Ito, which people with any kind of colour vision can tell apart, without their yellow, which
is hard to see on white; then a grey and a violet."""
MARKERS = "osD^vPX"

STYLE: Any = {"svg.hashsalt": "hvil", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}

VARYING_METADATA = {".png": "Software", ".svg": "Date"}
"""The entry of each format that differs between two drawings of the same numbers; it is left out."""

LOGARITHMIC_RANGE = 8
"""The axis is logarithmic if the largest number of demonstrations is at least this many times the smallest. Karel's 10,
20, 40 and 80 have this range; on a linear axis the first three would crowd in its left half."""


LETTERS_AN_INCH = 12
"""Of a legend, in the size of our style."""
LEGEND_LINE = 0.21
"""Inches that a line of a legend takes."""
LEAST_TOP = 5.0
"""The axis goes up to so many per cent at least: hundredths of a per cent are nothing to look at."""
LEGEND_MARGIN = 7
"""Letters that the line and the marker before a name take, and the gap after it."""


def draw(results: Results, directory: Path) -> list[Path]:
    """Draw one picture a measure: `NAME` for the first measure, `NAME-MEASURE` for the others."""
    paths = []
    for number, measure in enumerate(results.experiment.measures):
        name = results.experiment.name + (f"-{measure.removeprefix('error_')}" if number else "")
        paths += draw_measure(results, measure, directory, name)
    return paths


def draw_measure(results: Results, measure: str, directory: Path, name: str) -> list[Path]:
    """Draw one measure as `NAME.png` and `NAME.svg`."""
    experiment = results.experiment
    panels = [panel for panel in experiment.panels if panel in {position.panel for position in results.records}]
    columns = {1: 1, 2: 2, 4: 2}.get(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    with _pyplot() as plt:
        width, height = (6.5, 4.4) if len(panels) == 1 else (4.0 * columns, 3.1 * rows + 0.5)
        drawn = [model for model in experiment.models if model in {position.model for position in results.records}]
        names = [*drawn, *(reported.says for reported in experiment.reported)]
        legend_columns = _legend_columns(names, width)
        size = width, height + LEGEND_LINE * (1 + math.ceil(len(names) / legend_columns))
        figure, grid = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained", sharex=True)
        flat = list(grid.flat)
        for axes, panel in zip(flat, panels, strict=False):
            _draw_panel(axes, results, panel, measure, drawn)
        for axes in flat[len(panels) :]:
            axes.set_visible(False)
        figure.suptitle(in_picture(experiment.title))
        for axes in flat[len(panels) - columns : len(panels)]:  # the lowest panel of each column
            axes.set_xlabel(AXES[experiment.axis].label)  # a label of the whole figure would overlap the legend
            axes.tick_params(labelbottom=True)
        figure.supylabel(f"{MEASURES[measure].partition(',')[0]} (%)", fontsize=10)
        handles, labels = flat[0].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=legend_columns,
            frameon=False,
            title=_caption(measure, results),
        )
        paths = _save(figure, directory, name)
        plt.close(figure)
    return paths


def _legend_columns(labels: Sequence[str], inches: float) -> int:
    """How many columns of a legend fit below a figure of that width."""
    width = max(map(len, labels), default=0) + LEGEND_MARGIN
    return max(1, min(len(labels), int(inches * LETTERS_AN_INCH) // width))


def _caption(measure: str, results: Results) -> str:
    counts = {len(results.values(*position[:3])) for position in results.records}
    runs = max(counts, default=0)
    up_to = "up to " if len(counts) > 1 or len(results.records) < results.expected else ""
    stopped = ", each run at its best evaluation" if measure == "error_best" else ""
    return f"mean of {up_to}{runs} run{'s' if runs != 1 else ''}, 95% intervals{stopped}"


def _draw_panel(axes: Any, results: Results, panel: str, measure: str, models: Sequence[str]) -> None:
    """Draw the models that have records; the others have no line in the legend."""
    experiment = results.experiment
    logarithmic = _is_logarithmic(experiment)
    # Models are drawn slightly apart, so that bars at the same size do not hide each other.
    width = (max(experiment.sizes) - min(experiment.sizes) or 1) / 100
    numbers = {model: number for number, model in enumerate(experiment.models)}  # of its colour and marker
    for place, model in enumerate(models):
        estimates = {size: results.estimate(panel, model, size, measure) for size in experiment.sizes}
        points = {size: estimate for size, estimate in estimates.items() if estimate is not None}
        shift = place - (len(models) - 1) / 2
        positions = [size * 1.02**shift if logarithmic else size + shift * width for size in points]
        _draw_curve(axes, numbers[model], model, positions, list(points.values()))
    if measure == "error":
        _draw_reported(axes, experiment, panel)
    axes.set_title(in_picture(panel), fontsize=10)
    if logarithmic:
        axes.set_xscale("log")
    _set_axes(axes, experiment.sizes)


def _is_logarithmic(experiment: Experiment) -> bool:
    return experiment.axis == "demos" and max(experiment.sizes) >= LOGARITHMIC_RANGE * min(experiment.sizes)


def _draw_curve(axes: Any, number: int, label: str, positions: Sequence[float], estimates: Sequence[Estimate]) -> None:
    """Draw means in per cent, with bars for their intervals, in the colour and with the marker of that number."""
    means = np.array([100 * estimate.mean for estimate in estimates])
    bounds = [estimate.interval or (estimate.mean, estimate.mean) for estimate in estimates]
    low, high = 100 * np.array(bounds).reshape(-1, 2).T
    axes.errorbar(
        positions,
        means,
        yerr=np.maximum(0.0, np.stack([means - low, high - means])),
        color=COLOURS[number % len(COLOURS)],
        marker=MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],  # no pair of both comes twice
        markersize=5,
        linewidth=1.5,
        elinewidth=1,
        capsize=2.5,
        label=in_picture(label),
    )


def _draw_reported(axes: Any, experiment: Experiment, panel: str) -> None:
    """A star for each error that somebody else reports, black and white in turn."""
    for number, reported in enumerate(experiment.reported):
        if panel == (reported.panel or next(iter(experiment.panels))):
            axes.plot(
                [reported.size],
                [100 * reported.error],
                "*",
                markersize=12,
                markeredgecolor="black",
                markerfacecolor="black" if number % 2 == 0 else "white",
                label=in_picture(reported.says),
                clip_on=False,
                zorder=3,
            )


def _set_axes(axes: Any, sizes: Sequence[int]) -> None:
    """Label the sizes and nothing else; begin a little below zero, so that a marker at zero is drawn whole."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # here: see `_pyplot`

    axes.xaxis.set_major_locator(FixedLocator(list(sizes)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    top = max(axes.get_ylim()[1], LEAST_TOP)
    axes.set_ylim(bottom=-0.03 * top, top=top)
    axes.grid(alpha=0.3)


def _save(figure: Any, directory: Path, name: str) -> list[Path]:
    """Write `NAME.png` and `NAME.svg`."""
    paths = [directory / f"{name}.png", directory / f"{name}.svg"]
    for path in paths:
        metadata = {VARYING_METADATA[path.suffix]: None}
        write_atomically(path, partial(figure.savefig, format=path.suffix[1:], dpi=150, metadata=metadata))
    return paths


@contextmanager
def _pyplot() -> Iterator[Any]:
    """Yield matplotlib's `pyplot` without a display and in our style, whatever the user's own style is."""
    import matplotlib  # here, because it takes a while to load, and a sweep on workers does not need it

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield plt
