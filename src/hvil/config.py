"""Everything that determines a run beside its data: what the model is, how it is trained. Saved as JSON with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hvil.callgraph import CallGraph, call_graph
from hvil.errors import InputError
from hvil.settings import from_mapping, setting, to_mapping
from hvil.traces import Traces

FORMAT = 1


@dataclass(frozen=True)
class ModelSettings:
    """The learner: its networks and its objective."""

    model: Literal["hvil", "exact", "lstm", "feedforward", "stackrnn"] = setting("hvil", "the learner")
    network: Literal["mlp", "convnet"] = setting("mlp", "network of a procedure, and encoder of observations")
    hidden: int = setting(100, "hidden units of each procedure", low=1, high=65536)
    frame_inputs: Literal["both", "counter", "last", "none"] = setting(
        "both", "what a procedure sees of its frame: its step counter, its last step, both or neither"
    )
    counter_limit: int = setting(0, "counters up to this number are also given one-hot (0: only raw)", low=0, high=1000)
    context: int = setting(32, "units of each direction of the posterior's LSTM", low=1, high=65536)
    posterior_sees: Literal["all", "no-future", "no-final"] = setting(
        "all",
        "what the posterior sees: the whole trace; only the past (a forward LSTM); or all but the last observation",
    )
    estimator: Literal["rao-blackwell", "analytic", "score"] = setting("rao-blackwell", "gradient estimator")
    entropy_weight: float = setting(1.0, "initial weight of the posterior's entropy in the cost", low=0)
    entropy_decay: float = setting(0.7, "factor by which the entropy weight falls", low=0, high=1)
    entropy_decay_interval: int = setting(5000, "updates between two falls of the entropy weight", low=1)
    input_sparsity: float = setting(0.0, "group-lasso penalty on the input columns of the policy's procedures", low=0)
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
    checkpoint_every: int = setting(0, "updates between two checkpoints (0: with each evaluation)", low=0)
    seed: int = setting(0, "seed of everything random", low=0, high=2**63 - 1)
    threads: int = setting(1, "threads of the linear algebra; small matrices are fastest on one", low=1, high=1024)
    device: str = setting("cpu", "where the networks are computed: cpu or cuda")


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

    @staticmethod
    def of(
        traces: Traces,
        graph: str | Mapping[str, Any] | CallGraph,
        model: ModelSettings | None = None,
        training: TrainingSettings | None = None,
    ) -> "Config":
        """The configuration for a data set."""
        built = call_graph(graph, traces.action_names)
        built.check_actions(traces.actions)
        return Config(
            traces.action_names,
            traces.observation_names,
            traces.observation_shape,
            built,
            model or ModelSettings(),
            training or TrainingSettings(),
            traces.attributes.get("task"),
        )

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
        return Config(
            names,
            _texts(value, "observation_names", where),
            tuple(shape),
            call_graph(value["call_graph"] if isinstance(value.get("call_graph"), Mapping) else {}, names),
            from_mapping(ModelSettings, value.get("model"), f"{where}: model"),
            from_mapping(TrainingSettings, value.get("training"), f"{where}: training"),
            task,
        )


def _texts(value: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    found = value.get(key)
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise InputError(f"{where}: {key} must be a list of names")
    return tuple(found)
