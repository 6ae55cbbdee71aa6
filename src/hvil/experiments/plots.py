"""How pictures of experiments look, and how they are saved: the same numbers give the same bytes."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

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


def from_zero(axes: Any) -> None:
    """Let the vertical axis begin at zero, with room for the whole of a marker that stands there."""
    axes.set_ylim(bottom=-0.03 * axes.get_ylim()[1])


def save_figure(figure: Any, directory: Path, name: str) -> list[Path]:
    """Write `NAME.png` and `NAME.svg`."""
    from hvil.files import write_atomically

    paths = [directory / f"{name}.png", directory / f"{name}.svg"]
    for path in paths:
        save = partial(figure.savefig, format=path.suffix[1:], dpi=150, metadata={_DATES[path.suffix]: None})
        write_atomically(path, save)
    return paths
