"""What every domain offers (`Task`), and how a TASK string of the command line names one (`task`).

The terminate signal is documented here, for all domains. The domains themselves live in their own rooms and
are imported only when asked for.

The terminate signal. A program ends by an explicit step, the paper's `∅`. In stored traces it is implied: a
trace has T actions and T+1 observations, and `∅` follows the last observation. In an environment it is the
last action: with the A actions of a domain the action space is `Discrete(A + 1)`, and action number A
(`terminate_action`) ends the episode: `terminated` is true, nothing in the world changes, and
`info["success"]` says whether the task was done. The reward is 1.0 at a successful end and 0.0 at every other
step. A crash ends the episode too, without success.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import gymnasium
import numpy as np
from jaxtyping import Float, Num

from hvil.data.streams import Stream
from hvil.data.traces import Traces
from hvil.gate.errors import InputError

TERMINATE = "terminate"
"""The name of the extra action of every environment (the paper's `∅`)."""

VALID_TASKS = (
    "bubblesort (bubblesort:no-length, bubblesort:2-20), karel:A to karel:F, karel:FILE (a Karel program), "
    "mnist-parity:P (such as mnist-parity:0.7, mnist-parity:0.7,full)"
)


def terminate_action(action_names: Sequence[str]) -> int:
    """The number of the terminate action in the environment of a domain with these actions: the last one."""
    return len(action_names)


def random_generator(seed: int) -> np.random.Generator:
    """The generator of a seed; a negative seed is an `InputError`."""
    if seed < 0:
        raise InputError(f"seed {seed}: expected 0 or more")
    return np.random.default_rng(seed)


def independent_seed(seed: int) -> int:
    """A seed for test traces, so that they are independent of the training traces of the same seed."""
    if seed < 0:
        raise InputError(f"seed {seed}: expected 0 or more")
    return int(np.random.SeedSequence([seed, Stream.TEST_TRACES]).generate_state(1, np.uint64)[0])


class Quantity(NamedTuple):
    """Something that a task's observation says, in the words of a reader: `front_is_clear`, `value1`, `length`."""

    name: str
    expression: str
    """Python over `observation` (one, or any number of them along the first axes), for programs that are written."""
    kind: str
    """`truth`; `number`; `count` (a whole number that steps may be counted against); any other word: whole numbers
    that may be compared with others of the same word."""

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


def task(spec: str) -> Task:
    """The task that a TASK string names.

    Raises:
        InputError: no such task (the message lists the valid ones), or its argument is wrong.
    """
    kind, colon, argument = spec.partition(":")
    if kind == "bubblesort" and (argument or not colon):
        from hvil.domains.bubblesort.environment import BubbleSortTask

        return BubbleSortTask.from_argument(argument) if argument else BubbleSortTask()
    if kind == "karel" and argument:
        from hvil.domains.karel import KarelTask

        return KarelTask(argument)
    if kind == "mnist-parity" and argument:
        from hvil.domains.mnist_parity.environment import MnistParityTask

        return MnistParityTask.from_argument(argument)
    raise InputError(f"{spec!r}: no such task; valid tasks: {VALID_TASKS}")
