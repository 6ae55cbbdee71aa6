"""The planner: the one place that decides a run's settings, with a reason for each one that the user did not give.

The command line, the library and a sweep's cell all plan here. The order of precedence is: what the user gives, what a
resumed run began with, what the task or the data suggest, the default of the setting.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from hvil.data.inputs import Inputs, is_image, may_be_image, suitable_inputs
from hvil.data.settings import DataSettings
from hvil.data.sources import Data, Source, address, names_task, task_from_source
from hvil.data.tasks import Task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.gate.settings import from_mapping, setting_names
from hvil.learners import LEARNERS
from hvil.learners.config import Config
from hvil.learners.settings import HvilSettings, LearnerSettings, TrainingSettings
from hvil.machine.callgraph import CallGraph, call_graph
from hvil.training.loop import intervals
from hvil.training.own_data import START_TRACES, annotated_graph, own_data_defaults, suggested_call_graph

GraphSpec = str | Mapping[str, Any] | CallGraph
"""A call graph as users give it: `tree:5x2`, `annotations`, a JSON file, a mapping, or the graph itself."""

ANNOTATED = "annotations"
"""The spec of the call graph that the annotations of the training traces show."""

START_LENGTH = 120
"""The longest trace, in actions, that an exact start is extended to; its sums cost time."""

AS_BEGUN = "as the run began"
"""The reason for a setting of a run that is resumed."""


@dataclass(frozen=True)
class Plan:
    """What a run will do, and why."""

    config: Config
    reasons: Mapping[str, str]
    """For each setting that the user did not give, why it has its value; `call_graph` and `inputs` are among them."""

    def settings(self) -> dict[str, Any]:
        """All settings by name, in the order of their classes."""
        config = self.config
        return {"model": config.learner, **asdict(config.data), **asdict(config.model), **asdict(config.training)}

    def lines(self, data: Data) -> list[str]:
        """What users with data of their own are told before the training starts, one line for each point."""
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
        if config.actions is not None:
            lines.append(f"continuous actions of {config.actions.width} number(s): {', '.join(config.actions.names)}")
        if data.task is None:
            lines += shape_lines(data.training, config.data.pictures)
        if config.reading is not None and config.reading.left_out:
            left_out = ", ".join(f"{column.name} ({column.why})" for column in config.reading.left_out)
            lines.append(f"left out: {left_out}; keep some with --observation-columns")
        if settings.patience:
            lines.append(
                f"at most {settings.updates} updates; evaluates every {intervals(settings).evaluation}, and stops when "
                f"the held-out likelihood has not improved {settings.patience} times in a row"
            )
        if settings.restarts > 1:
            lines.append(
                f"starts {settings.restarts} times, and keeps what describes the training traces best; --restarts 1 "
                "starts once"
            )
        return lines


def shape_lines(traces: Traces, pictures: str) -> list[str]:
    """How bytes in two or three dimensions are read, which may be pictures or not; nothing for other observations."""
    if not may_be_image(traces):
        return []
    shape = "×".join(map(str, traces.observation_shape))
    if is_image(traces, pictures):
        return [f"observations of {shape} bytes are read as pictures; --pictures no reads them as numbers"]
    return [f"observations of {shape} bytes are read as a grid of small numbers; --pictures yes reads them as pictures"]


def plan_data(source: Source, given: Mapping[str, Any], earlier: Config | None = None) -> DataSettings:
    """The settings that say which traces to load. They come first, because the rest of a plan needs the traces.

    Args:
        source: where the traces come from.
        given: the settings that the user gave; only those of `DataSettings` are read here.
        earlier: the configuration of a run that is resumed.
    """
    names = setting_names(DataSettings)
    values = {} if earlier is None else asdict(earlier.data)
    if earlier is None and names_task(source):
        values = {name: value for name, value in task_from_source(source).defaults.items() if name in names}
    values |= {name: value for name, value in given.items() if name in names}
    return from_mapping(DataSettings, values | {"source": address(source)}, "settings")


def make_plan(
    data: Data,
    given: Mapping[str, Any],
    graph_spec: GraphSpec | None = None,
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
        graph_spec: the call graph, if the user gave one.
        data_settings: what `plan_data` decided; recorded with the run.
        earlier: the configuration of a run that is resumed; settings that are not given stay as they were there.
        defaults: where settings come from that the user did not give: `suggested` takes what the task or the data
            suggest, `fields` the defaults of the fields. A sweep's cell takes the latter, because its record must keep
            its meaning when a task's defaults change.

    Raises:
        InputError: a setting is unknown, of the wrong type, out of range, or of another learner.
    """
    learner = str(given.get("model", HvilSettings.learner if earlier is None else earlier.learner))
    kind = LEARNERS[learner]
    refuse_unknown(given, learner)
    data_settings = data_settings or DataSettings()
    suggested, suggestion_reasons = _suggestions(data, given, learner, earlier, defaults)
    model, training = _settings(suggested | dict(given), kind)
    graph, graph_reason = _graph(data, graph_spec, model, earlier)
    if getattr(model, "exact_start", 0) and "exact_start" not in given and not any(graph.calls):
        model = from_mapping(kind, asdict(model) | {"exact_start": 0}, "settings")
        suggestion_reasons["exact_start"] = "no procedure calls another, so there is no structure to search for"
    # A task's observations and images are given to the networks as they are.
    inputs = (
        None
        if data.task is not None or model.network != "mlp"
        else suitable_inputs(data.training, data_settings.pictures)
    )
    known_reasons = _data_reasons(data, data_settings, earlier) | suggestion_reasons
    reasons = {name: known_reasons.get(name, "the default") for name in _given_names(kind) if name not in given}
    if graph_reason is not None:
        reasons["call_graph"] = graph_reason
    if inputs is not None:
        reasons["inputs"] = f"{_columns(inputs)}, by the values in the training traces"
    config = Config.of(data.training, graph, model=model, training=training, data=data_settings, inputs=inputs)
    return Plan(config=config, reasons=reasons)


