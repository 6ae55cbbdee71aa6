"""Restarts: several initialisations of one plan, of which the best is kept. No test trace is looked at.

A search for structure may fail, and a failed search shows it in its own objective. Successive halving: all restarts run
for half of the updates, the better half of them for half of the rest, and so on; the last one runs to the end. If there
is an exact start, the first halving is at its end: a structure is found by then, and the rest is not yet paid for. If
the programs decide (`select`), two run to the end.
A search whose best restart does half of its training traces wrong has failed, and goes on: those that were dropped at
the last halving run to the end after all, then those of the halving before, until one does not fail. Each restart is a
run of its own in `restarts/K`, so that a killed search goes on where it was.
"""

import hashlib
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from hvil.analysis.evaluation import has_failed
from hvil.analysis.explain.simplification import length
from hvil.data.sources import Data
from hvil.data.traces import Traces
from hvil.gate.border import given_directory, has_file
from hvil.gate.engine.local import Engine, Job, run_jobs
from hvil.gate.errors import InputError
from hvil.gate.files import read_json, write_json
from hvil.gate.progress import share_progress
from hvil.gate.settings import from_mapping
from hvil.learners.config import Config
from hvil.learners.learner import JudgesItself
from hvil.training.execution import MEASURED, carry_out, locked_run, make_run_directory
from hvil.training.loop import Observer
from hvil.training.observers import ShareDone, read_metrics
from hvil.training.plan import Plan
from hvil.training.recipe import write_recipe
from hvil.training.run import Run, fingerprint, load, read_config, store_data, stored_data
from hvil.training.run_files import CONFIG, METRICS, TEST, TRACES, VALIDATION
from hvil.training.source_notes import write_note

WORK = "hvil.training.restarts:work"
RECORD = "restarts.json"
FINALISTS = 2
"""Restarts that are trained to the end if their programs decide: more would double the time."""
JUDGED_SHARE = 0.1
"""The share of a restart's updates, its last ones, whose mean loss judges a learner that cannot judge itself."""


class Rung(NamedTuple):
    """A stage of the search."""

    until: int
    """The restarts that are left run up to this update."""
    survivors: int
    """Of which so many go on."""


@dataclass(frozen=True)
class _ProgramSize:
    """A restart's program in numbers."""

    length: int
    explained: int
    """Training traces that it explains."""


@dataclass(frozen=True)
class _Judged:
    """What a worker says of a restart."""

    updates: int
    merit: float
    training_error: float | None = None
    """At the end of the training; None where actions are vectors, of which none is quite right."""
    program: _ProgramSize | None = None

    @property
    def failed(self) -> bool:
        """Whether it ended as a failed search."""
        return has_failed(self.training_error)


def rungs(restarts: int, updates: int, start: int = 0, finalists: int = 1) -> list[Rung]:
    """The stages of the search.

    Args:
        restarts: how many begin.
        updates: of those that run to the end.
        start: updates of the exact start.
        finalists: how many run to the end.
    """
    reached = start if start < updates else 0
    stages: list[Rung] = []
    left = restarts
    while left > finalists:
        if stages or not reached:
            reached += math.ceil((updates - reached) / 2)
        left = max(math.ceil(left / 2), finalists)
        stages.append(Rung(until=reached, survivors=left))
    return [*stages, Rung(until=updates, survivors=1)]


def train_plan(
    plan: Plan,
    data: Data,
    out: Path | None = None,
    *,
    resume: bool = False,
    log: str | None = None,
    progress: bool = False,
    observers: Sequence[Observer] = (),
    workers: int | None = None,
    engine: Engine = run_jobs,
) -> Run:
    """Train what is planned: one run, or several restarts of which the best is kept.

    Args:
        plan: the settings.
        data: the traces.
        out: the run directory; None keeps the run in memory.
        resume: go on with the run, or the search, in `out`.
        log: who else gets the numbers, a name of `LOGGERS`; not with restarts.
        progress: show how far the training is, on standard error.
        observers: who else watches a single run; of restarts they learn that they begin, and that they have ended.
        workers: how many restarts run at a time; by default one for each processor.
        engine: who runs restarts. Those of a cluster need the directory on a file system that its machines share.
    """
    restarts = plan.config.training.restarts
    if restarts == 1:
        run = carry_out(plan, data, out, resume=resume, log=log, progress=progress, observers=observers)
        if out is not None:
            write_recipe(out, plan)
        return run
    if plan.config.training.select == "program" and not plan.config.model.has_procedures:
        raise InputError(f"--select program: a run of {plan.config.learner} has no program")
    if log is not None:
        raise InputError(f"log {log}: a log is that of one run: leave it out, or give --restarts 1")
    if out is None and resume:
        raise InputError("resuming needs a run directory: name one with out")
    with (
        tempfile.TemporaryDirectory(prefix="hvil-") if out is None else nullcontext() as scratch,
        share_progress(f"{restarts} restarts") if progress else nullcontext(lambda share: None) as on_progress,
    ):
        path = out if out is not None else Path(scratch or "") / "run"
        run = fit_restarts(
            plan,
            data,
            path,
            workers=workers,
            resume=resume,
            on_progress=on_progress,
            observers=observers,
            engine=engine,
        )
        if out is None:
            return _in_memory(run)
        write_recipe(out, plan)
        return run


