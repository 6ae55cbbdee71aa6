"""Writes the tables in docs/claims.md anew, from the records in results/.

The page begins with a table of the paper's main claims and their verdicts. Each figure has a table of verdicts: a row
for each claim of the paper, and a column for each of the presets `paper` and `ours` that the figure has. Before it
stand tables of errors, with a row for each model.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hvil.analysis.statistics import share_estimate, shown
from hvil.experiments.experiment_files import find_experiment
from hvil.experiments.figures.karel_data import HALF, HALF_IN_MEAN, LOWER, LOWER_AT_10
from hvil.experiments.figures.karel_length import BETTER, BETTER_IN_MEAN
from hvil.experiments.figures.karel_length import OURS as WITH_LENGTHS
from hvil.experiments.figures.karel_models import HIERARCHICAL, LETTERS
from hvil.experiments.outcome.results import EXPERIMENT, Results, read_results
from hvil.experiments.outcome.verdicts import Finding, Verdict, judge_all
from hvil.experiments.reproduce import default_directory

HOME = Path(__file__).parents[1]
PAGE = HOME / "docs" / "claims.md"
OURS = "(ours)"
"""How a claim begins that is not the paper's."""
PRESETS = ("paper", "ours")
MARKS = re.compile(r"(<!-- (summary|verdicts|errors) of ([a-z-]+(?:, [^>]*?)?) -->\n).*?(<!-- end -->)", re.DOTALL)


class Column(NamedTuple):
    """The part of a figure that one column of errors is the mean of."""

    heading: str
    figure: str
    panels: Sequence[str]
    sizes: Sequence[int]
    preset: str = "ours"


def by_size(figure: str, panels: Iterable[str], sizes: Sequence[int], preset: str = "ours") -> list[Column]:
    """A column for each size."""
    return [Column(str(size), figure, tuple(panels), (size,), preset) for size in sizes]


def by_panel(figure: str, panels: Iterable[str], size: int, preset: str = "ours") -> list[Column]:
    """A column for each panel."""
    return [Column(panel, figure, (panel,), (size,), preset) for panel in panels]


LENGTHS = (10, 20, 30, 50)
NOISY, LITTLE = ("(a) p = 0.6", "(b) p = 0.7"), (100, 200, 400)
ERRORS: Mapping[str, Sequence[Column]] = {
    "bubblesort": by_size("bubblesort", ("bubble sort",), (10, 20, 30, 50, 70)),
    "bubblesort, paper": by_size("bubblesort", ("bubble sort",), (30, 70), "paper"),
    "karel-data, A to F": by_size("karel-data", LETTERS, (10, 20, 40, 80)),
    "karel-data, programs of ours": by_size("karel-data", HIERARCHICAL, (10, 20, 40, 80)),
    "karel-data, paper": by_size("karel-data", LETTERS, (10, 20), "paper"),
    "karel-length": by_panel("karel-length", ("program A", "program B", "program C"), 20),
    "karel-length, programs of ours": [
        *by_size("karel-length", WITH_LENGTHS, LENGTHS),
        Column("mean", "karel-length", tuple(WITH_LENGTHS), LENGTHS),
    ],
    "karel-length, paper": by_panel("karel-length", LETTERS, 20, "paper"),
    "acausal": [
        Column("`ours`: p = 0.6 and 0.7, 100 to 400", "acausal", NOISY, LITTLE),
        Column("p = 0.6 and 0.7, 800 to 6,400", "acausal", NOISY, (800, 1600, 3200, 6400)),
        Column("p = 0.8, 100 to 400", "acausal", ("(c) p = 0.8",), LITTLE),
        Column("`paper`: p = 0.6 and 0.7, 100 to 400", "acausal", NOISY, LITTLE, "paper"),
    ],
    "ablations": [
        Column("bubble sort", "ablations-bubblesort", ("bubble sort",), (30,)),
        Column("Karel A to F", "ablations-karel", tuple(LETTERS), (10,)),
    ],
}
"""The tables of errors, by what stands in their marks."""


class Headline(NamedTuple):
    """A row of the table at the top of the page."""

    says: str
    """The claim in words that need no figure."""
    figure: str
    claim: str
    """The same in the words of the figure, where its first models are the paper's."""


