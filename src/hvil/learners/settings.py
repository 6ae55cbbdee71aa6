"""The settings of each learner and of the training loop: field, default, help text, flag and JSON have one source.

A learner's settings class says which learner it is for (`learner`) and where that learner's code is (`home`), so that a
user's own class does what ours do. This module imports nothing heavy: the command line reads it for `--help`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from hvil.data.streams import restart_seed
from hvil.gate.settings import setting

OWN_UPDATES = 5_000
"""Updates on data of one's own: enough for a few hundred traces. Early stopping usually ends the training sooner."""
OWN_EVALUATIONS = 20
"""Evaluations on data of one's own. The entropy weight falls as often: from 1 to less than 0.001."""
OWN_PATIENCE = 6
"""Evaluations without a better held-out likelihood before training on data of one's own stops."""


@dataclass(frozen=True)
class LearnerSettings:
    """What the settings of all learners have in common."""

    learner: ClassVar[str]
    """The learner's name: what `--model` takes."""
    home: ClassVar[str | Callable[[Any], Any]]
    """The learner's class as `module:class`, or the class itself; it is called with the `Config` of the run."""
    title: ClassVar[str] = ""
    """What the learner is, in a few words."""

    network: str = setting(
        "mlp",
        "network of a procedure, and encoder of observations: mlp, convnet (numbers beside an image join after its 50 "
        "units), convnet-early (before them), or one of yours",
    )
    curvature_price: float = setting(
        0.0,
        "price of treating neighbouring values of a number differently where it is given one-hot (value=0 … value=9), "
        "against a batch's summed cost",
        low=0,
    )

    @property
    def uses_annotations(self) -> bool:
        """Whether the learner reads the call structure that comes with the traces."""
        return False

    @property
    def has_procedures(self) -> bool:
        """Whether the learner has procedures on a call stack."""
        return False


