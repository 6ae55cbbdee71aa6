"""MNIST parity: see a digit, say whether it is even or odd, then be shown which digit it was.

The paper's example of information that comes too late for the policy and in time for inference. The images are
loaded in `hvil.domains.mnist_parity.digits`, the pictures drawn in `hvil.domains.drawing`.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np
from jaxtyping import Float32, Int, UInt8
from numpy.typing import NDArray

from hvil.data.streams import random_generator
from hvil.data.tasks import Task, terminate_action
from hvil.data.traces import Traces
from hvil.domains.mnist_parity.digits import Digits, Split, digits, named_directory
from hvil.gate.errors import InputError

ACTIONS = ("even", "odd")
"""In this order, so that the right action is the digit's remainder by two."""

SIDE = 28
PIXELS = SIDE * SIDE
DIGITS = 10
OBSERVATION_NAMES = (
    *(f"pixel_{row}_{column}" for row in range(SIDE) for column in range(SIDE)),
    *(f"digit={digit}" for digit in range(DIGITS)),
)
PIXEL_MEAN, PIXEL_DEVIATION = 0.1307, 0.3081

SUBPROCEDURES = tuple(f"sub_{number}" for number in range(1, 6))
CALL_GRAPH: dict[str, Any] = {
    "root": "root",
    "procedures": {
        "root": {"calls": list(SUBPROCEDURES), "actions": []},
        **{name: {"calls": [], "actions": list(ACTIONS)} for name in SUBPROCEDURES},
    },
}


def normalised(images: UInt8[np.ndarray, "count 28 28"]) -> Float32[np.ndarray, "count 784"]:
    """Grey values 0..255 to flat rows with about mean 0 and deviation 1 over all of MNIST."""
    flat = images.reshape(len(images), PIXELS).astype(np.float32)
    return (flat / np.float32(255.0) - np.float32(PIXEL_MEAN)) / np.float32(PIXEL_DEVIATION)


def image_observations(images: UInt8[np.ndarray, "count 28 28"]) -> Float32[np.ndarray, "count 794"]:
    """`o_0`: the image, and no digit."""
    observations = np.zeros((len(images), len(OBSERVATION_NAMES)), np.float32)
    observations[:, :PIXELS] = normalised(images)
    return observations


def digit_observations(labels: UInt8[np.ndarray, " count"]) -> Float32[np.ndarray, "count 794"]:
    """`o_1`: no image, and the digit."""
    observations = np.zeros((len(labels), len(OBSERVATION_NAMES)), np.float32)
    observations[np.arange(len(labels)), PIXELS + labels.astype(np.int64)] = 1.0
    return observations


