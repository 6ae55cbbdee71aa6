"""The planner: the one place that decides a run's settings, with a reason for every choice that nobody made.

The command line, the library and a sweep's cell all plan here. The order of precedence is: what the user gives, what a
resumed run began with, what the task or the data suggest, the default of the setting.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, NamedTuple

import numpy as np

from hvil.data.inputs import Inputs, suitable_inputs
from hvil.data.segments import ROOT
from hvil.data.settings import DataSettings
from hvil.data.sources import Data, Source, address, names_task, task_from_source
from hvil.data.tasks import Task
from hvil.data.traces import Annotations, Traces
from hvil.gate.errors import InputError
from hvil.gate.settings import from_mapping
from hvil.learners import LEARNERS
from hvil.learners.config import Config
from hvil.learners.settings import HvilSettings, LearnerSettings, TrainingSettings
from hvil.machine.callgraph import CallGraph
from hvil.training.loop import intervals

GraphSpec = str | Mapping[str, Any] | CallGraph
"""A call graph as users give it: `tree:5x2`, a JSON file, a mapping, or the graph itself."""

UPDATES = 5_000
"""Updates on data of one's own: enough for a few hundred traces. Early stopping usually ends them sooner."""
LOOKS = 20
"""Evaluations on data of one's own. The entropy weight falls as often: from 1 to less than 0.001."""
PATIENCE = 6
"""Evaluations without a better held-out likelihood before training on data of one's own stops."""

FEW_TRACES = 50
"""Below this many traces of one's own, a procedure gets at most three callees: there is little data for each."""
MANY_TRACES = 2_000
"""From this many traces of one's own on, the call graph has three levels instead of two."""
MOST_CALLEES = 5
"""A procedure's callees at most, as in the paper's Karel experiments."""


@dataclass(frozen=True)
class Plan:
    """What a run will do, and why."""

    config: Config
    reasons: Mapping[str, str]
    """For each setting that nobody chose, why it has its value; `call_graph` and `inputs` are among the names."""

    def settings(self) -> dict[str, Any]:
        """All settings by name, in the order of their classes; a run of the same settings has the same weights."""
        config = self.config
        return {"model": config.learner, **asdict(config.data), **asdict(config.model), **asdict(config.training)}

    def lines(self, data: Data) -> list[str]:
        """What a user of own data wants to know before the training, a line each."""
        config, settings = self.config, self.config.training
        parts = {
            "to learn from": len(data.training if data.stream is None else data.stream),
            "to stop early by": 0 if data.validation is None else len(data.validation),
            "held out for the test": 0 if data.test is None else len(data.test),
        }
        lines = ["traces: " + ", ".join(f"{count} {use}" for use, count in parts.items() if count)]
        if "call_graph" in self.reasons:
            lines.append(f"call graph {self.reasons['call_graph']}; choose another with --call-graph")
        if config.inputs is not None:
            lines.append(f"columns of an observation: {_columns(config.inputs)}")
        if settings.patience:
            lines.append(
                f"at most {settings.updates} updates; looks every {intervals(settings)[0]}, and stops when the "
                f"held-out likelihood has not improved {settings.patience} times in a row"
            )
        return lines


def plan_data(source: Source, given: Mapping[str, Any], earlier: Config | None = None) -> DataSettings:
    """Which traces to take: the first choice of a plan, made before there are any.

    Args:
        source: where the traces come from.
        given: the settings that the user gave, of any kind.
        earlier: the configuration of a run that is resumed.
    """
    names = _names(DataSettings)
    values = {} if earlier is None else asdict(earlier.data)
    if earlier is None and names_task(source):
        values = {name: value for name, value in task_from_source(source).defaults.items() if name in names}
    values |= {name: value for name, value in given.items() if name in names}
    return from_mapping(DataSettings, values | {"source": address(source)}, "settings")


