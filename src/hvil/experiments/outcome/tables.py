"""The results of an experiment as a page of Markdown: the claims beside what was measured, then every number.

The verdicts come from `verdicts`, the pictures from `plots`.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hvil.analysis.statistics import shown
from hvil.experiments.experiment import AXES, MEASURES
from hvil.experiments.outcome.results import Results
from hvil.experiments.outcome.verdicts import Finding
from hvil.gate.text import in_markdown, in_markdown_code


def page(results: Results, findings: Sequence[Finding], pictures: Sequence[Path]) -> str:
    """Write the whole page.

    Args:
        results: the records.
        findings: the verdicts on the claims.
        pictures: the files of the figures.
    """
    experiment = results.experiment
    preset = f" --preset {shlex.quote(results.preset)}" if results.preset else ""
    command = f"hvil reproduce {shlex.quote(results.source)}{preset}"
    hours = sum(float(record["seconds"]) for record in results.records.values()) / 3600
    versions = sorted({str(record["version"]) for record in results.records.values()})
    part = f"{len(results.records)} of " if len(results.records) < results.expected else ""
    lines = [
        f"# {in_markdown(experiment.title)}",
        "",
        f"{in_markdown_code(command)}: {part}{results.expected} cells, "
        f"at most {experiment.runs} runs of each kind, {hours:.1f} hours of training (without that of the restarts "
        f"that were dropped), hvil {in_markdown(', '.join(versions))}.",
        "",
        *([*map(in_markdown, experiment.notes.split("\n")), ""] if experiment.notes else []),
        *(f"![{in_markdown(experiment.title)}]({path.name})" for path in pictures if path.suffix == ".svg"),
        "",
        *(_claims(findings) if findings else []),
        "## Numbers",
        "",
        "Mean over runs [95% interval].",
        "",
    ]
    for measure in experiment.measures:
        lines += _numbers(results, measure)
    lines += _procedures_in_use(results)
    return "\n".join(lines)


def _claims(findings: Sequence[Finding]) -> list[str]:
    lines = [
        "## Claims",
        "",
        "Differences are in points of per cent, ours minus theirs on the same training sets; a claim marked (ours) is "
        "not the paper's. All verdicts together are right with 95% (Holm), as far as the number of runs was fixed "
        "beforehand; the notes above say where it was not. The last column says how sure the interval of each claim "
        "has to be for that.",
        "",
        "| claim | of | measured | verdict | interval |",
        "|---|---|---|---|---|",
    ]
    for finding in findings:
        claim = finding.claim
        of = f"{claim.ours} and {claim.theirs}" if claim.theirs else claim.ours
        if finding.panel:
            lines.append(_row(f"– {finding.panel}", "", finding.measured or "–", finding.verdict, _sure(finding)))
            continue
        measure = MEASURES[claim.measure].removeprefix("test traces with an ")
        measure = "" if claim.measure == "error" else f" ({measure})"
        where = ", ".join(claim.panels) + (f" with {', '.join(map(str, claim.sizes))}" if claim.sizes else "")
        scope = f"; {where.strip()}" if where else ""
        words = (claim.says, f"{of}{measure}{scope}", finding.measured or "–", f"**{finding.verdict}**")
        lines.append(_row(*words, _sure(finding)))
    return [*lines, ""]


def _sure(finding: Finding) -> str:
    return f"{finding.confidence:.2%}"


def _numbers(results: Results, measure: str) -> list[str]:
    experiment = results.experiment
    lines = [f"### {MEASURES[measure].capitalize()}", ""]
    lines += [
        _row("panel", AXES[experiment.axis].heading, *experiment.models),
        "|---|---|" + "---|" * len(experiment.models),
    ]
    for panel in experiment.panels:
        for size in experiment.sizes:
            estimates = [results.estimate(panel, model, size, measure) for model in experiment.models]
            lines.append(_row(panel, str(size), *(shown(estimate) if estimate else "–" for estimate in estimates)))
    return [*lines, ""]


def _procedures_in_use(results: Results) -> list[str]:
    """How many procedures the models use, and in how many runs that is the root alone, or one beside it."""
    experiment = results.experiment
    rows = []
    for model in experiment.models:
        records = [record for position, record in results.records.items() if position.model == model]
        in_use = [float(record["procedures_in_use"]) for record in records if record.get("procedures_in_use")]
        if in_use:
            mean = sum(in_use) / len(in_use)
            rows.append(_row(model, f"{mean:.1f}", f"{min(in_use):.1f} to {max(in_use):.1f}", *_collapsed(records)))
    if not rows:
        return []
    return [
        "### Procedures in use",
        "",
        "The perplexity of the procedures' shares of the PHP steps, over all runs. Then in how many runs the root "
        "calls no other procedure, so that there is no hierarchy; and in how many nearly all calls go to one "
        "procedure, so that which procedure is called says nothing.",
        "",
        "| model | mean | from – to | runs in which none is called | runs in which one gets nearly all calls |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ]


def _collapsed(records: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """In how many runs no procedure is called, and in how many nearly all calls go to one; dashes if there is one."""
    if not any(len(record["procedures"]) > 1 for record in records):
        return "–", "–"
    collapsed = [record for record in records if record.get("collapse") is not None]
    alone = sum(max(record["procedures"].values()) == 1 for record in collapsed)
    return str(alone), str(len(collapsed) - alone)


def _row(*cells: str) -> str:
    """A line of a table; the contents of a cell cannot end the cell."""
    escaped = [in_markdown(cell) for cell in cells]
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in escaped)
