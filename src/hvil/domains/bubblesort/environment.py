"""Bubble sort as a Gymnasium environment: a list and two pointers. Pictures are drawn in `drawing`."""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hvil.data.tasks import terminate_action
from hvil.domains.bubblesort.teacher import (
    ACTIONS,
    DEFAULT_LENGTHS,
    LENGTH,
    LENGTH_SCALE,
    POINTER1_AT_END,
    POINTER2_AT_END,
    SWAP,
    VALUE2,
    VALUES,
    check_lengths,
    moved,
    observation_names,
)
from hvil.gate.errors import InputError


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
        """The list with its two pointers: three lines of text, or a picture."""
        from hvil.domains.bubblesort import drawing  # here, for a fast start: it loads Pillow

        if self.render_mode == "ansi":
            return drawing.print_list(self._numbers, self._pointer1, self._pointer2)
        if self.render_mode == "rgb_array":
            return drawing.draw_list(self._numbers, self._pointer1, self._pointer2)
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
