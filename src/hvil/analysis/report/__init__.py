"""The report of a run: one HTML file to read and to step through. `write_report` does it all.

`episodes` plays and records, `distributions` adds what playing does not give, `pictures` draws, `content` gathers,
`page` writes HTML; the script and the style of the page are in `assets`.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hvil.gate.errors import InputError

if TYPE_CHECKING:
    from hvil.analysis.report.content import Program
    from hvil.data.tasks import Task
    from hvil.data.traces import Traces
    from hvil.training.run import Run

__all__ = ["Report", "report_page", "write_report"]

PLAYED = 60
"""Episodes that are played to count calls and to choose from."""
LARGEST = 5_000_000
"""Bytes of a report, at most; two parts can be large and have budgets of their own."""
PICTURES = 3_000_000
STEPS = 1_500_000


class Report(NamedTuple):
    """A finished page and what is in it."""

    html: str
    played: int
    successes: int
    episodes: int
    """How many of the played episodes are in the page."""
    program: bool


def write_report(
    run: "Run",
    out: str | os.PathLike[str] | None = None,
    *,
    episodes: int = 12,
    program: "Program | None" = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[Path, Report]:
    """Write the report of a run; by default as `report.html` into its directory."""
    from hvil.gate.files import write_text

    if out is None:
        if run.path is None:
            raise InputError("this run has no directory; say where the report goes (out)")
        out = run.path / "report.html"
    made = report_page(run, episodes=episodes, program=program, progress=progress)
    write_text(out, made.html)
    return Path(out), made


def report_page(
    run: "Run",
    *,
    episodes: int = 12,
    program: "Program | None" = None,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Play episodes, choose some, and put everything on a page.

    Args:
        run: what to report on.
        episodes: how many episodes the player offers, at most.
        program: the extracted program; None leaves it out.
        progress: called with the number of episodes played so far.

    Raises:
        InputError: the run's traces cannot be found, so that no episode can be played.
    """
    from hvil.analysis.report.content import affordable, content, graph_content
    from hvil.analysis.report.episodes import chosen, count_calls, play, with_distributions
    from hvil.analysis.report.page import page
    from hvil.analysis.report.pictures import album
    from hvil.gate.files import read_json
    from hvil.training.observers import read_metrics

    if episodes < 1:
        raise InputError(f"{episodes} episodes: expected at least 1")
    traces, task = _traces(run, max(episodes, PLAYED))
    played = []
    for episode in play(run.policy, traces, task, range(len(traces))):
        played.append(episode)
        if progress is not None:
            progress(len(played))
    shown = [with_distributions(episode, run.learner, traces) for episode in chosen(played, episodes)]
    shown = affordable(shown, run.config, STEPS)
    graph = run.config.graph
    counts = count_calls(played, graph.calls, graph.terminate)
    measured = run.path / "evaluation.json" if run.path else None
    everything: dict[str, Any] = {
        "title": run.path.resolve().name if run.path else run.config.task or "hvil",
        "config": run.config,
        "facts": {
            "updates": run.updates,
            "seconds": run.seconds,
            "demonstrations": run.config.data.demos or (len(run.data.training) if run.knows_data else None),
            "success": sum(episode.success for episode in played),
            "led": task is None,
        },
        "evaluation": read_json(measured) if measured and measured.is_file() else {},
        "metrics": read_metrics(run.path / "metrics.jsonl") if run.path else [],
        "graph": graph_content(graph, counts, len(played)) if played[0].steps[0].procedure >= 0 else None,
        "program": program,
        "played": len(played),
    }
    text = page(content(**everything, episodes=shown, album=album(shown, task, traces, PICTURES)))
    return Report(text, len(played), everything["facts"]["success"], len(shown), program is not None)


def _traces(run: "Run", count: int) -> "tuple[Traces, Task | None]":
    """Traces to start from, and the environment; without one the policy is led along them."""
    from hvil.data.sources import task_of

    task = task_of(run.config.task)
    try:
        traces = run.data.test or (None if task else run.data.training)
    except InputError as error:
        if task is None:
            raise InputError(f"{run.path or 'the run'}: no episode can be played: {error}") from error
        traces = None
    if traces is None:
        assert task is not None
        traces = task.test_demonstrations(count, run.config.training.seed)
    run.config.check(traces)
    # Only traces with their initial states can be rolled out.
    found = task_of(traces.attributes.get("task")) if traces.metadata else None
    return traces[:count], found if found is not None and found.action_names == traces.action_names else None