def check_settings(given: Mapping[str, Any]) -> None:
    """Refuse unknown names and wrong values before any data are loaded; settings of other learners are allowed."""
    learner = str(given.get("model", HvilSettings.learner))
    of_learners = setting_names(*(LEARNERS[other] for other in LEARNERS.own)) | {"call_graph"}
    refuse_unknown({name: value for name, value in given.items() if name not in of_learners}, learner)
    _settings(given, LEARNERS[learner])


def _settings(values: Mapping[str, Any], kind: type[LearnerSettings]) -> tuple[LearnerSettings, TrainingSettings]:
    """The settings of learner and training; values of other settings are left out."""
    model = {name: value for name, value in values.items() if name in setting_names(kind)}
    training = {name: value for name, value in values.items() if name in setting_names(TrainingSettings)}
    return from_mapping(kind, model, "settings"), from_mapping(TrainingSettings, training, "settings")


def refuse_unknown(given: Mapping[str, Any], learner: str) -> None:
    """Refuse settings that neither learner, data nor training have; the error says which learners have them."""
    names = _given_names(LEARNERS[learner])
    for name in sorted(set(given) - names - {"source"}):
        owners = [other for other in LEARNERS.own if name in setting_names(LEARNERS[other])]
        if owners:
            raise InputError(f"{name} is a setting of {' and '.join(owners)}, not of {learner}")
        raise InputError(f"unknown setting {name!r}; known: {', '.join(sorted(names))}")


def task_defaults(task: Task, learner: str) -> dict[str, Any]:
    """What a task suggests for a learner: the settings of the paper, or better ones where we found some."""
    values = {"last_action": False} if learner == "lstm" else {}  # the paper's LSTM sees observations only
    names = setting_names(LEARNERS[learner], TrainingSettings)
    suggested = {**values, **task.defaults, **task.defaults.get(learner, {})}
    return {name: value for name, value in suggested.items() if name in names}


