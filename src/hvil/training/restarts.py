"""Restarts: several initialisations of one plan, of which the best is kept. No test trace is looked at.

A search for structure may fail, and a failed search shows it in its own objective. Successive halving: all restarts run
for half of the updates, the better half of them for half of the rest, and so on; the last one runs to the end. Each
restart is a run of its own in `restarts/K`, so that a killed search goes on where it was.
"""

import math
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from hvil.data.sources import Data
from hvil.gate.engine.local import Engine, Job, run_jobs
from hvil.gate.errors import InputError
from hvil.gate.files import write_json
from hvil.learners.config import Config
from hvil.training.execution import carry_out, refuse_existing
from hvil.training.observers import ShareDone, read_metrics
from hvil.training.plan import Plan
from hvil.training.run import Run, load, read_config, store_data, stored_data
from hvil.training.run_files import CONFIG, METRICS, TEST, TRACES, VALIDATION

WORK = "hvil.training.restarts:work"
RECORD = "restarts.json"
JUDGED_SHARE = 0.1
"""The share of a restart's updates, its last ones, whose mean objective judges it: single records are noisy."""


class Rung(NamedTuple):
    """A stage of the search."""

    until: int
    """The restarts that are left run up to this update."""
    survivors: int
    """Of which so many go on."""


def rungs(restarts: int, updates: int) -> list[Rung]:
    """The stages of successive halving: after half of the updates half of the restarts are left, and so on."""
    stages = []
    left, share = restarts, 0.5
    while left > 1:
        left = math.ceil(left / 2)
        stages.append(Rung(until=max(1, round(share * updates)), survivors=left))
        share += (1 - share) / 2
    return [*stages, Rung(until=updates, survivors=1)]


def fit_restarts(
    plan: Plan,
    data: Data,
    out: Path,
    restarts: int,
    *,
    workers: int | None = None,
    resume: bool = False,
    on_progress: Callable[[float], None] = lambda share: None,
    engine: Engine = run_jobs,
) -> Run:
    """Train several restarts of a plan and keep the best one as the run in `out`; all are recorded beside it.

    Args:
        plan: what to train; its own restart is the first of them.
        data: the traces.
        out: the run directory.
        restarts: how many initialisations.
        workers: how many run at a time; by default one for each processor.
        resume: go on with the search in `out`.
        on_progress: called with the share of the work that is done.
        engine: who runs them.

    Raises:
        InputError: the directory exists, or the search in it has another plan.
    """
    if restarts < 2:
        raise InputError(f"{restarts} restarts: a choice needs at least 2")
    if resume and (out / CONFIG).is_file():
        return load(out)
    first = plan.config.training.restart
    configs = {k: _restarted(plan.config, k) for k in range(first, first + restarts)}
    store = out / "restarts"
    _open(store, plan.config, data, resume)
    stages = rungs(restarts, plan.config.training.updates)
    judged: dict[str, dict[str, float]] = {str(k): {} for k in configs}
    left = list(configs)
    for number, stage in enumerate(stages):
        jobs = [_job(store, k, configs[k], stage.until) for k in left]
        advance = _share_of(on_progress, number, stages, len(jobs))
        failures = engine(
            jobs, WORK, min(workers or os.cpu_count() or 1, len(jobs)), store / "workers.log", advance, lambda key: None
        )
        if failures:
            raise OSError(f"restart {failures[0].key} failed: {failures[0].reason}")
        for k in left:
            judged[str(k)][str(stage.until)] = objective(store / str(k), stage.until)
        left = sorted(left, key=lambda k: judged[str(k)][str(stage.until)], reverse=True)[: stage.survivors]
    best = left[0]
    write_json(out / RECORD, {"best": best, "objective": judged})
    _keep(store / str(best), out)
    run = load(out)
    run.plan, run.data = replace(plan, config=configs[best]), data
    return run


def work(cell: Mapping[str, Any], progress: Callable[[float], None], scratch: Path) -> dict[str, Any]:
    """Train one restart up to its rung, in a worker."""
    store, until = Path(cell["store"]), int(cell["until"])
    config = Config.from_mapping(cell["config"], "restart")
    data = stored_data(store, config)
    out = store / str(config.training.restart)
    plan = Plan(config=config, reasons={})
    run = carry_out(plan, data, out, resume=True, observers=[ShareDone(progress, until)], until=until, keep_data=False)
    return {"updates": run.updates}


def objective(run: Path, until: int) -> float:
    """What a restart is judged by: the mean ELBO of the training traces in its last updates, or minus the loss."""
    lines = [line for line in read_metrics(run / METRICS) if line["update"] <= until and "loss" in line]
    recent = [line for line in lines if line["update"] > (1 - JUDGED_SHARE) * until] or lines[-1:]
    values = [float(line["elbo"]) if line.get("elbo") is not None else -float(line["loss"]) for line in recent]
    return sum(values) / len(values) if values else -math.inf


def _restarted(config: Config, restart: int) -> Config:
    return replace(config, training=replace(config.training, restart=restart))


def _job(store: Path, restart: int, config: Config, until: int) -> Job:
    cell = {"store": str(store.resolve()), "until": until, "config": config.to_mapping()}
    target = store / f"{restart}-{until}.json"
    target.unlink(missing_ok=True)  # a restart that has come so far before says so at once, from its checkpoint
    return Job(key=str(restart), cell=cell, target=target, scratch=store / f"{restart}-scratch")


def _open(store: Path, config: Config, data: Data, resume: bool) -> None:
    """Make the directory of the search, or make sure that the search in it can be resumed."""
    if not resume or not store.parent.exists():
        refuse_existing(store.parent)
    store.mkdir(parents=True, exist_ok=True)
    if (store / CONFIG).is_file():
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
