"""How pictures of experiments look, and how they are saved: the same numbers give the same bytes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hvil.analysis.statistics import Estimate

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which can be told apart by all kinds of colour vision."""
MARKERS = "osD^vPX"

STYLE: Any = {"svg.hashsalt": "hvil", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}

_DATES = {".png": "Software", ".svg": "Date"}
"""Metadata that would tell one drawing of the same numbers from another."""


@contextmanager
def drawing() -> Iterator[Any]:
    """Yield matplotlib's `pyplot`, without a display and in our style, whatever the user's own is."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield plt


def draw_curve(axes: Any, number: int, label: str, places: Sequence[float], estimates: Sequence[Estimate]) -> None:
    """The means in per cent with bars for their intervals, in the colour and with the marker of that number."""
    means = np.array([100 * estimate.mean for estimate in estimates])
    bounds = [estimate.interval or (estimate.mean, estimate.mean) for estimate in estimates]
    low, high = 100 * np.array(bounds).reshape(-1, 2).T
    axes.errorbar(
        places,
        means,
        yerr=np.maximum(0.0, np.stack([means - low, high - means])),
        color=COLOURS[number % len(COLOURS)],
        marker=MARKERS[number % len(MARKERS)],
        markersize=5,
        linewidth=1.5,
        elinewidth=1,
        capsize=2.5,
        label=label,
    )


def set_axes(axes: Any, sizes: Sequence[int]) -> None:
    """Label the sizes, and no others; begin at zero, with room for the whole of a marker that stands there."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.xaxis.set_major_locator(FixedLocator(list(sizes)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_ylim(bottom=-0.03 * axes.get_ylim()[1])
    axes.grid(alpha=0.3)


def save_figure(figure: Any, directory: Path, name: str) -> list[Path]:
    """Write `NAME.png` and `NAME.svg`."""
    from hvil.gate.files import write_atomically

    paths = [directory / f"{name}.png", directory / f"{name}.svg"]
    for path in paths:
        save = partial(figure.savefig, format=path.suffix[1:], dpi=150, metadata={_DATES[path.suffix]: None})
        write_atomically(path, save)
    return paths
