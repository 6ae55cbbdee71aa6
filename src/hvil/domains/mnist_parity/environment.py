"""MNIST parity as a Gymnasium environment. Images are loaded in `digits`, pictures are drawn in `drawing`."""

import os
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hvil.data.tasks import terminate_action
from hvil.domains.mnist_parity.digits import Digits, Split, digits
from hvil.domains.mnist_parity.observations import (
    ACTIONS,
    DIGITS,
    SIDE,
    digit_observations,
    image_observations,
    normalised,
)
from hvil.gate.errors import InputError


class MnistParityEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Say whether a handwritten digit is even or odd.

    ## Description
    The first observation is an image of a digit. After the action the digit itself is shown, and the program has to
    terminate.

    ## Action space
    `Discrete(3)`: 0 `even`, 1 `odd`, 2 `terminate` (see `hvil.data.tasks`).

    ## Observation space
    `Box` of 794 numbers: 784 pixels, row by row, normalised with mean 0.1307 and deviation 0.3081, then the digit,
    one-hot (10). At time 0 the digit's part is zero, at time 1 the pixels' part.

    ## Starting state
    A random test image (`split="train"`: a training image). `reset(options={"split": "test", "image": 3})` chooses.

    ## Rewards
    1 for terminating after one action that was the true parity, else 0.

    ## Episode end
    Terminated by the `terminate` action, or by a second action, which is never right; `info["success"]` then says
    whether the one action was the true parity.

    ## Arguments
    `split="test"`: where random images come from. `full=False`, `directory=None`: the packaged subset or all of MNIST
    (see `hvil.domains.mnist_parity.digits.digits`). `render_mode`: `ansi` or `rgb_array`.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 1}  # noqa: RUF012 (Gymnasium's name)

    def __init__(
        self,
        render_mode: str | None = None,
        split: Split = "test",
        full: bool = False,
        directory: str | os.PathLike[str] | None = None,
    ) -> None:
        self.render_mode = render_mode
        self.split = split
        self._full, self._directory = full, directory
        darkest, brightest = normalised(np.array([[[0]], [[255]]], np.uint8).repeat(SIDE, 1).repeat(SIDE, 2))
        zeros, ones = np.zeros(DIGITS, np.float32), np.ones(DIGITS, np.float32)
        self.observation_space = gymnasium.spaces.Box(
            np.concatenate([darkest, zeros]), np.concatenate([brightest, ones]), dtype=np.float32
        )
        self.action_space = gymnasium.spaces.Discrete(len(ACTIONS) + 1)
        self._image = np.zeros((SIDE, SIDE), np.uint8)
        self._digit = 0
        self._actions: list[int] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Show a random image, or number `options["image"]` of `options["split"]`."""
        super().reset(seed=seed)
        options = options or {}
        source = self._digits(options.get("split", self.split))
        image = options.get("image")
        if image is None:
            image = self.np_random.integers(len(source.labels))
        elif not 0 <= image < len(source.labels):
            raise InputError(f"image {image}: expected 0 to {len(source.labels) - 1}")
        self._image, self._digit = source.images[image], int(source.labels[image])
        self._actions = []
        return self._observation(), {}

    def step(self, action: np.int64 | int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Answer, or terminate."""
        if action == terminate_action(ACTIONS):
            success = self._actions == [self._digit % 2]
            return self._observation(), float(success), True, False, {"success": success}
        self._actions.append(int(action))
        if len(self._actions) > 1:
            return self._observation(), 0.0, True, False, {"success": False}
        return self._observation(), 0.0, False, False, {}

    def render(self) -> Any:
        """The image, what was answered, and the digit once it is known: as text or as a picture."""
        from hvil.domains.mnist_parity import drawing  # here, for a fast start: it loads Pillow

        answer = ACTIONS[self._actions[0]] if self._actions else None
        digit = self._digit if self._actions else None
        if self.render_mode == "ansi":
            return drawing.print_digit(self._image, answer, digit)
        if self.render_mode == "rgb_array":
            return drawing.draw_digit(self._image, answer, digit)
        return None

    def _digits(self, split: Any) -> Digits:
        if split not in ("train", "test"):
            raise InputError(f"split {split!r}: expected train or test")
        return digits(split, self._full, self._directory)

    def _observation(self) -> NDArray[np.float32]:
        if self._actions:
            return digit_observations(np.array([self._digit], np.uint8)).reshape(-1)
        return image_observations(self._image[None]).reshape(-1)