@dataclass(frozen=True)
class ProcedureSettings(LearnerSettings):
    """The settings of learners whose policy is a set of procedures on a call stack.

    The policy is p(u | h, τ, last, o): procedure h chooses its step u from the observation o and its frame, that is,
    its counter τ and its last step. The cost of a step is c = D[q ‖ p] − w·H[q] + λ(min(τ, 3)/3)², with the price λ
    of long procedures. The entropy weight falls by w = w_∞ + (w_0 − w_∞) · decay^⌊update / interval⌋. With effects,
    p(∅ | h, …) in the cost is multiplied by p(o | h) to the power of their weight.
    """

    encoder: Literal["separate", "shared"] = setting(
        "separate", "the network that encodes observations: one for each procedure and the posterior, or one for all"
    )
    hidden: int = setting(100, "hidden units of each procedure", low=1, high=65536)
    frame_inputs: Literal["both", "counter", "last", "none"] = setting(
        "both", "what a procedure sees of its frame: its step counter, its last step, both or neither"
    )
    counter: str = setting(
        "raw",
        "what a procedure sees of its step counter τ, parts joined by +: raw; B/S for min(τ, B)/S; hotN for τ = 0 … N "
        "one-hot; stepN for τ ≥ 1 … τ ≥ N",
    )
    open_loop_leaves: bool = setting(
        False, "procedures that call no other see their frame only, no observations: fixed sequences of actions"
    )
    entropy_weight: float = setting(1.0, "initial weight of the posterior's entropy in the cost", low=0)
    entropy_decay: float = setting(0.7, "factor by which the entropy weight falls", low=0, high=1)
    entropy_decay_interval: int = setting(
        5000, "updates between two falls of the entropy weight", low=1, own=f"a {OWN_EVALUATIONS}th of the updates"
    )
    entropy_final: float = setting(
        0.0,
        "what the entropy weight falls to; below 0 the posterior is driven to one structure a trace",
        low=-1,
        high=1,
    )
    input_sparsity: float = setting(
        0.0, "group-lasso penalty on the input columns of the policy's procedures, against a batch's summed cost", low=0
    )
    field_sparsity: float = setting(
        0.0,
        "price of each field of the inputs that a procedure reads, against the cost of a trace; what is not worth it "
        "gets weight 0 exactly (a field is one value, whatever its one-hot columns)",
        low=0,
    )
    counter_price: float = setting(1.0, "how many times as much an input of the counter costs as another field", low=0)
    field_sparsity_ramp: int = setting(
        0, "updates in which the price of fields grows from 0; an exact start comes before", low=0
    )
    length_price: float = setting(
        0.0,
        "price of long procedures: what a step costs once its procedure has taken three steps (before, it costs less)",
        low=0,
    )
    effects: float = setting(
        0.0,
        "weight of effects: each procedure also predicts the observation with which it returns, from nothing but which "
        "procedure it is",
        low=0,
    )
    prune: bool = setting(
        False,
        "after the last update, set to 0 the weights of every input that a procedure can do without: all training "
        "traces that were right stay right",
    )
    longest_span: int = setting(
        0, "exact sums leave out call structures in which a procedure is active for more actions (0: none)", low=0
    )
    largest_counter: int = setting(
        0, "exact sums leave out call structures in which a procedure takes more steps than this (0: none)", low=0
    )
    annotations: Literal["ignore", "use"] = setting(
        "ignore", "call structure that comes with the data", own="use, if there is any"
    )
    action_mean: Literal["linear", "network"] = setting(
        "linear", "how a procedure's continuous action follows from what it sees: a linear law, or a hidden layer"
    )
    action_noise: float = setting(
        0.05, "smallest deviation of a continuous action from its mean, in units of its deviation in the data", low=1e-6
    )
    action_start: Literal["fitted", "random"] = setting(
        "fitted",
        "first linear laws of continuous actions: fitted to the traces, as laws that take turns, or random",
    )

    def entropy_weight_at(self, update: int) -> float:
        """The schedule w = w_∞ + (w_0 − w_∞) · decay^⌊update / interval⌋; the paper's has w_∞ = 0."""
        fallen = self.entropy_decay ** (update // self.entropy_decay_interval)
        return float(self.entropy_final + (self.entropy_weight - self.entropy_final) * fallen)

    @property
    def uses_annotations(self) -> bool:
        """Whether annotated steps are given instead of inferred."""
        return self.annotations == "use"

    @property
    def fits_first_laws(self) -> bool:
        """Whether linear laws of continuous actions are fitted to the traces first; annotations tell who acts."""
        return self.action_start == "fitted" and not self.uses_annotations

    @property
    def has_procedures(self) -> bool:
        """Yes."""
        return True


@dataclass(frozen=True)
class HvilSettings(ProcedureSettings):
    """HVIL: policy p and posterior q trained together on call structures that q samples.

    It minimises E_q[Σ_i c_i], a bound on −log p(x) for w = 0 and λ = 0 (paper, Algorithm 2). With an exact start, q in
    the first updates is not the network but the best posterior there is, and only short traces are drawn.
    """

    learner: ClassVar[str] = "hvil"
    home: ClassVar[str | Callable[[Any], Any]] = "hvil.learners.hvil:HvilLearner"
    title: ClassVar[str] = "procedures on a call stack, their calls inferred by a variational posterior"

    context: int = setting(32, "units of each direction of the posterior's LSTM", low=1, high=65536)
    posterior_sees: Literal["all", "no-future", "no-final"] = setting(
        "all",
        "what the posterior sees: the whole trace; only the past (a forward LSTM); or all but the last observation",
    )
    estimator: str = setting("rao-blackwell", "gradient estimator: rao-blackwell, analytic, score, or one of yours")
    samples: int = setting(
        1, "walks of each trace in an update: call structures that the posterior samples", low=1, high=1000
    )
    baseline: Literal["none", "others", "leave-one-out"] = setting(
        "none",
        "what the weights of the score are compared with: nothing, what the other traces cost, or what the other walks "
        "of the same trace cost (with one walk as `others`)",
    )
    exact_start: int = setting(
        0,
        "updates at the beginning in which only short traces are drawn and all their call structures are summed over: "
        "the policy learns from the sum, the posterior from samples of it",
        low=0,
    )
    exact_length: int = setting(50, "the longest trace of the exact start, in actions", low=1)


@dataclass(frozen=True)
class ExactSettings(ProcedureSettings):
    """The exact learner: the same policy, trained on the sum over all call structures of a trace.

    It minimises −(1 + w) log Σ_z (p(z, x) e^{−λΣf(τ)})^{1/(1 + w)}, f(τ) = (min(τ, 3)/3)². That is HVIL's objective at
    its best posterior; for w = 0 and λ = 0 it is −log p(x).
    """

    learner: ClassVar[str] = "exact"
    home: ClassVar[str | Callable[[Any], Any]] = "hvil.learners.exact_learner:ExactLearner"
    title: ClassVar[str] = "the same procedures, trained on the sum over all call structures; for short traces"


@dataclass(frozen=True)
class BaselineSettings(LearnerSettings):
    """The settings of policies with a memory of another kind, trained by maximum likelihood: −Σ_t log p(a_t | o_≤t)."""

    units: int = setting(64, "units of the memory and of the MLPs around it", low=1, high=65536)
    last_action: bool = setting(
        True, "the policy also sees the action before (on a task the lstm does not, as in the paper)"
    )
    action_noise: float = setting(
        0.05, "smallest deviation of a continuous action from its mean, in units of its deviation in the data", low=1e-6
    )


@dataclass(frozen=True)
class LstmSettings(BaselineSettings):
    """The paper's baseline: MLP or ConvNet, LSTM, MLP, softmax over the actions and ∅."""

    learner: ClassVar[str] = "lstm"
    home: ClassVar[str | Callable[[Any], Any]] = "hvil.learners.baselines:LstmLearner"
    title: ClassVar[str] = "a recurrent network, the paper's baseline"

    layers: int = setting(2, "layers of the LSTM", low=1, high=64)


@dataclass(frozen=True)
class FeedForwardSettings(BaselineSettings):
    """The same without memory: −Σ_t log p(a_t | o_t), or with the action before."""

    learner: ClassVar[str] = "feedforward"
    home: ClassVar[str | Callable[[Any], Any]] = "hvil.learners.baselines:FeedForwardLearner"
    title: ClassVar[str] = "a network without memory"


@dataclass(frozen=True)
class StackRnnSettings(BaselineSettings):
    """The same with a recurrent layer that has soft stacks."""

    learner: ClassVar[str] = "stackrnn"
    home: ClassVar[str | Callable[[Any], Any]] = "hvil.learners.baselines:StackRnnLearner"
    title: ClassVar[str] = "a recurrent network with soft stacks"


@dataclass(frozen=True)
class TrainingSettings:
    """The loop: how long, how fast, and when to look."""

    updates: int = setting(2000, "number of updates", low=0, own=str(OWN_UPDATES))
    batch_size: int = setting(10, "traces in a batch", low=1)
    learning_rate: float = setting(1e-3, "Adam's learning rate", low=0, high=10)
    cooldown: int = setting(0, "updates at the end in which the learning rate falls to 0 (0: it stays)", low=0)
    weight_decay: float = setting(1e-3, "Adam's weight decay", low=0)
    curriculum: int = setting(
        0, "updates until all traces are drawn; before, only the shortest, at first a quarter (0: all at once)", low=0
    )
    clip: float = setting(0.0, "largest norm of the gradient (0: no clipping)", low=0)
    average: float = setting(0.0, "decay of a running average of the weights, used at the end (0: none)", low=0, high=1)
    evaluate_every: int = setting(
        0,
        "updates between two evaluations (0: about ten in all)",
        low=0,
        own=f"a {OWN_EVALUATIONS}th of the updates",
    )
    patience: int = setting(
        0,
        "evaluations without a better held-out likelihood before training stops, the best kept (0: go on)",
        low=0,
        own=str(OWN_PATIENCE),
    )
    checkpoint_every: int = setting(0, "updates between two checkpoints (0: with each evaluation)", low=0)
    seed: int = setting(0, "seed of everything random", low=0, high=2**63 - 1)
    restarts: int = setting(
        1,
        "initialisations to try, on all processors; the one that describes the training traces best is kept",
        low=1,
        high=1000,
    )
    select: Literal["objective", "program"] = setting(
        "objective",
        "what decides between the last two restarts: the training objective, or the size of the programs they explain "
        "the training traces with",
    )
    restart: int = setting(
        0,
        "number of the (first) restart: other initial weights, order and samples on the same data",
        low=0,
        high=10_000,
    )
    threads: int = setting(1, "threads of the linear algebra; small matrices are fastest on one", low=1, high=1024)
    device: str = setting("cpu", "where the networks are computed: cpu or cuda")

    @property
    def weights_seed(self) -> int:
        """The seed of weights, order and samples. The data depend on `seed` alone, whatever the restart."""
        return restart_seed(self.seed, self.restart)
