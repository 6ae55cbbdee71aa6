"""Tasks: what every domain offers to the rest (`Task`), and the registry by which a TASK string names one.

The domains themselves are in `hvil.domains` or in other packages. This module imports none of them before it is asked
for one, so that data does not depend on domains.

The terminate signal. A program ends by an explicit step, the paper's `∅`. In stored traces it is implied: a
trace has T actions and T+1 observations, and `∅` follows the last observation. In an environment it is the
last action: with the A actions of a domain the action space is `Discrete(A + 1)`, and action number A
(`terminate_action`) ends the episode: `terminated` is true, nothing in the world changes, and
`info["success"]` says whether the task was done. The reward is 1.0 at a successful end and 0.0 at every other
step. A crash ends the episode too, without success.

Letters: R rows (observations), D numbers of a flat observation.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Num

from hvil.data.streams import independent_seed
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.gate.registry import Registry

if TYPE_CHECKING:
    import gymnasium


STRUCTURE_SEARCH: Mapping[str, Any] = {
    "learning_rate": 0.003,
    "entropy_weight": 0.3,
    "entropy_final": -0.01,
    "entropy_decay_interval": 20,
    "input_sparsity": 0.1,
    "samples": 2,
    "baseline": "leave-one-out",
    "counter": "hot4+20/10",
    "length_price": 0.3,
    "exact_start": 200,
    "exact_length": 50,
    "largest_counter": 12,
    "longest_span": 20,
    "prune": True,
    "restarts": 4,
}
"""Settings of HVIL that find the structure of programs: sums over all call structures of short traces at first, prices
for long procedures and for inputs, the best of some restarts (docs/training.md says what each of them does).

They were chosen on the development sets of Karel; a task may differ from them where its own development sets say so."""


def terminate_action(action_names: Sequence[str]) -> int:
    """The number of the terminate action in the environment of a domain with these actions: the last one."""
    return len(action_names)


class Quantity(NamedTuple):
    """Something that a task's observation says, in the words of a reader: `front_is_clear`, `value1`, `length`."""

    name: str
    expression: str
    """Python over `observation` (one, or any number of them along the first axes), for programs that are written."""
    kind: str
    """`truth`; `number`; `count` (a whole number that steps may be counted against); any other word: whole numbers
    that may be compared with others of the same word."""
    categories: tuple[str, ...] = ()
    """Words for the values 0, 1, …, if it stands for one of some texts."""

    def of(self, observations: Num[np.ndarray, "R D"]) -> Float[np.ndarray, "R"]:
        """Its value at each observation."""
        # The expressions stand in our own source, next to the observations that they read.
        value = eval(self.expression, {"observation": observations, "np": np})
        return np.asarray(value, dtype=np.float64)


@runtime_checkable
class Task(Protocol):
    """A domain with its teacher: where demonstrations come from, and where a policy is tried."""

    @property
    def name(self) -> str:
        """The TASK string, such as `karel:F`."""

    @property
    def contents(self) -> str:
        """What the name leaves open: the program, if the name is that of a file."""
        return ""

    @property
    def action_names(self) -> tuple[str, ...]:
        """The actions in the order of their numbers, without the terminate signal."""

    @property
    def observation_names(self) -> tuple[str, ...]:
        """One name a column of a flat observation; empty for images."""

    @property
    def default_call_graph(self) -> str | Mapping[str, Any]:
        """The call graph to learn when the user names none, as `hvil.machine.callgraph` reads it."""

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Settings that suit this task, by their names; whatever a user gives overrides them.

        Under the name of a learner stands a mapping of settings that hold for that learner alone.
        """
        return {}

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """What a flat observation says, for people who read a learned program; by default its columns."""
        return ()

    def demonstrations(self, count: int, seed: int, progress: Callable[[int], None] | None = None) -> Traces:
        """Teacher traces, annotated where the teacher has a call structure; the same seed, the same arrays.

        Args:
            count: how many traces.
            seed: of the random generator.
            progress: called now and then with the number of traces that are ready.
        """

    def test_demonstrations(self, count: int, seed: int, progress: Callable[[int], None] | None = None) -> Traces:
        """Traces to test on: other draws of the same teacher, unless a domain has test data of its own."""
        return self.demonstrations(count, independent_seed(seed), progress)

    def environment(self, render_mode: str | None = None) -> "gymnasium.Env[Any, Any]":
        """The environment itself, without Gymnasium's checking wrappers (they cost most of a step)."""

    def reset_options(self, traces: Traces, index: int) -> dict[str, Any]:
        """Options for `environment.reset` that restore the initial state of trace `index`."""


class Domain(Protocol):
    """A kind of task. The class of its tasks is the usual one: a class attribute and a class method are enough."""

    @property
    def forms(self) -> str:
        """The TASK strings of this domain, for lists of valid tasks: `karel:A to karel:F, karel:FILE`."""

    def from_argument(self, argument: str) -> Task:
        """The task with this argument.

        Args:
            argument: what stands after the colon of a TASK string; empty if there is no colon.

        Raises:
            InputError: there is no such task; the message says what would be right.
        """


DOMAINS: Registry[Domain] = Registry(
    "domain",
    {
        "bubblesort": "hvil.domains.bubblesort:BubbleSortTask",
        "karel": "hvil.domains.karel:KarelTask",
        "mnist-parity": "hvil.domains.mnist_parity:MnistParityTask",
        "thereandback": "hvil.domains.thereandback:ThereAndBackTask",
        "treewalk": "hvil.domains.treewalk:TreeWalkTask",
    },
)
"""All domains by the word before the colon of a TASK string."""


class UnknownTask(InputError):
    """A TASK string names no domain."""


def find_task(spec: str) -> Task:
    """The task that a TASK string names: a domain's name, and perhaps a colon and an argument.

    Raises:
        UnknownTask: no such domain; the message lists the valid tasks.
        InputError: the domain refuses the argument.
    """
    name, colon, argument = spec.partition(":")
    if name not in DOMAINS.names() or (colon and not argument):
        raise UnknownTask(f"{spec!r}: no such task; valid tasks: {valid_tasks()}")
    return DOMAINS[name].from_argument(argument)


def valid_tasks() -> str:
    """The TASK strings of all domains, in one line."""
    return ", ".join(DOMAINS[name].forms for name in DOMAINS.names())
