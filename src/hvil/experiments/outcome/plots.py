"""Draws an experiment as the paper does: one panel a task, error over size, all models in each panel.

If there is one size only, each model has a row instead, with its name beside it. The same records always give the same
bytes.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from hvil.analysis.statistics import Estimate
from hvil.experiments.experiment import AXES, MEASURES, Experiment, Reported
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
ROW = 0.24
"""Inches that the row of a model takes, where there is one size only."""
LEAST_TOP = 5.0
"""The axis goes up to so many per cent at least: hundredths of a per cent are nothing to look at."""
LEGEND_MARGIN = 7
"""Letters that the line and the marker before a name take, and the gap after it."""


def draw(results: Results, directory: Path) -> list[Path]:
    """Draw one picture a measure."""
    paths = []
    for measure in results.experiment.measures:
        paths += draw_measure(results, measure, directory, picture_name(results.experiment, measure))
    return paths


def picture_name(experiment: Experiment, measure: str) -> str:
    """The name of a measure's picture: `NAME` for the first measure, `NAME-MEASURE` for the others."""
    suffix = "" if measure == experiment.measures[0] else f"-{measure.removeprefix('error_')}"
    return experiment.name + suffix


def draw_measure(results: Results, measure: str, directory: Path, name: str) -> list[Path]:
    """Draw one measure as `NAME.png` and `NAME.svg`."""
    experiment = results.experiment
    panels = [panel for panel in experiment.panels if panel in {position.panel for position in results.records}]
    models = [model for model in experiment.models if model in {position.model for position in results.records}]
    draw_panels = _draw_rows if len(experiment.sizes) == 1 else _draw_curves
    with _pyplot() as plt:
        figure = draw_panels(plt, results, measure, panels, models)
        paths = _save(figure, directory, name)
        plt.close(figure)
    return paths


def _draw_curves(plt: Any, results: Results, measure: str, panels: Sequence[str], models: Sequence[str]) -> Any:
    """A figure with curves over the sizes, and a legend below the panels."""
    experiment = results.experiment
    columns = _panel_columns(panels)
    rows = math.ceil(len(panels) / columns)
    width, height = (7.2, 4.4) if len(panels) == 1 else (4.0 * columns, 3.1 * rows + 0.5)
    names = [*models, *(reported.says for reported in experiment.reported)]
    legend_columns = _legend_columns(names, width)
    size = width, height + LEGEND_LINE * (1 + math.ceil(len(names) / legend_columns))
    figure, flat = _panel_axes(plt, experiment.title, len(panels), rows, columns, size)
    for axes, panel in zip(flat, panels, strict=True):
        _draw_panel(axes, results, panel, measure, models)
    for axes in flat[-columns:]:  # the lowest panel of each column
        axes.set_xlabel(AXES[experiment.axis].label)  # a label of the whole figure would overlap the legend
        axes.tick_params(labelbottom=True)
    figure.supylabel(_label(measure), fontsize=10)
    handles, labels = flat[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=legend_columns,
        frameon=False,
        title=_caption(measure, results),
    )
    return figure


def _draw_rows(plt: Any, results: Results, measure: str, panels: Sequence[str], models: Sequence[str]) -> Any:
    """A figure for one size: a row for each model, and one for each error that somebody else reports."""
    experiment = results.experiment
    reported = experiment.reported if measure == "error" else ()
    names = [*models, *(each.says for each in reported)]
    columns = _panel_columns(panels)
    rows = math.ceil(len(panels) / columns)
    size = max(map(len, names)) / LETTERS_AN_INCH + max(5.0, 2.6 * columns), (ROW * len(names) + 0.5) * rows + 0.9
    figure, flat = _panel_axes(plt, experiment.title, len(panels), rows, columns, size, sharey=True)
    for axes, panel in zip(flat, panels, strict=True):
        _draw_row_panel(axes, results, panel, measure, models, reported)
    for axes in flat[-columns:]:
        axes.tick_params(labelbottom=True)
    flat[0].set_yticks(range(len(names)), [in_picture(name) for name in names])
    flat[0].set_ylim(len(names) - 0.5, -0.5)  # the first on top
    right = max(flat[0].get_xlim()[1], LEAST_TOP)
    flat[0].set_xlim(-0.03 * right, right)
    at = f"{AXES[experiment.axis].label}: {experiment.sizes[0]}"
    figure.supxlabel(f"{_label(measure)}\n{at}; {_caption(measure, results)}", fontsize=10)
    return figure


def _draw_row_panel(
    axes: Any, results: Results, panel: str, measure: str, models: Sequence[str], reported: Sequence[Reported]
) -> None:
    """Draw the models that have records from the top down, then the errors that somebody else reports."""
    for row, model in enumerate(models):
        estimate = results.estimate(panel, model, results.experiment.sizes[0], measure)
        if estimate is not None:
            means, bars = _in_per_cent([estimate])
            axes.errorbar(means, [row], xerr=bars, color=COLOURS[0], marker="o", elinewidth=1, capsize=2.5)
    for row, each in enumerate(reported, start=len(models)):
        if panel == (each.panel or next(iter(results.experiment.panels))):
            axes.plot([100 * each.error], [row], "*", markersize=12, color="black")
    axes.set_title(in_picture(panel), fontsize=10)
    axes.grid(alpha=0.3)


def _panel_columns(panels: Sequence[str]) -> int:
    """How many panels stand side by side."""
    return {1: 1, 2: 2, 4: 2}.get(len(panels), 3)


def _panel_axes(
    plt: Any, title: str, count: int, rows: int, columns: int, size: tuple[float, float], sharey: bool = False
) -> tuple[Any, list[Any]]:
    """A figure with its title, and the axes of its panels; axes that are left over are hidden."""
    figure, grid = plt.subplots(
        rows, columns, figsize=size, squeeze=False, layout="constrained", sharex=True, sharey=sharey
    )
    figure.suptitle(in_picture(title))
    flat = list(grid.flat)
    for axes in flat[count:]:
        axes.set_visible(False)
    return figure, flat[:count]


def _label(measure: str) -> str:
    """What an axis says of a measure."""
    return f"{MEASURES[measure].partition(',')[0]} (%)"


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
    means, bars = _in_per_cent(estimates)
    axes.errorbar(
        positions,
        means,
        yerr=bars,
        color=COLOURS[number % len(COLOURS)],
        marker=MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],  # no pair of both comes twice
        markersize=5,
        linewidth=1.5,
        elinewidth=1,
        capsize=2.5,
        label=in_picture(label),
    )


def _in_per_cent(estimates: Sequence[Estimate]) -> tuple[Float[np.ndarray, "E"], Float[np.ndarray, "2 E"]]:
    """The means of E estimates, and how far their intervals reach below and above them."""
    means = np.array([100 * estimate.mean for estimate in estimates])
    bounds = [estimate.interval or (estimate.mean, estimate.mean) for estimate in estimates]
    low, high = 100 * np.array(bounds).reshape(-1, 2).T
    return means, np.maximum(0.0, np.stack([means - low, high - means]))


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