@dataclass(frozen=True)
class MnistParityTask(Task):
    """The task whose teacher says the true parity with probability `p`.

    The images are those of the packaged subset; all of MNIST is used if `full`, which a directory (given here or in
    the environment variable HVIL_MNIST) implies.
    """

    forms: ClassVar[str] = "mnist-parity:P (such as mnist-parity:0.7, mnist-parity:0.7,full)"

    p: float
    full: bool = False
    directory: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        """Check the probability; settle whether the images are the full set, so that the name says it."""
        if not 0.0 <= self.p <= 1.0:
            raise InputError(f"mnist-parity:{self.p:g}: expected a probability from 0 to 1, such as mnist-parity:0.7")
        if self.directory is not None or named_directory() is not None:
            object.__setattr__(self, "full", True)

    @classmethod
    def from_argument(cls, argument: str) -> "MnistParityTask":
        """The task with the argument of `mnist-parity:…`: a probability, perhaps with `,full`."""
        number, _, word = argument.partition(",")
        try:
            probability = float(number)
        except ValueError:
            probability = -1.0
        if not 0.0 <= probability <= 1.0 or argument not in (number, f"{number},full"):
            raise InputError(
                f"mnist-parity:{argument}: expected a probability from 0 to 1, such as mnist-parity:0.7, "
                "and perhaps ',full' for all images"
            )
        return cls(probability, full=word == "full")

    @property
    def name(self) -> str:
        """`mnist-parity:P`, with `,full` if all of MNIST is used."""
        return f"mnist-parity:{self.p:g}{',full' if self.full else ''}"

    @property
    def action_names(self) -> tuple[str, ...]:
        """Even and odd."""
        return ACTIONS

    @property
    def observation_names(self) -> tuple[str, ...]:
        """The pixels row by row, then the digit, one-hot."""
        return OBSERVATION_NAMES

    @property
    def default_call_graph(self) -> Mapping[str, Any]:
        """A root that may only call, five sub-procedures that may only act."""
        return CALL_GRAPH

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The paper's network sizes and batches, for a training set in the middle of its range."""
        return {
            "demos": 400,
            "updates": 400,
            "network": "convnet",
            "batch_size": 20,
            "hidden": 64,
            "context": 32,
            "entropy_decay_interval": 50,
            "layers": 1,
        }

    def demonstrations(self, count: int, seed: int, progress: Callable[[int], None] | None = None) -> Traces:
        """Traces on training images; the action is the true parity with probability p."""
        return self._traces("train", count, seed, self.p, progress)

    def test_demonstrations(self, count: int, seed: int, progress: Callable[[int], None] | None = None) -> Traces:
        """Traces on test images, always with the true parity: what the test error is measured against."""
        return self._traces("test", count, seed, 1.0, progress)

    def environment(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        """`hvil/MnistParity-v0` on this task's images."""
        return gymnasium.make(
            "hvil/MnistParity-v0",
            disable_env_checker=True,
            render_mode=render_mode,
            full=self.full,
            directory=self.directory,
        )

    def reset_options(self, traces: Traces, index: int) -> dict[str, Any]:
        """The image of trace `index`."""
        split = "test" if traces.metadata["is_test"][index] else "train"
        return {"split": split, "image": int(traces.metadata["image"][index])}

    def _traces(self, split: Split, count: int, seed: int, p: float, progress: Callable[[int], None] | None) -> Traces:
        source = digits(split, self.full, self.directory)
        image_generator, action_generator = random_generator(seed).spawn(2)
        chosen = draw_images(len(source.labels), count, image_generator)
        labels = source.labels[chosen]
        wrong = action_generator.random(count) >= p
        observations = np.empty((2 * count, len(OBSERVATION_NAMES)), np.float32)
        observations[0::2] = image_observations(source.images[chosen])
        observations[1::2] = digit_observations(labels)
        if progress is not None:
            progress(count)
        return Traces(
            observations=observations,
            actions=(labels.astype(np.int32) + wrong) % 2,
            offsets=np.arange(count + 1),
            action_names=ACTIONS,
            observation_names=OBSERVATION_NAMES,
            metadata={
                "digit": labels,
                "image": chosen.astype(np.int32),
                "is_test": np.full(count, split == "test"),
            },
            attributes={"task": self.name},
        )


def draw_images(available: int, count: int, generator: np.random.Generator) -> Int[np.ndarray, " count"]:
    """Random images, none a second time before all were drawn; a smaller count gives the first of a larger."""
    rounds = -(-count // available)
    return np.concatenate([generator.permutation(available) for _ in range(rounds)])[:count]


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
        from hvil.domains.drawing import draw_digit, print_digit

        answer = ACTIONS[self._actions[0]] if self._actions else None
        digit = self._digit if self._actions else None
        if self.render_mode == "ansi":
            return print_digit(self._image, answer, digit)
        if self.render_mode == "rgb_array":
            return draw_digit(self._image, answer, digit)
        return None

    def _digits(self, split: Any) -> Digits:
        if split not in ("train", "test"):
            raise InputError(f"split {split!r}: expected train or test")
        return digits(split, self._full, self._directory)

    def _observation(self) -> NDArray[np.float32]:
        if self._actions:
            return digit_observations(np.array([self._digit], np.uint8)).reshape(-1)
        return image_observations(self._image[None]).reshape(-1)
