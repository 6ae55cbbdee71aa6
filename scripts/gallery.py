"""Makes the gallery of learned programs: fits every entry that build/gallery lacks, then writes docs/gallery.

`python scripts/gallery.py [NAME …]` takes some 40 s of one core a Karel program, a few minutes for bubble
sort. Every number on the page is read from the run that its command made.
"""

import html
import sys
from pathlib import Path
from typing import NamedTuple

import hvil
from hvil.cli.main import main as command
from hvil.gate.files import read_json

HOME = Path(__file__).parents[1]
RUNS, PAGES = HOME / "build" / "gallery", HOME / "docs" / "gallery"
EPISODES = 3
"""Episodes in the player of a page: enough to see how it works, and the pages stay small."""


class Entry(NamedTuple):
    """A learned program of the gallery."""

    title: str
    words: str
    fit: str


ENTRIES = {
    "karel-f": Entry(
        "Karel F: follow the wall to a marker",
        "Ten runs of a robot in a maze. It turns right, and then follows the wall until it stands on a marker.",
        "karel:F --demos 10",
    ),
    "karel-d": Entry("Karel D", "Ten runs, four observed conditions, one loop around a choice.", "karel:D --demos 10"),
    "karel-e": Entry("Karel E", "The same with another order of questions.", "karel:E --demos 10"),
    "karel-c": Entry("Karel C", "A loop, then a few actions in a row.", "karel:C --demos 10"),
    "karel-a": Entry("Karel A", "The shortest of the paper's programs.", "karel:A --demos 10"),
    "karel-b": Entry("Karel B", "As short, with another ending.", "karel:B --demos 10"),
    "thereandback": Entry(
        "There and back: recursion",
        "A robot walks to a wall and back. Only whether the front is clear is seen, so the way back is counted on the "
        "call stack: the procedure calls itself.",
        "thereandback",
    ),
    "treewalk": Entry(
        "Tree walk: recursion with two calls",
        "Every node of a binary tree is marked, depth first. The procedure calls itself once for each child.",
        "treewalk",
    ),
    "bubblesort": Entry(
        "Bubble sort: procedures that call procedures",
        "Thirty sorted lists. Nobody marked where a pass begins or ends.",
        "bubblesort --demos 30 --seed 1001",
    ),
}


def make(name: str, entry: Entry) -> None:
    """Fit and write the page of one entry."""
    run = RUNS / name
    if not (run / "evaluation.json").is_file():
        run.parent.mkdir(parents=True, exist_ok=True)
        if command(["fit", *entry.fit.split(), "--out", str(run)]):
            sys.exit(f"{name}: the fit failed")
    hvil.load(run).report(PAGES / f"{name}.html", episodes=EPISODES)


def section(name: str, entry: Entry) -> str:
    """One entry of the page."""
    run = hvil.load(RUNS / name)
    explanation, evaluation = run.explain(), read_json(RUNS / name / "evaluation.json")
    low, high = (f"{100 * bound:.1f}" for bound in evaluation["error_interval"])
    error = f"{100 * evaluation['error']:.1f}% [{low}, {high}] of {evaluation['traces']:,} test traces"
    size = (PAGES / f"{name}.html").stat().st_size
    title = html.escape(f"Report: {entry.title}")
    return f"""## {entry.title}

{entry.words}

`hvil fit {entry.fit}`: the network errs on {error}. The program:

```python
{explanation.text.strip()}

# {explanation.fidelity}
```

<details><summary>Step through it ({size / 1e6:.1f} MB)</summary>
<iframe src="{name}.html" title="{title}" loading="lazy"></iframe>
</details>

<p><a href="{name}.html">The report on a page of its own</a></p>
"""


def page(names: list[str]) -> str:
    """The gallery."""
    head = (
        "# Gallery: learned programs\n\n"
        "Each program below was learned from demonstrations alone, with the settings that `hvil fit` chooses. "
        "The text is what `hvil explain` prints; its last lines say on how many fresh roll-outs it does what the "
        "policy and the teacher do. Names such as `p3` are those of the call graph: hvil does not invent names.\n\n"
        "`python scripts/gallery.py` makes this page.\n\n"
    )
    return head + "\n".join(section(name, ENTRIES[name]) for name in names)


def main(chosen: list[str]) -> None:
    """Make the entries, then the page of all that are there; `page` alone makes only that."""
    PAGES.mkdir(exist_ok=True)
    for name in [] if chosen == ["page"] else chosen or list(ENTRIES):
        make(name, ENTRIES[name])
    there = [name for name in ENTRIES if (PAGES / f"{name}.html").is_file()]
    (PAGES.parent / "gallery.md").write_text(page(there), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
