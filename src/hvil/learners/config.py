"""Everything that determines a run beside its data: what the model is, how it is trained. Saved as JSON with it."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hvil.data.inputs import Inputs
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.gate.settings import from_mapping, setting, to_mapping
from hvil.machine.arrays import guide
from hvil.machine.callgraph import CallGraph, call_graph

FORMAT = 1


@dataclass(frozen=True)
class ModelSettings:
    """The learner: its networks and its objective."""

    model: Literal["hvil", "exact", "lstm", "feedforward", "stackrnn"] = setting("hvil", "the learner")
    network: Literal["mlp", "convnet"] = setting("mlp", "network of a procedure, and encoder of observations")
    encoder: Literal["separate", "shared"] = setting(
        "separate", "the ConvNet that sees images: one for each procedure and the posterior, or one for all of them"
    )
    hidden: int = setting(100, "hidden units of each procedure", low=1, high=65536)
    frame_inputs: Literal["both", "counter", "last", "none"] = setting(
        "both", "what a procedure sees of its frame: its step counter, its last step, both or neither"
    )
    counter_limit: int = setting(0, "counters up to this number are also given one-hot (0: only raw)", low=0, high=1000)
    context: int = setting(32, "units of each direction of the posterior's LSTM", low=1, high=65536)
    open_loop_leaves: bool = setting(
        False, "procedures that call no other see their frame only, no observations: fixed sequences of actions"
    )
    posterior_sees: Literal["all", "no-future", "no-final"] = setting(
        "all",
        "what the posterior sees: the whole trace; only the past (a forward LSTM); or all but the last observation",
    )
    estimator: Literal["rao-blackwell", "analytic", "score"] = setting("rao-blackwell", "gradient estimator")
    entropy_weight: float = setting(1.0, "initial weight of the posterior's entropy in the cost", low=0)
    entropy_decay: float = setting(0.7, "factor by which the entropy weight falls", low=0, high=1)
    entropy_decay_interval: int = setting(5000, "updates between two falls of the entropy weight", low=1)
    entropy_final: float = setting(
        0.0,
        "what the entropy weight falls to; below 0 the posterior is driven to one structure a trace",
        low=-1,
        high=1,
    )
    input_sparsity: float = setting(
        0.0, "group-lasso penalty on the input columns of the policy's procedures, against a batch's summed cost", low=0
    )
    longest_span: int = setting(
        0, "exact learner: leave out call structures in which a procedure is active for more actions (0: none)", low=0
    )
    largest_counter: int = setting(
        0, "exact learner: leave out call structures in which a procedure takes more steps (0: none)", low=0
    )
    annotations: Literal["ignore", "use"] = setting("ignore", "call structure that comes with the data")
    units: int = setting(64, "units of a recurrent baseline and of the MLPs around it", low=1, high=65536)
    layers: int = setting(2, "layers of the LSTM baseline", low=1, high=64)
    last_action: bool = setting(True, "a baseline also sees the action before")


@dataclass(frozen=True)
class TrainingSettings:
    """The loop: how long, how fast, and when to look."""

    updates: int = setting(2000, "number of updates", low=0)
    batch_size: int = setting(10, "traces in a batch", low=1)
    learning_rate: float = setting(1e-3, "Adam's learning rate", low=0)
    weight_decay: float = setting(1e-3, "Adam's weight decay", low=0)
    clip: float = setting(0.0, "largest norm of the gradient (0: no clipping)", low=0)
    average: float = setting(0.0, "decay of a running average of the weights, used at the end (0: none)", low=0, high=1)
    evaluate_every: int = setting(0, "updates between two evaluations (0: about ten in all)", low=0)
    patience: int = setting(
        0, "evaluations without a better held-out likelihood before training stops, the best kept (0: go on)", low=0
    )
    checkpoint_every: int = setting(0, "updates between two checkpoints (0: with each evaluation)", low=0)
    seed: int = setting(0, "seed of everything random", low=0, high=2**63 - 1)
    threads: int = setting(1, "threads of the linear algebra; small matrices are fastest on one", low=1, high=1024)
    device: str = setting("cpu", "where the networks are computed: cpu or cuda")


@dataclass(frozen=True)
class DataSettings:
    """Which traces a run is trained and tested on; recorded with it, so that they can be found again."""

    source: str = setting("", "a task, an .npz, .parquet or .csv file, or minari:ID; empty: traces given from Python")
    demos: int = setting(0, "training traces (0: of a file all but the test traces)", low=0)
    test_traces: int = setting(500, "test traces", low=0)
    validation: float = setting(0.1, "share of a file's training traces held out for early stopping", low=0, high=0.5)
    stream: Literal["auto", "yes", "no"] = setting(
        "auto", "train from a Parquet file of ours a few row groups at a time (auto: if it is larger than 1 GB)"
    )
    trace_column: str = setting("trace", "column of a Parquet or CSV file that says which trace a row belongs to")
    step_column: str = setting("step", "column with the order of a trace's rows (may be missing)")
    action_column: str = setting("action", "column with the action")
    observation_columns: str = setting(
        "", "columns with the observation, separated by commas (empty: all named observation.NAME)"
    )
    annotation_column: str = setting(
        "stack", "column with the call structure: lists of procedure names, or labels of segments"
    )
    annotated_fraction: float = setting(
        1.0, "fraction of the training traces that keep the call structure they came with", low=0, high=1
    )


@dataclass(frozen=True)
class Config:
    """One run's whole configuration."""

    action_names: tuple[str, ...]
    observation_names: tuple[str, ...]
    observation_shape: tuple[int, ...]
    graph: CallGraph
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    task: str | None = None
    data: DataSettings = field(default_factory=DataSettings)
    inputs: Inputs | None = None
    """How observations are given to the networks; None: as they are."""

    @staticmethod
    def of(
        traces: Traces,
        graph: str | Mapping[str, Any] | CallGraph,
        model: ModelSettings | None = None,
        training: TrainingSettings | None = None,
        data: DataSettings | None = None,
        inputs: Inputs | None = None,
    ) -> "Config":
        """The configuration for a data set."""
        built = call_graph(graph, traces.action_names)
        built.check_actions(traces.actions)
        if model is not None and model.annotations == "use":
            guide(built, traces)  # a structure that the graph does not allow is refused before anything begins
        return Config(
            traces.action_names,
            traces.observation_names,
            traces.observation_shape,
            built,
            model or ModelSettings(),
            training or TrainingSettings(),
            traces.attributes.get("task"),
            data or DataSettings(),
            inputs,
        )

    @property
    def input_width(self) -> int:
        """How many numbers the networks see of an observation."""
        return math.prod(self.observation_shape) if self.inputs is None else self.inputs.width

    @property
    def input_names(self) -> tuple[str, ...]:
        """A name for each of them; none if the columns have none and are given as they are."""
        return self.observation_names if self.inputs is None else self.inputs.names(self.observation_names)

    def check(self, traces: Traces, where: str = "the traces") -> None:
        """Reject traces whose actions or observations are not the model's."""
        if traces.action_names != self.action_names:
            raise InputError(
                f"{where}: actions {', '.join(traces.action_names)}; the model has {', '.join(self.action_names)}"
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
            "model": to_mapping(self.model),
            "training": to_mapping(self.training),
            "data": to_mapping(self.data),
            **({} if self.inputs is None else {"inputs": self.inputs.to_mapping()}),
        }

    @staticmethod
    def from_mapping(value: Any, where: str) -> "Config":
        """Read `config.json`'s contents."""
        if not isinstance(value, Mapping) or value.get("format") != FORMAT:
            raise InputError(f"{where}: not a configuration of format {FORMAT}")
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
        return Config(
            names,
            _texts(value, "observation_names", where),
            tuple(shape),
            _graph(value.get("call_graph"), names, where),
            from_mapping(ModelSettings, value.get("model"), f"{where}: model"),
            from_mapping(TrainingSettings, value.get("training"), f"{where}: training"),
            task,
            from_mapping(DataSettings, value.get("data", {}), f"{where}: data"),
            inputs,
        )


def _decisive(config: Config) -> dict[str, Any]:
    """Every setting that decides the weights. How long and how often to look do not: a run may be prolonged."""
    mapping = config.to_mapping()
    del mapping["data"]
    mapping.pop("inputs", None)  # follow from the data, which is compared on its own
    model, training = mapping.pop("model"), mapping.pop("training")
    flat: dict[str, Any] = mapping | model | training
    for name in ("updates", "evaluate_every", "checkpoint_every", *(() if flat["patience"] else ("patience",))):
        del flat[name]
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
