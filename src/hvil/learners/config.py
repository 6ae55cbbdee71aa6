"""The configuration of a run: spaces, call graph, and the settings of learner, training and data.

It is saved as `config.json` in the run directory. Who decides the settings is `hvil.training.plan`.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hvil.data.action_scale import ActionScale
from hvil.data.effect_fields import EffectField, effect_fields, effect_fields_from_mapping
from hvil.data.inputs import Inputs
from hvil.data.matching import matched
from hvil.data.reading import ObservationReader, Reading
from hvil.data.settings import DataSettings
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.gate.settings import from_mapping, setting_names, to_mapping
from hvil.learners.registry import LEARNERS
from hvil.learners.settings import HvilSettings, LearnerSettings, ProcedureSettings, TrainingSettings
from hvil.machine.arrays import check_annotations
from hvil.machine.callgraph import CallGraph, call_graph

FORMAT = 2
"""Format 1 (version 0.1) kept the settings of all learners in one object; it is still read."""


@dataclass(frozen=True)
class Config:
    """One run's whole configuration."""

    action_names: tuple[str, ...]
    observation_names: tuple[str, ...]
    observation_shape: tuple[int, ...]
    graph: CallGraph
    model: Any = field(default_factory=HvilSettings)
    """The settings of the learner, an instance of its own class of `LearnerSettings`."""
    training: TrainingSettings = field(default_factory=TrainingSettings)
    task: str | None = None
    data: DataSettings = field(default_factory=DataSettings)
    inputs: Inputs | None = None
    """How observations are given to the networks; None: as they are."""
    reading: Reading | None = None
    """How the columns of a table became observations; None if they were numbers from the start."""
    effect_fields: tuple[EffectField, ...] = ()
    """What the effects of procedures are about; none if they have no weight."""
    actions: ActionScale | None = None
    """The numbers of continuous actions; None for discrete actions."""

    @staticmethod
    def of(
        traces: Traces,
        graph: str | Mapping[str, Any] | CallGraph,
        model: LearnerSettings | None = None,
        training: TrainingSettings | None = None,
        data: DataSettings | None = None,
        inputs: Inputs | None = None,
    ) -> "Config":
        """The configuration for a data set."""
        built = call_graph(graph, traces.action_names)
        built.check_actions(traces.actions)
        if model is not None and model.uses_annotations:
            check_annotations(built, traces)
        return Config(
            action_names=traces.action_names,
            observation_names=traces.observation_names,
            observation_shape=traces.observation_shape,
            graph=built,
            model=model or HvilSettings(),
            training=training or TrainingSettings(),
            task=traces.attributes.get("task"),
            data=data or DataSettings(),
            inputs=inputs,
            reading=traces.reading,
            actions=ActionScale.of(traces),
            effect_fields=_effect_fields(traces, inputs, model),
        )

    @property
    def learner(self) -> str:
        """The name of the learner."""
        return str(self.model.learner)

    @property
    def input_width(self) -> int:
        """How many numbers the networks see of an observation."""
        return math.prod(self.observation_shape) if self.inputs is None else self.inputs.width

    @property
    def reader(self) -> ObservationReader:
        """What turns the observations that a policy is given into numbers."""
        return ObservationReader(math.prod(self.observation_shape), self.observation_names, self.reading)

    def matched(self, traces: Traces, where: str = "the traces") -> Traces:
        """The traces in the model's own numbering; those that do not fit are an `InputError`."""
        fitting = matched(traces, self.action_names, self.observation_names, self.reading, where)
        self.check(fitting, where)
        return fitting

    def check(self, traces: Traces, where: str = "the traces") -> None:
        """Reject traces whose actions or observations are not the model's."""
        if traces.action_names != self.action_names:
            raise InputError(
                f"{where}: actions {', '.join(traces.action_names)}; the model has {', '.join(self.action_names)}"
            )
        own, theirs = (() if self.actions is None else self.actions.names), traces.vector_names
        if own != theirs:
            raise InputError(
                f"{where}: {_of_numbers(theirs)}; the model has {_of_numbers(own)}",
            )
        if traces.observation_shape != self.observation_shape:
            raise InputError(
                f"{where}: observations of shape {traces.observation_shape}; the model expects {self.observation_shape}"
            )

    def difference(self, other: "Config") -> str | None:
        """The first setting that makes the weights of two runs differ, in words; None if they must be the same."""
        own, theirs = _decisive(self), _decisive(other)
        for name in own:
            if name not in theirs:
                return name
            if own[name] != theirs[name]:
                short = max(len(str(own[name])), len(str(theirs[name]))) < 80
                return f"{name} ({own[name]} and {theirs[name]})" if short else name
        return None

    @property
    def digest(self) -> str:
        """A fingerprint of all that decides the weights beside the data."""
        text = json.dumps(_decisive(self), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def to_mapping(self) -> dict[str, Any]:
        """The form of `config.json`."""
        return {
            "format": FORMAT,
            "task": self.task,
            "action_names": list(self.action_names),
            "observation_names": list(self.observation_names),
            "observation_shape": list(self.observation_shape),
            "call_graph": self.graph.to_mapping(),
            "learner": self.learner,
            "model": to_mapping(self.model),
            "training": to_mapping(self.training),
            "data": to_mapping(self.data),
            **({} if self.inputs is None else {"inputs": self.inputs.to_mapping()}),
            **({} if self.reading is None else {"reading": self.reading.to_mapping()}),
            **({} if self.actions is None else {"actions": self.actions.to_mapping()}),
            **({"effect_fields": [field.to_mapping() for field in self.effect_fields]} if self.effect_fields else {}),
        }

    @staticmethod
    def from_mapping(value: Any, where: str) -> "Config":
        """Read `config.json`'s contents."""
        if not isinstance(value, Mapping) or value.get("format") not in (1, FORMAT):
            raise InputError(f"{where}: not a configuration of format {FORMAT}, or of the older format 1")
        names = _texts(value, "action_names", where)
        shape = value.get("observation_shape")
        if not isinstance(shape, list) or not all(isinstance(n, int) and 0 < n < 2**31 for n in shape):
            raise InputError(f"{where}: observation_shape must be a list of whole numbers")
        task = value.get("task")
        if not isinstance(task, str | None):
            raise InputError(f"{where}: task must be text")
        inputs = None
        if "inputs" in value:
            inputs = Inputs.from_mapping(value["inputs"], f"{where}: inputs")
            if len(inputs.values) != math.prod(shape):
                raise InputError(f"{where}: inputs of {len(inputs.values)} columns for observations of shape {shape}")
        observation_names = _texts(value, "observation_names", where)
        actions = ActionScale.from_mapping(value["actions"], f"{where}: actions") if "actions" in value else None
        width = math.prod(shape) if inputs is None else inputs.width
        return Config(
            action_names=names,
            observation_names=observation_names,
            observation_shape=tuple(shape),
            graph=_graph(value.get("call_graph"), names, where),
            model=_model(value, where),
            training=from_mapping(TrainingSettings, value.get("training"), f"{where}: training"),
            task=task,
            data=from_mapping(DataSettings, value.get("data", {}), f"{where}: data"),
            inputs=inputs,
            reading=_reading(value.get("reading"), observation_names, where),
            actions=actions,
            effect_fields=effect_fields_from_mapping(value.get("effect_fields", []), width, f"{where}: effect_fields"),
        )


def _of_numbers(names: tuple[str, ...]) -> str:
    """What actions are, in words."""
    return f"continuous actions {', '.join(names)}" if names else "discrete actions"


def _reading(value: Any, observation_names: tuple[str, ...], where: str) -> Reading | None:
    if value is None:
        return None
    reading = Reading.from_mapping(value, f"{where}: reading")
    if reading.names != observation_names:
        raise InputError(f"{where}: the reading gives {', '.join(reading.names)}, which are not the observation_names")
    return reading


def _model(value: Mapping[str, Any], where: str) -> LearnerSettings:
    """The learner's settings; of format 1 only those that the learner reads."""
    settings = value.get("model")
    if value["format"] == FORMAT:
        name = value.get("learner")
    else:
        name, settings = _of_format_1(settings, where)
    if not isinstance(name, str):
        raise InputError(f"{where}: learner must be a name")
    try:
        kind = LEARNERS[name]
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    return from_mapping(kind, settings, f"{where}: model")


def _of_format_1(settings: Any, where: str) -> tuple[Any, dict[str, Any]]:
    """The learner's name and its own settings out of the one object that format 1 had for all learners."""
    if not isinstance(settings, Mapping):
        raise InputError(f"{where}: model must be an object with settings")
    names = setting_names(*(LEARNERS[kind] for kind in LEARNERS.own)) | {"model", "counter_limit"}
    unknown = sorted(set(settings) - names)
    if unknown:
        raise InputError(f"{where}: model: unknown setting {unknown[0]!r}; known: {', '.join(sorted(names))}")
    name = settings.get("model", HvilSettings.learner)
    own = setting_names(LEARNERS[name]) if name in LEARNERS.own else set()
    values = {key: entry for key, entry in settings.items() if key in own}
    if "counter" in own and settings.get("counter_limit"):
        values["counter"] = f"raw+hot{settings['counter_limit']}"  # the one-hot form stood beside the raw counter
    return name, values


def _effect_fields(traces: Traces, inputs: Inputs | None, model: LearnerSettings | None) -> tuple[EffectField, ...]:
    """What the effects of procedures are about, if the settings give them a weight."""
    weighs = isinstance(model, ProcedureSettings) and model.effects > 0
    return effect_fields(traces, inputs, model.network) if weighs and model is not None else ()


def _decisive(config: Config) -> dict[str, Any]:
    """Every setting that decides the weights. How long and how often to look do not: a run may be prolonged."""
    mapping = config.to_mapping()
    del mapping["data"]
    for name in ("inputs", "actions", "reading", "effect_fields"):  # follow from the data, which is compared on its own
        mapping.pop(name, None)
    settings, training = mapping.pop("model"), mapping.pop("training")
    flat: dict[str, Any] = mapping | settings | training
    if config.actions is None:  # without continuous actions, nothing reads their settings
        for name in ("action_mean", "action_noise", "action_start"):
            flat.pop(name, None)
    for name in ("evaluate_every", "checkpoint_every"):
        del flat[name]
    if not flat["cooldown"]:  # else the number of updates decides when it begins
        del flat["cooldown"], flat["updates"]
    if not flat["patience"]:
        del flat["patience"]
    return flat


def _graph(value: Any, action_names: tuple[str, ...], where: str) -> CallGraph:
    try:
        return call_graph(value if isinstance(value, Mapping) else {}, action_names)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _texts(value: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    found = value.get(key)
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise InputError(f"{where}: {key} must be a list of names")
    return tuple(found)
