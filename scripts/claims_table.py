"""Writes the tables of verdicts in docs/claims.md anew, from the records in results/.

Each figure has one table: a row for each claim of the paper, and a column for each of the presets `paper` and `ours`
that the figure has.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from hvil.experiments.experiment_files import find_experiment
from hvil.experiments.outcome.results import EXPERIMENT, Results, read_results
from hvil.experiments.outcome.verdicts import Finding, Verdict, judge_all
from hvil.experiments.reproduce import default_directory

HOME = Path(__file__).parents[1]
PAGE = HOME / "docs" / "claims.md"
OURS = "(ours)"
"""How a claim begins that is not the paper's."""
PRESETS = ("paper", "ours")
MARKS = re.compile(r"(<!-- verdicts of ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def findings(figure: str, preset: str) -> Mapping[tuple[str, str], Finding]:
    """The verdicts on the paper's claims as a whole, by the claim's words and its models."""
    experiment = find_experiment(figure).preset(preset)
    directory = HOME / default_directory(experiment, preset)
    has_records = (directory / EXPERIMENT).exists()
    results = read_results(directory) if has_records else Results(experiment=experiment, records={})
    whole = [finding for finding in judge_all(results) if not finding.panel]
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


def table(figure: str) -> str:
    """The table of one figure."""
    presets = [name for name in PRESETS if name in find_experiment(figure).presets]
    verdicts = [findings(figure, name) for name in presets]
    claims = dict.fromkeys(claim for found in reversed(verdicts) for claim in found)
    header = ["claim", "of", *(f"preset `{name}`" for name in presets)]
    rows = [(*claim, *(_cell(found.get(claim)) for found in verdicts)) for claim in claims]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows))


def page(text: str) -> str:
    """The page with its tables made anew."""
    return MARKS.sub(lambda match: f"{match[1]}\n{table(match[2])}\n\n{match[3]}", text)


def main() -> None:
    """Replace the tables between the marks."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
