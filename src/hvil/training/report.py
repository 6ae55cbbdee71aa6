"""The report of a run: gathers what its directory holds, and has `hvil.analysis.report` make the page."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hvil.analysis.effects import postconditions
from hvil.analysis.evaluation import Share
from hvil.analysis.explain import Explanation
from hvil.analysis.report import PLAYED, Report, RunFacts, report_page
from hvil.data.sources import task_of
from hvil.data.tasks import Task
from hvil.data.traces import Traces
from hvil.gate.border import has_file
from hvil.gate.errors import InputError
from hvil.gate.files import read_json, write_text
from hvil.learners.networks.bank import MlpBank
from hvil.learners.networks.fields import fields_ignored
from hvil.training.evaluation_file import read_evaluation
from hvil.training.observers import read_metrics
from hvil.training.run_files import BASELINES, METRICS, REPORT

if TYPE_CHECKING:
    from hvil.training.run import Run


def write_report(run: "Run", out: str | os.PathLike[str] | None = None, *, episodes: int = 12) -> tuple[Path, Report]:
    """Write the report of a run; `Run.report` has the arguments."""
    if out is None:
        if run.path is None:
            raise InputError("this run has no directory; say where the report goes (out)")
        out = run.path / REPORT
    traces, task = _starts(run, max(episodes, PLAYED))
    report = report_page(_facts(run, _explanation(run)), run.learner, traces, task, episodes=episodes)
    write_text(out, report.html)
    return Path(out), report


def page_so_far(run: "Run", *, episodes: int, roll_outs: int) -> Report:
    """The report of a run that is not over: from few episodes and roll-outs, and nothing is written."""
    traces, task = _starts(run, PLAYED)
    in_memory = replace(run, path=None)  # else the explanation would be kept
    in_memory.data = run.data
    explanation = _explanation(in_memory, episodes=roll_outs, fresh=roll_outs)
    return report_page(_facts(run, explanation), run.learner, traces, task, episodes=episodes)


def _facts(run: "Run", explanation: Explanation | None) -> RunFacts:
    demonstrations = run.config.data.demos or (len(run.data.training) if run.knows_data else None)
    return RunFacts(
        title=run.path.resolve().name if run.path else run.config.task or "hvil",
        config=run.config,
        updates=run.updates,
        seconds=run.seconds,
        demonstrations=demonstrations,
        evaluation=read_evaluation(run.path),
        metrics=read_metrics(run.path / METRICS) if run.path else [],
        baselines=_baselines(run),
        explanation=explanation,
        program_error=None if explanation is None else _program_error(run, explanation),
        effects=postconditions(run.learner),
        ignored=_ignored(run),
    )


def _ignored(run: "Run") -> dict[str, tuple[str, ...]]:
    """The fields of an observation that each procedure's network does not read; nothing if it has no input columns."""
    bank = getattr(getattr(run.learner, "policy_network", None), "bank", None)
    return fields_ignored(run.config, bank) if isinstance(bank, MlpBank) else {}


def _baselines(run: "Run") -> dict[str, Any]:
    path = run.path / BASELINES if run.path else None
    found = read_json(path) if path is not None and has_file(path) else {}
    return found if isinstance(found, dict) else {}


def _explanation(run: "Run", **options: Any) -> Explanation | None:
    """The run's program; None if its policy has no procedures, or there is nothing to run the policy on."""
    try:
        return run.explain(**options)
    except InputError:
        return None


def _program_error(run: "Run", explanation: Explanation) -> Share | None:
    """The error of the program itself on the run's test traces, like the network's in its evaluation."""
    test = run.data.test if run.knows_data else None
    if test is None:
        return None
    run.config.check(test)
    return Share.of(explanation.policy(run.config.reader).wrong(test))


def _starts(run: "Run", count: int) -> tuple[Traces, Task | None]:
    """The traces from whose starts episodes are played, and the task to play in; None: along the traces."""
    task = run.task
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
    # The initial states are in the metadata: without them, episodes can only be played along the traces.
    name = traces.attributes.get("task") if traces.metadata else None
    task = task if name == run.config.task else task_of(name)
    if task is not None and task.action_names != traces.action_names:
        task = None
    return traces[:count], task
