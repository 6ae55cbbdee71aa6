"""All measurements in one run, their targets, the table and the picture.

The unit `×` marks ratios; each module says which time is divided by which.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.table import Table

from hvil.experiments.bench import exact, system, updates
from hvil.experiments.bench.noise import gradient_noise
from hvil.experiments.bench.profile import profile
from hvil.gate.files import atomic_path


class Target(NamedTuple):
    """A line of the table: where the number stands in the result, what it says, and what it should be."""

    path: tuple[str, ...]
    label: str
    unit: str
    at_most: float | None = None
    at_least: float | None = None


TARGETS = (
    Target(("bubblesort", "update_ms"), "bubble sort: one HVIL update", "ms"),
    Target(("bubblesort", "floor_ratio"), "  over a bare padded biLSTM", "×", at_most=1.6),
    Target(("bubblesort", "naive_ratio"), "  naive twin over it", "×", at_least=60),
    Target(("bubblesort", "lstm_update_ms"), "  LSTM baseline", "ms"),
    Target(("karel", "update_ms"), "Karel, 31 procedures: one HVIL update", "ms"),
    Target(("karel", "ratio_31_to_6"), "  over that of 6 procedures", "×", at_most=2.5),
    Target(("karel", "naive_ratio"), "  naive twin over it", "×"),
    Target(("karel", "lstm_update_ms"), "  LSTM baseline", "ms"),
    Target(("mnist_parity", "update_ms"), "MNIST parity: one HVIL update", "ms"),
    Target(("mnist_parity", "naive_ratio"), "  naive twin over it", "×"),
    Target(("mnist_parity", "lstm_update_ms"), "  LSTM baseline", "ms"),
    Target(("growth", "length"), "growth with trace length", "exponent", at_most=1.1),
    Target(("growth", "procedures"), "growth with procedures", "exponent", at_most=0.6),
    Target(("noise", "variance_ratio", "0"), "variance of the gradient, none over leave-one-out", "×", at_least=50),
    Target(("noise", "variance_ratio", "250"), "  after 250 updates", "×", at_least=50),
    Target(("noise", "variance_ratio", "1000"), "  after 1,000 updates", "×", at_least=50),
    Target(("exact", "trace_40_seconds"), "exact inference, 40 actions, 6 procedures", "s", at_most=1),
    Target(("exact", "update_ratio", "F"), "  exact update over HVIL's, Karel F", "×"),
    Target(("exact", "growth_length", "binary:6"), "  growth with trace length", "exponent"),
    Target(("exact", "growth_procedures"), "  growth with procedures", "exponent"),
    Target(("generation_bubblesort_1000_seconds",), "generate 1,000 bubble-sort traces", "s"),
    Target(("generation_karel_1000_seconds",), "generate 1,000 Karel traces", "s"),
    Target(("evaluation_bubblesort_1000_seconds",), "evaluate 1,000 bubble-sort traces", "s", at_most=1),
    Target(("rollouts_karel_1000_seconds",), "roll out 1,000 Karel grids", "s", at_most=2),
    Target(("two_process_ratio",), "two processes over one", "×", at_least=1.8),
    Target(("help_seconds",), "hvil --help", "s", at_most=0.5),
    Target(("start_seconds",), "hvil fit, one update, warm cache", "s", at_most=5),
    Target(("peak_memory_mb",), "peak memory", "MB"),
)


def measure(repeats: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure everything, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        result: dict[str, Any] = {}
        for domain in updates.DOMAINS:
            say(f"updates of {domain} (compiles on the first run)")
            result[domain] = updates.domain_updates(domain, repeats)
        result["profile_ms"] = profile(repeats)
        say("growth with trace length and with procedures")
        length, by_length = updates.growth_with_length(repeats)
        procedures, by_procedures = updates.growth_with_procedures(repeats)
        result["karel"]["ratio_31_to_6"] = by_procedures[31] / by_procedures[6]
        result["growth"] = {
            "length": length,
            "procedures": procedures,
            "length_ms": by_length,
            "procedures_ms": by_procedures,
        }
        say("noise of the gradient")
        result["noise"] = gradient_noise()
        say("exact inference")
        result["exact"] = exact.measure_exact(repeats)
        say("generation, evaluation, roll-outs")
        result |= system.throughput()
        say("start-up")
        result |= system.start_up()
        say("two processes on two cores")
        result["two_process_ratio"] = system.two_processes()
        result["peak_memory_mb"] = system.peak_memory_mb()
    finally:
        torch.set_num_threads(threads)
    return result


def table(result: dict[str, Any]) -> Table:
    """The measurements beside their targets."""
    printed = Table(title="hvil bench")
    for column in ("what", "measured", "target"):
        printed.add_column(column, justify="left" if column == "what" else "right")
    for target in TARGETS:
        value: Any = result
        for key in target.path:
            value = value[key]
        bound = "" if target.at_most is None else f"≤ {target.at_most:g}"
        bound = bound if target.at_least is None else f"≥ {target.at_least:g}"
        met = (target.at_most is None or value <= target.at_most) and (
            target.at_least is None or value >= target.at_least
        )
        mark = "" if not bound else " ✓" if met else " ✗"
        printed.add_row(target.label, f"{value:.3g} {target.unit}", bound + mark)
    return printed


def picture(result: dict[str, Any], path: Path) -> None:
    """Draw the updates side by side, and the growth on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (bars, lengths, counts) = pyplot.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    colours = {"update_ms": "#0072B2", "floor_ms": "#999999", "lstm_update_ms": "#D55E00", "naive_ms": "#009E73"}
    names = {
        "update_ms": "HVIL",
        "floor_ms": "bare biLSTM",
        "lstm_update_ms": "LSTM baseline",
        "naive_ms": "naive twin",
    }
    for position, (key, colour) in enumerate(colours.items()):
        values = [result[domain][key] for domain in updates.DOMAINS]
        centres = [index + 0.2 * (position - 1.5) for index in range(len(values))]
        bars.bar(centres, values, width=0.2, color=colour, label=names[key])
    bars.set_xticks(range(len(updates.DOMAINS)), [name.replace("_", " ") for name in updates.DOMAINS])
    bars.set(yscale="log", ylabel="ms per update", title="One update, one thread")
    bars.legend(frameon=False, fontsize=8)
    for axes, key, label in ((lengths, "length", "trace length"), (counts, "procedures", "procedures")):
        points = result["growth"][f"{key}_ms"]
        axes.plot(list(points), list(points.values()), "o-", color="#0072B2")
        slope = result["growth"][key]
        axes.set(xscale="log", yscale="log", xlabel=label, ylabel="ms per update", title=f"exponent {slope:.2f}")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lstrip(".") or "png", dpi=130)
    pyplot.close(figure)
