"""Makes the gallery of learned programs, all of it or some of its entries: `python scripts/gallery.py [NAME …]`.

An entry takes about a minute of one core. A fit that build/gallery has is not repeated.
An entry is two small files that are kept in the repository, so that building the documentation trains nothing: a
section for docs/gallery.md to include, and the contents of its report, which `write_reports` makes into a page with the
report's own assets of today. Every number in them is read from the run.
"""

import html
import os
import sys
from pathlib import Path
from typing import NamedTuple

import hvil
from hvil.analysis.report.page import page
from hvil.cli.main import main as command
from hvil.gate.files import json_line, read_json, write_text

HOME = Path(__file__).parents[1]
RUNS, ENTRY_FILES = Path("build/gallery"), Path("docs/gallery")
"""Where runs go, and the two files of each entry."""
EPISODES = 3
"""Episodes in the player of a report: enough to see how it works, and the files stay small."""


class Entry(NamedTuple):
    """A learned program of the gallery."""

    title: str
    words: str
    fit: str


ENTRIES = {
    "thereandback": Entry(
        "There and back: recursion",
        "A robot walks to a wall and back. It sees only whether the cell in front is free, so the way back has to "
        "be remembered. The procedure calls itself once for each step, and the call stack remembers the way.",
        "thereandback",
    ),
    "treewalk": Entry(
        "Tree walk: recursion with two calls",
        "A walker marks every node of a binary tree, depth first. The procedure calls itself once for each child. "
        "The program is right, but longer than one would write it.",
        "treewalk",
    ),
    "karel-a": Entry(
        "Karel A: turn right after a step",
        "A robot looks for a marker in a grid with walls. After each step it turns right if the right side is clear.",
        "karel:A --demos 10",
    ),
    "karel-b": Entry(
        "Karel B: turn left after a step",
        "The same search, but after each step the robot turns left if the left side is clear.",
        "karel:B --demos 10",
    ),
    "karel-c": Entry(
        "Karel C: turn right before a step",
        "The robot looks to the right first, turns if that side is clear, and then takes its step.",
        "karel:C --demos 10",
    ),
    "karel-d": Entry(
        "Karel D: turn left at a wall",
        "The robot goes straight on until a wall is in front of it, and turns left there.",
        "karel:D --demos 10",
    ),
    "karel-e": Entry(
        "Karel E: turn right at a wall",
        "The robot goes straight on until a wall is in front of it, and turns right there.",
        "karel:E --demos 10",
    ),
    "karel-f": Entry(
        "Karel F: right if possible, else left",
        "At a wall the robot turns right if the right side is clear, else left. `hvil demo` learns this program.",
        "karel:F --demos 10",
    ),
}


def make(name: str, entry: Entry) -> None:
    """Fit one entry, and write its section and the contents of its report."""
    run = RUNS / name
    if not (run / "evaluation.json").is_file():
        run.parent.mkdir(parents=True, exist_ok=True)
        if command(["fit", *entry.fit.split(), "--out", str(run)]):
            sys.exit(f"{name}: the fit failed")
    _, report = hvil.load(run).report(episodes=EPISODES)
    write_text(ENTRY_FILES / f"{name}.json", json_line(report.content))
    write_text(ENTRY_FILES / f"{name}.md", section(name, entry, len(report.html)))


def write_reports(target: Path) -> None:
    """Write the page of every entry's report, for the site."""
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted((HOME / ENTRY_FILES).glob("*.json")):
        write_text(target / f"{path.stem}.html", page(read_json(path)))


def section(name: str, entry: Entry, size: int) -> str:
    """The text of one entry; `size` is that of its report, in bytes."""
    explanation, evaluation = hvil.load(RUNS / name).explain(), read_json(RUNS / name / "evaluation.json")
    low, high = (f"{100 * bound:.1f}" for bound in evaluation["error_interval"])
    error = f"{100 * evaluation['error']:.1f}% [{low}, {high}] of {evaluation['traces']:,} test traces"
    title = html.escape(f"Report: {entry.title}")
    return f"""## {entry.title}

{entry.words}

`hvil fit {entry.fit}`: the network errs on {error}. Its program:

```{{code-block}} python
{explanation.source.strip()}
```

It {explanation.fidelity}.

<details><summary>Step through it here ({size / 1e6:.1f} MB)</summary>
<iframe src="gallery/{name}.html" title="{title}" loading="lazy"></iframe>
</details>

<p><a href="gallery/{name}.html">Report “{html.escape(entry.title)}” on a page of its own</a></p>
"""


def main(chosen: list[str]) -> None:
    """Make the entries."""
    unknown = sorted(set(chosen) - ENTRIES.keys())
    if unknown:
        sys.exit(f"no entry {', '.join(unknown)}; there are {', '.join(ENTRIES)}")
    os.chdir(HOME)  # paths of runs are shown in reports, and should be those of the repository
    for name in chosen or list(ENTRIES):
        make(name, ENTRIES[name])


if __name__ == "__main__":
    main(sys.argv[1:])
