"""From a source to a run: load the data, plan, train. `fit` does all of it; the command line calls its parts.

The parts are `prepare` (source to data and plan) and `restarts.train_plan` (data and plan to a run).
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from hvil.data.sources import Data, Source, load_data
from hvil.data.traces import Traces
from hvil.gate.settings import from_mapping, setting_names
from hvil.learners import LEARNERS
from hvil.learners.config import Config
from hvil.learners.settings import TrainingSettings
from hvil.training.execution import carry_out, earlier_config
from hvil.training.plan import GraphSpec, Plan, make_plan, plan_data
from hvil.training.restarts import train_plan
from hvil.training.run import Run

BASELINES = ("feedforward", "lstm")
"""What a run on data of one's own is compared with: a policy without memory and one with the usual memory."""


class Prepared(NamedTuple):
    """Data and what will be done with it."""

    data: Data
    plan: Plan


def fit(
    source: Source,
    call_graph: GraphSpec | None = None,
    *,
    test: Traces | None = None,
    validation: Traces | float | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    log: str | None = None,
    progress: bool = False,
    workers: int | None = None,
    **settings: Any,
) -> Run:
    """Learn from demonstrations. Data, plan and weights are those of `hvil fit`.

    The command also evaluates the run and, for data of your own, trains baselines and writes a report. Here these are
    `run.evaluate()`, `fit_baselines(run, settings)` and `run.report()`.

    Args:
        source: a path, a task's name, `Traces`, a data frame, a Minari data set, or a list of (observations, actions).
        call_graph: a spec such as `tree:5x2` or `annotations`, a file, a mapping or a `CallGraph`; by default the plan
            chooses one.
        test: traces to measure the error on; by default some are held out, or drawn afresh if there is a task.
        validation: traces for early stopping, or the share of the training traces to hold out for it; by default a
            tenth, if there is no task.
        out: a new directory for the run; None keeps it in memory.
        resume: go on with the run in `out`.
        log: who else gets the numbers: `tensorboard` (files in `out`), `wandb` or `trackio`.
        progress: show a progress bar on standard error.
        workers: how many restarts run at a time; by default one for each processor.
        **settings: any field of `DataSettings`, of the learner's settings class or of `TrainingSettings`, and `model`,
            the learner's name. `run.plan` says why the others have their values.
    """
    if isinstance(validation, int | float):
        settings, validation = {**settings, "validation": validation}, None
    path = None if out is None else Path(out)
    earlier = earlier_config(path) if resume else None
    data, plan = prepare(source, settings, call_graph, test=test, validation=validation, earlier=earlier)
    return train_plan(plan, data, path, resume=resume, log=log, progress=progress, workers=workers)


def prepare(
    source: Source,
    given: Mapping[str, Any],
    call_graph: GraphSpec | None = None,
    *,
    test: Traces | None = None,
    validation: Traces | None = None,
    earlier: Config | None = None,
) -> Prepared:
    """Load the data of a source and plan a run on it; `fit` explains the arguments."""
    settings = plan_data(source, given, earlier)
    default_seed = TrainingSettings.seed if earlier is None else earlier.training.seed
    # The plan checks the seed with all other settings, but the traces are drawn before there is a plan.
    seed = from_mapping(TrainingSettings, {"seed": given.get("seed", default_seed)}, "settings").seed
    data = load_data(source, settings, seed, test=test, validation=validation)
    if test is not None or validation is not None:
        # The source alone does not give these sets again, so the run stores all of its traces.
        settings = replace(settings, source="")
    plan = make_plan(data, given, call_graph, data_settings=settings, earlier=earlier)
    return Prepared(data=data, plan=plan)


def fit_baselines(
    run: Run, given: Mapping[str, Any], *, resume: bool = False, progress: bool = False
) -> dict[str, Run]:
    """Train the baselines on the traces of a run, each with the settings that the plan suggests for it.

    Args:
        run: the run that they are compared with; they have its seed, and train where it was trained.
        given: settings that the user gave; each baseline takes those that it has.
        resume: go on with baselines that were begun.
        progress: show how far the training is, on standard error.
    """
    runs = {}
    training = run.config.training
    shared = {"network": run.config.model.network, "seed": training.seed, "device": training.device, "restarts": 1}
    for name in BASELINES:
        names = setting_names(LEARNERS[name], TrainingSettings)
        settings = {key: value for key, value in given.items() if key in names} | shared | {"model": name}
        out = None if run.path is None else run.path / name
        goes_on = resume and out is not None
        earlier = earlier_config(out) if goes_on else None
        plan = make_plan(run.data, settings, run.config.graph, data_settings=run.config.data, earlier=earlier)
        runs[name] = carry_out(plan, run.data, out, resume=goes_on, progress=progress)
    return runs