def make_plan(
    data: Data,
    given: Mapping[str, Any],
    call_graph: GraphSpec | None = None,
    *,
    data_settings: DataSettings | None = None,
    earlier: Config | None = None,
    defaults: Literal["suggested", "fields"] = "suggested",
) -> Plan:
    """Decide every setting of a run.

    Args:
        data: the traces.
        given: the settings that the user gave: fields of `DataSettings`, of the learner's settings class and of
            `TrainingSettings`, and `model`, the learner's name.
        call_graph: the call graph, if the user gave one.
        data_settings: what `plan_data` made; recorded with the run.
        earlier: the configuration of a run that is resumed; what is not given is as it was there.
        defaults: where settings come from that nobody gave: what task or data suggest, or the fields' own defaults. A
            sweep's cell takes the latter: its record must keep its meaning when a task's defaults change.

    Raises:
        InputError: a setting is unknown, of the wrong type, out of range, or of another learner.
    """
    learner = str(given.get("model", HvilSettings.learner if earlier is None else earlier.learner))
    kind = LEARNERS[learner]
    _refuse_unknown(given, kind)
    own = {name: value for name, value in given.items() if name in _names(kind) | _names(TrainingSettings)}
    suggested, reasons = _suggestions(data, own, learner, earlier, defaults)
    model, training = _settings(suggested | own, kind)
    graph, graph_reason = _graph(data, call_graph, model, earlier)
    inputs = None if data.task is not None or model.network != "mlp" else suitable_inputs(data.training)
    why = {
        name: reasons.get(name, "the default") for name in _names(kind) | _names(TrainingSettings) if name not in own
    }
    if graph_reason is not None:
        why["call_graph"] = graph_reason
    if inputs is not None:
        why["inputs"] = f"{_columns(inputs)}, by the values in the training traces"
    config = Config.of(data.training, graph, model, training, data_settings or DataSettings(), inputs)
    return Plan(config=config, reasons=why)


def check_settings(given: Mapping[str, Any]) -> None:
    """Refuse settings that no plan could have, before there is any data; those of other learners are let pass."""
    kind = LEARNERS[str(given.get("model", HvilSettings.learner))]
    others = {entry.name for name in LEARNERS.own for entry in fields(LEARNERS[name])} | {"call_graph"}
    _refuse_unknown({name: value for name, value in given.items() if name not in others}, kind)
    _settings(given, kind)


def _settings(values: Mapping[str, Any], kind: type[LearnerSettings]) -> tuple[LearnerSettings, TrainingSettings]:
    """The settings of learner and training; what belongs to others is left out."""
    model = {name: value for name, value in values.items() if name in _names(kind)}
    training = {name: value for name, value in values.items() if name in _names(TrainingSettings)}
    return from_mapping(kind, model, "settings"), from_mapping(TrainingSettings, training, "settings")


def _refuse_unknown(given: Mapping[str, Any], kind: type[LearnerSettings]) -> None:
    """Refuse settings that neither the learner nor data or training have, naming who has them."""
    names = _names(kind) | _names(TrainingSettings) | _names(DataSettings) | {"model"}
    for name in sorted(set(given) - names):
        owners = [other for other in LEARNERS.own if name in _names(LEARNERS[other])]
        if owners:
            raise InputError(f"{name} is a setting of {' and '.join(owners)}, not of {kind.learner}")
        raise InputError(f"unknown setting {name!r}; known: {', '.join(sorted(names - {'source'}))}")


def task_defaults(task: Task, learner: str) -> dict[str, Any]:
    """What a task suggests for a learner: the settings of the paper, or better ones where we found some."""
    values = {"last_action": False} if learner == "lstm" else {}  # the paper's LSTM sees observations only
    names = _names(LEARNERS[learner]) | _names(TrainingSettings)
    return {name: value for name, value in {**values, **task.defaults}.items() if name in names}