SUMMARIES: Mapping[str, Sequence[Headline]] = {
    "claims": (
        Headline("Bubble sort: 24% error with 30 demonstrations", "bubblesort", "24% error with 30 demonstrations"),
        Headline(
            "Bubble sort: the LSTM needs more than 70 demonstrations for that",
            "bubblesort",
            "the LSTM needs more than 70 demonstrations for it",
        ),
        Headline(
            "Bubble sort: 24% error with less than half the LSTM's data",
            "bubblesort",
            "24% error with less than half the LSTM's data",
        ),
        Headline("Karel: generally lower error than the LSTM", "karel-data", LOWER),
        Headline("– with 10 demonstrations", "karel-data", LOWER_AT_10),
        Headline("Karel: on some programs, no error with less than half the LSTM's data", "karel-data", HALF),
        Headline("– in the mean over the programs", "karel-data", HALF_IN_MEAN),
        Headline("Karel: except on C, better than the LSTM on longer runs", "karel-length", BETTER),
        Headline("– in the mean over the programs", "karel-length", BETTER_IN_MEAN),
        Headline(
            "Parity: lower error than the LSTM with little data and much noise",
            "acausal",
            "lower error than the LSTM with little data and much noise",
        ),
        Headline(
            "Parity: lower error than the 2-layer LSTM with little data and much noise",
            "acausal",
            "lower error than the 2-layer LSTM with little data and much noise",
        ),
        Headline(
            "Parity: even without noise, lower error than the LSTM with 100 demonstrations",
            "acausal",
            "lower error than the LSTM without noise, with 100 demonstrations",
        ),
    )
}
"""The tables of main claims, by what stands in their marks."""


@cache
def read(figure: str, preset: str) -> Results:
    """The records of a figure; none if it has not been run."""
    experiment = find_experiment(figure).preset(preset)
    directory = HOME / default_directory(experiment, preset)
    has_records = (directory / EXPERIMENT).exists()
    return read_results(directory) if has_records else Results(experiment=experiment, records={})


def error(results: Results, model: str, column: Column) -> str:
    """The mean over the runs that have all panels and sizes of the column, with its interval and their number."""
    points = [results.values(panel, model, size) for panel in column.panels for size in column.sizes]
    runs = sorted(set.intersection(*(set(point) for point in points)))
    if not runs:
        return "–"
    estimate = share_estimate(np.array([[point[run] for run in runs] for point in points]).mean(axis=0))
    return f"{shown(estimate)} ({estimate.runs})"


def errors(name: str) -> str:
    """One of the tables of errors: a row for each model that any of its columns has."""
    columns = ERRORS[name]
    results = {(column.figure, column.preset): read(column.figure, column.preset) for column in columns}
    of_columns = [results[column.figure, column.preset] for column in columns]
    models = dict.fromkeys(model for found in of_columns for model in found.experiment.models)
    rows = [
        (model, *(error(found, model, column) for found, column in zip(of_columns, columns, strict=True)))
        for model in models
    ]
    return _lines(("", *(column.heading for column in columns)), [row for row in rows if {*row[1:]} != {"–"}])


def findings(figure: str, preset: str) -> Mapping[tuple[str, str], Finding]:
    """The verdicts on the paper's claims as a whole, by the claim's words and its models."""
    whole = [finding for finding in judge_all(read(figure, preset)) if not finding.panel]
    return {(f.claim.says, _of(f)): f for f in whole if not f.claim.says.startswith(OURS)}


def _of(finding: Finding) -> str:
    """The models that a claim is about."""
    claim = finding.claim
    return f"{claim.ours}; {claim.theirs}" if claim.theirs else claim.ours


def _cell(finding: Finding | None) -> str:
    if finding is None:
        return "–"
    if finding.verdict is Verdict.NO_RECORDS:
        return "not run yet"
    return f"**{finding.verdict}**: {finding.measured}"


def verdicts(figure: str) -> str:
    """The table of verdicts of one figure."""
    presets = [name for name in PRESETS if name in find_experiment(figure).presets]
    found = [findings(figure, name) for name in presets]
    claims = dict.fromkeys(claim for findings in reversed(found) for claim in findings)
    header = ("claim", "of", *(f"preset `{name}`" for name in presets))
    return _lines(header, [(*claim, *(_cell(findings.get(claim)) for findings in found)) for claim in claims])


def _lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows))


def summary(name: str) -> str:
    """The table at the top of the page: the verdicts on the paper's main claims, in words alone."""
    rows = [(line.says, *(_verdict(line, preset) for preset in PRESETS)) for line in SUMMARIES[name]]
    return _lines(("the paper says", *(f"preset `{preset}`" for preset in PRESETS)), rows)


def _verdict(line: Headline, preset: str) -> str:
    verdict = next(f.verdict for (says, _), f in findings(line.figure, preset).items() if says == line.claim)
    return verdict.partition(" at ")[0]  # where no numbers stand, "at this number of runs" says nothing


TABLES = {"summary": summary, "verdicts": verdicts, "errors": errors}


def page(text: str) -> str:
    """The page with its tables made anew."""
    return MARKS.sub(lambda match: f"{match[1]}\n{TABLES[match[2]](match[3])}\n\n{match[4]}", text)


def main() -> None:
    """Replace the tables between the marks."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