def _suggestions(
    data: Data,
    given: Mapping[str, Any],
    learner: str,
    earlier: Config | None,
    defaults: Literal["suggested", "fields"],
) -> tuple[dict[str, Any], dict[str, str]]:
    """Values for settings of learner and training, to take where the user gave none, and the reasons for them."""
    if earlier is not None and earlier.learner == learner:
        values = asdict(earlier.model) | asdict(earlier.training)
        return values, dict.fromkeys(values, AS_BEGUN)
    if defaults == "fields" or data.task is not None:
        values = task_defaults(data.task, learner) if defaults == "suggested" and data.task is not None else {}
        reasons = {} if data.task is None else dict.fromkeys(values, _default_for(data.task))
        fitted = _fitted_search(values, data.training, given)
        values |= {name: value for name, (value, _) in fitted.items()}
        return values, reasons | {name: reason for name, (_, reason) in fitted.items()}
    choices = own_data_defaults(data, given, learner)
    choices |= _fitted_search({name: value for name, (value, _) in choices.items()}, data.training, given)
    return {name: value for name, (value, _) in choices.items()}, {name: why for name, (_, why) in choices.items()}


def _fitted_search(values: Mapping[str, Any], traces: Traces, given: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    """What a task suggests for the search of a structure and does not fit here: other values, and the reasons."""
    no_search = {name: none for name, none in (("exact_start", 0), ("restarts", 1)) if name in values}
    if given.get("annotations") == "use":
        reason = "the call structure is given, so there is nothing to search for"
        return {name: (none, reason) for name, none in no_search.items()}
    updates = int({"updates": TrainingSettings.updates, **values, **given}["updates"])
    if updates <= values.get("exact_start", 0):
        reason = f"{updates} updates are too few for a search"
        return {name: (none, reason) for name, none in no_search.items()}
    if not {**values, **given}.get("exact_start"):
        return {}
    longest = int({"exact_length": HvilSettings.exact_length, **values, **given}["exact_length"])
    lengths = np.sort(traces.lengths)
    if "exact_length" not in given and np.searchsorted(lengths, longest, side="right") < START_TRACES:
        needed = int(lengths[:START_TRACES][-1])
        if needed <= START_LENGTH:
            return {"exact_length": (needed, f"the {START_TRACES} shortest traces; few have at most {longest} actions")}
    if lengths[0] > longest:
        return {"exact_start": (0, f"no trace has at most {longest} actions, so there is nothing to start with")}
    return {}


def _data_reasons(data: Data, settings: DataSettings, earlier: Config | None) -> dict[str, str]:
    """Why the choice of learner and the settings that `plan_data` decided are not the fields' defaults."""
    if earlier is not None:
        return dict.fromkeys(setting_names(DataSettings) | {"model"}, AS_BEGUN)
    if data.task is not None and names_task(settings.source):
        return dict.fromkeys(setting_names(DataSettings) & data.task.defaults.keys(), _default_for(data.task))
    return {}


def _default_for(task: Task) -> str:
    return f"the default for {task.name.partition(':')[0]}"


def _graph(
    data: Data, given: GraphSpec | None, model: LearnerSettings, earlier: Config | None
) -> tuple[CallGraph, str | None]:
    """The call graph, and the reason for it if the user gave none."""
    spec, reason = given, None
    if spec is None and earlier is not None:
        spec, reason = earlier.graph, AS_BEGUN
    elif spec is None and data.task is not None:
        spec, reason = data.task.default_call_graph, _default_for(data.task)
    elif spec is None:
        spec, reason = suggested_call_graph(data.training, model.uses_annotations)
    elif spec == ANNOTATED:
        annotations = data.training.annotations
        if annotations is None or not annotations.known.any():
            raise InputError(f"call graph {ANNOTATED!r}: the traces have no annotations that could show one")
        spec = annotated_graph(annotations)
    return call_graph(spec, data.training.action_names), reason


def _columns(inputs: Inputs) -> str:
    """How many columns of an observation the networks get in each of the three ways, in words."""
    scaled = sum(pair != (0.0, 1.0) for pair in zip(inputs.means, inputs.scales, strict=True))
    counts = {"one-hot": sum(map(bool, inputs.values)), "standardised": scaled}
    counts["as they are"] = len(inputs.values) - sum(counts.values())
    return ", ".join(f"{count} {how}" for how, count in counts.items() if count)


def _given_names(kind: type[LearnerSettings]) -> set[str]:
    """The names of all settings that a user may give for this learner; the source is no setting but an argument."""
    return (setting_names(kind, TrainingSettings, DataSettings) | {"model"}) - {"source"}