def own_data_defaults(data: Data, given: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """What traces of one's own suggest: each setting's value and the reason for it."""
    annotations = data.training.annotations
    annotated = annotations is not None and bool(annotations.known.any())
    interval = max(1, int(given.get("updates", UPDATES)) // LOOKS)
    suggestions = {
        "updates": (UPDATES, "enough for a few hundred traces; early stopping ends it sooner"),
        "evaluate_every": (interval, f"{LOOKS} evaluations in all"),
        "entropy_decay_interval": (interval, f"the entropy weight falls {LOOKS} times in all"),
        "annotations": ("use", "the traces come with a call structure") if annotated else None,
        "patience": (PATIENCE, "there are held-out traces to stop early by") if data.validation is not None else None,
    }
    return {name: choice for name, choice in suggestions.items() if choice is not None}


class GraphChoice(NamedTuple):
    """A call graph for traces of one's own, and why this one."""

    graph: str | dict[str, Any]
    reason: str


def suggested_call_graph(traces: Traces, annotated: bool = False) -> GraphChoice:
    """A call graph for traces of one's own.

    Args:
        traces: the training set.
        annotated: whether its annotations are used; the graph is then the one they show.
    """
    if annotated and traces.annotations is not None and traces.annotations.known.any():
        graph = annotated_graph(traces.annotations)
        return GraphChoice(graph, f"annotated (the {len(graph['procedures'])} procedures that the annotations name)")
    actions = len(traces.action_names)
    callees = min(MOST_CALLEES, max(2, actions), 3 if len(traces) < FEW_TRACES else MOST_CALLEES)
    levels = 3 if len(traces) >= MANY_TRACES else 2
    procedures = sum(callees**level for level in range(levels))
    spec = f"tree:{callees}x{levels}"
    return GraphChoice(spec, f"{spec} ({procedures} procedures, for {actions} actions and {len(traces)} traces)")


def annotated_graph(annotations: Annotations) -> dict[str, Any]:
    """The call graph that annotated stacks show: who called whom; every procedure may take every action."""
    stacks = annotations.stacks[annotations.known]
    calls: dict[int, set[int]] = {int(procedure): set() for procedure in np.unique(stacks[stacks >= 0])}
    for level in range(stacks.shape[1] - 1):
        pairs = stacks[stacks[:, level + 1] >= 0][:, level : level + 2]
        for caller, callee in {(int(a), int(b)) for a, b in pairs}:
            calls[caller].add(callee)
    names = annotations.procedures
    return {
        "root": names[int(stacks[0, 0])] if len(stacks) else ROOT,
        "procedures": {names[p]: {"calls": [names[c] for c in sorted(calls[p])]} for p in sorted(calls)},
    }


def _suggestions(
    data: Data,
    given: Mapping[str, Any],
    learner: str,
    earlier: Config | None,
    defaults: Literal["suggested", "fields"],
) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings that are not given but differ from the fields' defaults, and the reasons for them."""
    names = _names(LEARNERS[learner]) | _names(TrainingSettings)
    if earlier is not None and earlier.learner == learner:
        values = asdict(earlier.model) | asdict(earlier.training)
        return values, dict.fromkeys(values, "as the run began")
    if defaults == "fields":
        return {}, {}
    if data.task is not None:
        values = task_defaults(data.task, learner)
        return values, dict.fromkeys(values, f"the default for {data.task.name.partition(':')[0]}")
    choices = {name: choice for name, choice in own_data_defaults(data, given).items() if name in names}
    return {name: value for name, (value, _) in choices.items()}, {name: why for name, (_, why) in choices.items()}


def _graph(
    data: Data, given: GraphSpec | None, model: LearnerSettings, earlier: Config | None
) -> tuple[GraphSpec, str | None]:
    """The call graph, and why, if nobody gave one."""
    if given is not None:
        return given, None
    if earlier is not None:
        return earlier.graph, "as the run began"
    if data.task is not None:
        return data.task.default_call_graph, f"the default for {data.task.name.partition(':')[0]}"
    choice = suggested_call_graph(data.training, model.uses_annotations)
    return choice.graph, choice.reason


def _columns(inputs: Inputs) -> str:
    """How many columns of an observation are given to the networks in which way."""
    scaled = sum(pair != (0.0, 1.0) for pair in zip(inputs.means, inputs.scales, strict=True))
    counts = {"one-hot": sum(map(bool, inputs.values)), "standardised": scaled}
    counts["as they are"] = len(inputs.values) - sum(counts.values())
    return ", ".join(f"{count} {how}" for how, count in counts.items() if count)


def _names(kind: type) -> set[str]:
    return {entry.name for entry in fields(kind)}
