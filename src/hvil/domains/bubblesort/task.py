"""Bubble sort as a task: demonstrations of its teacher on random lists, and the environment to try a policy in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np

from hvil.data.streams import random_generator
from hvil.data.tasks import STRUCTURE_SEARCH, Quantity, Task
from hvil.data.traces import Traces
from hvil.domains.bubblesort.teacher import (
    ACTIONS,
    CALL_GRAPH,
    DEFAULT_LENGTHS,
    LENGTH,
    LENGTH_SCALE,
    POINTER1_AT_END,
    POINTER2_AT_END,
    VALUE2,
    VALUES,
    check_lengths,
    observation_names,
    teach,
    teacher_length,
)
from hvil.gate.errors import InputError


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
        at_pointers = (
            Quantity("value1", f"observation[..., :{VALUES}].argmax(-1)", "value"),
            Quantity("value2", f"observation[..., {VALUE2}:{POINTER2_AT_END}].argmax(-1)", "value"),
            Quantity("pointer1_at_end", f"observation[..., {POINTER1_AT_END}] > 0.5", "truth"),
            Quantity("pointer2_at_end", f"observation[..., {POINTER2_AT_END}] > 0.5", "truth"),
        )
        length = Quantity("length", f"np.rint(observation[..., {LENGTH}] * {LENGTH_SCALE:g})", "count")
        return (*at_pointers, length) if self.length_argument else at_pointers

    @property
    def default_call_graph(self) -> Mapping[str, Any]:
        """The shape of the teacher: six procedures on four levels."""
        return CALL_GRAPH

    @property
    def defaults(self) -> Mapping[str, Any]:
        """30 demonstrations, the paper's network sizes, and an entropy bonus that ends slightly below zero.

        HVIL begins with exact sums over the call structures of lists of up to four numbers, has a price for long
        procedures and for inputs, and keeps the best of eight restarts. What each of these does on the development
        sets is in docs/training.md.
        """
        return {
            "demos": 30,
            "updates": 20_000,
            "hidden": 100,
            "entropy_weight": 0.3,
            "entropy_final": -0.01,
            "entropy_decay_interval": 1_000,
            "input_sparsity": 0.03,
            "layers": 4,
            "hvil": {
                **STRUCTURE_SEARCH,
                "updates": 1_000,
                "curriculum": 500,
                "counter": "20/10",
                "length_price": 1.0,
                "curvature_price": 10.0,
                "restarts": 8,
            },
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
