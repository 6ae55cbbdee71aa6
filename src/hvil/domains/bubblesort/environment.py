"""Bubble sort: a list, two pointers, and a teacher with six procedures that sorts it.

Here are the task and the environment; the teacher is in `hvil.domains.bubblesort.teacher`, the pictures in
`hvil.domains.drawing`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hvil.data.streams import random_generator
from hvil.data.tasks import Quantity, Task, terminate_action
from hvil.data.traces import Traces
from hvil.domains.bubblesort.teacher import (
    ACTIONS,
    CALL_GRAPH,
    LENGTH,
    LENGTH_SCALE,
    POINTER1_AT_END,
    POINTER2_AT_END,
    SWAP,
    VALUE2,
    VALUES,
    moved,
    observation_names,
    teach,
    teacher_length,
)
from hvil.gate.errors import InputError

DEFAULT_LENGTHS = (2, 10)


@dataclass(frozen=True)
class BubbleSortTask(Task):
    """Bubble sort of lists with `lengths[0]` to `lengths[1]` numbers, as a task with its teacher."""

    forms: ClassVar[str] = "bubblesort (bubblesort:no-length, bubblesort:2-20)"

    lengths: tuple[int, int] = DEFAULT_LENGTHS
    length_argument: bool = True

    def __post_init__(self) -> None:
        """Refuse ranges of lengths that hold no list to sort."""
        check_lengths(self.lengths)

    @classmethod
    def from_argument(cls, argument: str) -> "BubbleSortTask":
        """The task with the argument of `bubblesort:…`: nothing, `no-length`, a range `2-20`, or both."""
        lengths, length_argument = DEFAULT_LENGTHS, True
        for word in argument.split(",") if argument else ():
            low, dash, high = word.partition("-")
            if word == "no-length":
                length_argument = False
            elif dash and low.isdecimal() and high.isdecimal():
                lengths = int(low), int(high)
            else:
                raise InputError(
                    f"bubblesort:{argument}: expected no-length, a range of lengths such as 2-20, "
                    "or both with a comma between"
                )
        return cls(lengths, length_argument)

    @property
    def name(self) -> str:
        """`bubblesort`, with what differs from the defaults after a colon."""
        words = [] if self.length_argument else ["no-length"]
        if self.lengths != DEFAULT_LENGTHS:
            words.append(f"{self.lengths[0]}-{self.lengths[1]}")
        return ":".join(["bubblesort", *([",".join(words)] if words else [])])

    @property
    def action_names(self) -> tuple[str, ...]:
        """Moves of the two pointers, and swap."""
        return ACTIONS

    @property
    def observation_names(self) -> tuple[str, ...]:
        """22 numbers, and the length unless the argument is off."""
        return observation_names(self.length_argument)

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """The two numbers, whether a pointer is at an end, and the length."""
        found = (
            Quantity("value1", f"observation[..., :{VALUES}].argmax(-1)", "value"),
            Quantity("value2", f"observation[..., {VALUE2}:{POINTER2_AT_END}].argmax(-1)", "value"),
            Quantity("pointer1_at_end", f"observation[..., {POINTER1_AT_END}] > 0.5", "truth"),
            Quantity("pointer2_at_end", f"observation[..., {POINTER2_AT_END}] > 0.5", "truth"),
        )
        length = Quantity("length", f"np.rint(observation[..., {LENGTH}] * {LENGTH_SCALE:g})", "count")
        return (*found, length) if self.length_argument else found

    @property
    def default_call_graph(self) -> Mapping[str, Any]:
        """The shape of the teacher: six procedures on four levels."""
        return CALL_GRAPH

    @property
    def defaults(self) -> Mapping[str, Any]:
        """30 demonstrations, the paper's network sizes, and an entropy bonus that ends slightly below zero."""
        return {
            "demos": 30,
            "updates": 20_000,
            "hidden": 100,
            "entropy_weight": 0.3,
            "entropy_final": -0.01,
            "entropy_decay_interval": 1_000,
            "input_sparsity": 0.03,
            "layers": 4,
        }

    def demonstrations(self, count: int, seed: int, progress: Callable[[int], None] | None = None) -> Traces:
        """Teacher traces on random lists; the first traces of a larger count are those of a smaller one."""
        low, high = self.lengths
        draws = random_generator(seed).random((count, 1 + high))
        lengths = low + (draws[:, 0] * (high - low + 1)).astype(np.int64)
        lists = (draws[:, 1:] * VALUES).astype(np.int8)
        lists[np.arange(high) >= lengths[:, None]] = -1
        return teach(lists, lengths, self.length_argument, {"task": self.name}, progress)

    def environment(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        """`hvil/BubbleSort-v0` with this task's lists and a step limit beyond the teacher's longest trace."""
        return gymnasium.make(
            "hvil/BubbleSort-v0",
            max_episode_steps=max(400, teacher_length(range(self.lengths[1], 0, -1)).actions + 1),
            disable_env_checker=True,
            render_mode=render_mode,
            lengths=self.lengths,
            length_argument=self.length_argument,
        )

    def reset_options(self, traces: Traces, index: int) -> dict[str, Any]:
        """The list of trace `index`."""
        numbers = traces.metadata["list"][index]
        return {"list": numbers[numbers >= 0].tolist()}


def check_lengths(lengths: tuple[int, int]) -> None:
    """A range of lengths must be in order and begin at 2: one number is sorted by taking no action."""
    low, high = lengths
    if not 2 <= low <= high <= 1_000:
        raise InputError(f"lengths {low} to {high}: expected a range from at least 2 up to at most 1000")


class BubbleSortEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Sort a list of integers with two pointers.

    ## Description
    A list of n numbers from 0 to 9 (n uniform in 2..10, numbers uniform) and two pointers, both at the first
    cell. The task is to have the list in ascending order when the episode is terminated.

    ## Action space
    `Discrete(6)`: 0 `ptr1_left`, 1 `ptr1_right`, 2 `ptr2_left`, 3 `ptr2_right`, 4 `swap` (exchanges the
    numbers under the two pointers), 5 `terminate` (see `hvil.data.tasks`). A pointer at an end stays there.

    ## Observation space
    `Box` of 23 numbers: one-hot of the number under pointer 1 (10), whether pointer 1 is at either end (1),
    the same for pointer 2 (11), and n / 10, the task's argument (absent with `length_argument=False`).

    ## Starting state
    A random list. `reset(options={"list": [3, 1, 2]})` starts from the given one.

    ## Rewards
    1 for terminating on a sorted list, else 0.

    ## Episode end
    Terminated by the `terminate` action; `info["success"]` then says whether the list is sorted. Truncated by
    the step limit.

    ## Arguments
    `lengths=(2, 10)`: range of n. `length_argument=True`: whether the observation ends with the length.
    `render_mode`: `ansi` or `rgb_array`.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 10}  # noqa: RUF012 (Gymnasium's name)

    def __init__(
        self,
        render_mode: str | None = None,
        lengths: tuple[int, int] = DEFAULT_LENGTHS,
        length_argument: bool = True,
    ) -> None:
        check_lengths(lengths)
        self.render_mode = render_mode
        self.lengths = lengths
        high = np.ones(len(observation_names(length_argument)), np.float32)
        if length_argument:
            high[LENGTH] = lengths[1] / LENGTH_SCALE
        self.observation_space = gymnasium.spaces.Box(np.zeros_like(high), high, dtype=np.float32)
        self.action_space = gymnasium.spaces.Discrete(len(ACTIONS) + 1)
        self._numbers: list[int] = []
        self._pointer1 = self._pointer2 = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start with a random list, or with `options["list"]`."""
        super().reset(seed=seed)
        if options is not None and "list" in options:
            self._numbers = self._checked(options["list"])
        else:
            length = self.np_random.integers(self.lengths[0], self.lengths[1] + 1)
            self._numbers = self.np_random.integers(0, VALUES, size=length).tolist()
        self._pointer1 = self._pointer2 = 0
        return self._observation(), {}

    def step(self, action: np.int64 | int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Move a pointer, swap, or terminate."""
        if action == terminate_action(ACTIONS):
            success = all(a <= b for a, b in zip(self._numbers, self._numbers[1:], strict=False))
            return self._observation(), float(success), True, False, {"success": success}
        if action == SWAP:
            one, two = self._pointer1, self._pointer2
            self._numbers[one], self._numbers[two] = self._numbers[two], self._numbers[one]
        else:
            self._pointer1, self._pointer2 = moved(int(action), self._pointer1, self._pointer2, len(self._numbers))
        return self._observation(), 0.0, False, False, {}

    def render(self) -> Any:
        """The list with its two pointers: two lines of text, or a picture."""
        from hvil.domains.drawing import draw_list, print_list

        if self.render_mode == "ansi":
            return print_list(self._numbers, self._pointer1, self._pointer2)
        if self.render_mode == "rgb_array":
            return draw_list(self._numbers, self._pointer1, self._pointer2)
        return None

    def _checked(self, numbers: Any) -> list[int]:
        low, high = self.lengths
        if not low <= len(numbers) <= high:
            raise InputError(f"a list of length {len(numbers)}: expected {low} to {high} numbers")
        for number in numbers:
            if not isinstance(number, int | np.integer) or not 0 <= number < VALUES:
                raise InputError(f"{number!r} in the list: expected integers from 0 to {VALUES - 1}")
        return [int(number) for number in numbers]

    def _observation(self) -> NDArray[np.float32]:
        end = len(self._numbers) - 1
        observation = np.zeros(self.observation_space.shape or (), np.float32)
        observation[self._numbers[self._pointer1]] = 1.0
        observation[POINTER1_AT_END] = self._pointer1 in (0, end)
        observation[VALUE2 + self._numbers[self._pointer2]] = 1.0
        observation[POINTER2_AT_END] = self._pointer2 in (0, end)
        if len(observation) > LENGTH:
            observation[LENGTH] = len(self._numbers) / LENGTH_SCALE
        return observation