def _in_memory(run: Run) -> Run:
    """The run in memory only; its directory may then go."""
    in_memory = replace(run, path=None)
    in_memory.data = run.data
    return in_memory


def fit_restarts(
    plan: Plan,
    data: Data,
    out: Path,
    *,
    workers: int | None = None,
    resume: bool = False,
    on_progress: Callable[[float], None] = lambda share: None,
    observers: Sequence[Observer] = (),
    engine: Engine = run_jobs,
) -> Run:
    """Train the restarts of a plan and keep the best one as the run in `out`; all are recorded beside it.

    Args:
        plan: what to train; its own restart is the first of them.
        data: the traces.
        out: the run directory.
        workers: how many run at a time; by default one for each processor.
        resume: go on with the search in `out`.
        on_progress: called with the share of the work that is done.
        observers: learn that the search begins and ends.
        engine: who runs them.

    Raises:
        InputError: the directory exists, or the search in it has another plan.
    """
    if resume and has_file(out / CONFIG):  # the search is over; the restart that was kept may go on
        kept = _restarted(plan.config, read_config(out).training.restart)
        return carry_out(replace(plan, config=kept), data, out, resume=True)
    if not resume or not out.exists():
        make_run_directory(out)
    with locked_run(given_directory(out)):
        for observer in observers:
            observer.begin(0, plan.config.training.updates)
        run = _search(plan, data, out, workers, on_progress, engine)
        for observer in observers:
            observer.end()
        return run


def _search(
    plan: Plan,
    data: Data,
    out: Path,
    workers: int | None,
    on_progress: Callable[[float], None],
    engine: Engine,
) -> Run:
    """Do the work of `fit_restarts`, in a directory that is locked."""
    training = plan.config.training
    configs = {k: _restarted(plan.config, k) for k in range(training.restart, training.restart + training.restarts)}
    store = out / "restarts"
    _open(store, plan.config, data)
    finalists = FINALISTS if training.select == "program" else 1
    stages = rungs(len(configs), training.updates, getattr(plan.config.model, "exact_start", 0), finalists)
    judged: dict[str, dict[str, float]] = {str(k): {} for k in configs}
    contents = fingerprint(data.training)

    def train(numbers: Sequence[int], until: int) -> dict[int, _Judged]:
        """Train restarts up to an update, and judge them; those that were judged before a kill are as they were."""
        jobs = [_job(store, k, configs[k], until, contents) for k in numbers]
        advance = _share_of(on_progress, [stage.until for stage in stages].index(until), stages, len(jobs))
        new = [job for job in jobs if not has_file(job.target)]
        at_a_time = min(workers or os.cpu_count() or 1, len(new))
        failures = engine(new, WORK, at_a_time, store / "workers.log", advance, lambda key: None) if new else ()
        if failures:
            raise OSError(f"restart {failures[0].key.rpartition('-')[2]} failed: {failures[0].reason}")
        results = {k: _read_judged(job.target) for k, job in zip(numbers, jobs, strict=True)}
        for k, result in results.items():
            judged[str(k)][str(until)] = result.merit
        return results

    ended = halve(list(configs), stages, train)
    best = next(iter(ended))
    programs = {str(k): asdict(result.program) for k, result in ended.items() if result.program is not None}
    write_json(out / RECORD, {"best": best, "merit": judged, **({"programs": programs} if programs else {})})
    _keep(store / str(best), out)
    write_note(out, plan.config.data.source)  # a restart on another machine has that machine's signature
    run = load(out)
    run.plan, run.data = replace(plan, config=configs[best]), data
    return run


def halve(
    restarts: Sequence[int], stages: Sequence[Rung], train: Callable[[Sequence[int], int], Mapping[int, _Judged]]
) -> dict[int, _Judged]:
    """Drop the worse half of the restarts again and again; if the last one fails, go on with those dropped last.

    Gives the restarts that have run to the end, the best one first.

    Args:
        restarts: their numbers.
        stages: when to halve.
        train: trains restarts up to an update, and judges them.
    """
    left, dropped = list(restarts), []
    for stage in stages:
        judged = train(left, stage.until)
        left = sorted(left, key=lambda k: _standing(judged[k]), reverse=True)
        left, others = left[: stage.survivors], left[stage.survivors :]
        dropped.append(others)
    dropped.pop()  # these have run to the end
    ended = dict(judged)
    while all(result.failed for result in ended.values()) and dropped:
        ended |= train(dropped.pop(), stages[-1].until)
    best_first = sorted(ended, key=lambda k: (not ended[k].failed, _standing(ended[k])), reverse=True)
    return {k: ended[k] for k in best_first}


def work(cell: Mapping[str, Any], progress: Callable[[float], None], scratch: Path) -> dict[str, Any]:
    """Train one restart up to its rung, in a worker."""
    store, until = Path(cell["store"]), int(cell["until"])
    config = Config.from_mapping(cell["config"], "restart")
    data = stored_data(store, config, config.data.source or None)  # the search names it, and the user named it there
    if fingerprint(data.training) != cell["contents"]:
        raise InputError(f"{config.data.source or store}: gives other traces now than when the search began")
    out = store / str(config.training.restart)
    plan = Plan(config=config, reasons={})
    run = carry_out(plan, data, out, resume=True, observers=[ShareDone(progress, until)], until=until, keep_data=False)
    ended = until == config.training.updates
    measured = data.training[:MEASURED]
    return {
        "updates": run.updates,
        "merit": merit(run, measured, out / METRICS),
        "training_error": float(run.policy.wrong(measured).mean()) if ended and measured.vectors is None else None,
        "program": _program(run, data) if ended and config.training.select == "program" else None,
    }


def _program(run: Run, data: Data) -> dict[str, int]:
    """The size of a restart's program, and how many training traces it explains; the run keeps the explanation."""
    run.data = data
    explanation = run.explain()
    return {"length": length(explanation.program), "explained": explanation.training_explained or 0}


def _read_judged(path: Path) -> "_Judged":
    return from_mapping(_Judged, read_json(path), str(path), noun="entry")


def _standing(result: "_Judged") -> tuple[float, ...]:
    """What restarts are sorted by: the training traces that a program explains, its size, then the merit."""
    program = result.program
    return (result.merit,) if program is None else (program.explained, -program.length, result.merit)


def merit(run: Run, training: Traces, metrics: Path) -> float:
    """What a restart is judged by: what its learner says of the training traces, else minus its recent loss."""
    if isinstance(run.learner, JudgesItself):
        return run.learner.merit(replace(training, annotations=None), run.updates)
    lines = [line for line in read_metrics(metrics) if line.get("loss") is not None]
    recent = [line for line in lines if line["update"] > (1 - JUDGED_SHARE) * run.updates] or lines[-1:]
    return -sum(float(line["loss"]) for line in recent) / len(recent) if recent else -math.inf


def _restarted(config: Config, restart: int) -> Config:
    return replace(config, training=replace(config.training, restart=restart))


def _job(store: Path, restart: int, config: Config, until: int, contents: str) -> Job:
    place = str(store.resolve())
    cell = {"store": place, "until": until, "contents": contents, "config": config.to_mapping()}
    target = store / f"{restart}-{until}.json"
    # Searches that run at the same time on one cluster must not have jobs of the same name.
    key = f"{hashlib.sha256(place.encode()).hexdigest()[:10]}-{restart}"
    return Job(key=key, cell=cell, target=target, scratch=store / f"{restart}-scratch")


def _open(store: Path, config: Config, data: Data) -> None:
    """Make the directory of the search, or make sure that the search in it can be resumed."""
    store.mkdir(exist_ok=True)
    if has_file(store / CONFIG):
        difference = config.difference(read_config(store))
        if difference:
            raise InputError(f"{store.parent}: cannot resume, the search has another configuration: {difference}")
    write_json(store / CONFIG, config.to_mapping())
    if not config.data.source:
        store_data(store, data)


def _keep(best: Path, out: Path) -> None:
    """Copy the best restart's files to the run directory; `config.json` comes last, and says that all are there."""
    for entry in sorted(best.iterdir()):
        if entry.name == CONFIG or entry.name.startswith("."):
            continue
        if entry.is_dir():
            shutil.copytree(entry, out / entry.name, dirs_exist_ok=True)
        else:
            shutil.copy2(entry, out / entry.name)
    for entry in (best.parent / name for name in (TRACES, TEST, VALIDATION)):
        if entry.is_file():
            shutil.copy2(entry, out / entry.name)
    shutil.copy2(best / CONFIG, out / CONFIG)


def _share_of(
    on_progress: Callable[[float], None], number: int, stages: list[Rung], jobs: int
) -> Callable[[str, float], None]:
    """A callback for jobs that reports the share of the whole search."""
    shares: dict[str, float] = {}

    def advance(key: str, share: float) -> None:
        shares[key] = share
        on_progress((number + sum(shares.values()) / jobs) / len(stages))

    return advance
