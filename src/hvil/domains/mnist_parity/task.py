"""MNIST parity as a task: demonstrations on real digits, and the environment to try a policy in.

The policy sees a digit, says whether it is even or odd, and is then shown which digit it was. This is the paper's
example of information that comes too late for the policy and in time for inference.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np
from jaxtyping import Int

from hvil.data.streams import random_generator
from hvil.data.tasks import Task
from hvil.data.traces import Traces
from hvil.domains.mnist_parity.digits import Split, digits, named_directory
from hvil.domains.mnist_parity.observations import (
    ACTIONS,
    OBSERVATION_NAMES,
    digit_observations,
    image_observations,
)
from hvil.gate.border import refuse_if_confined
from hvil.gate.errors import InputError

SUBPROCEDURES = tuple(f"sub_{number}" for number in range(1, 6))
CALL_GRAPH: dict[str, Any] = {
    "root": "root",
    "procedures": {
        "root": {"calls": list(SUBPROCEDURES), "actions": []},
        **{name: {"calls": [], "actions": list(ACTIONS)} for name in SUBPROCEDURES},
    },
}


@dataclass(frozen=True)
class MnistParityTask(Task):
    """The task whose teacher says the true parity with probability `p`.

    The images are those of the packaged subset; all of MNIST is used if `full`, which a directory (given here or in
    the environment variable HVIL_MNIST) implies.
    """

    forms: ClassVar[str] = "mnist-parity:P (such as mnist-parity:0.7, mnist-parity:0.7,full)"
    options: ClassVar[tuple[str, ...]] = ("full", "shuffled")

    p: float
    full: bool = False
    shuffled: bool = False
    """The demonstrations show the digits of each other, in random order. Then the digit says nothing about the image:
    a control for what the digit is good for."""
    directory: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        """Check the probability; settle whether the images are the full set, so that the name says it."""
        if not 0.0 <= self.p <= 1.0:
            raise InputError(f"mnist-parity:{self.p:g}: expected a probability from 0 to 1, such as mnist-parity:0.7")
        if self.directory is not None or named_directory() is not None:
            object.__setattr__(self, "full", True)

    @classmethod
    def from_argument(cls, argument: str) -> "MnistParityTask":
        """The task with the argument of `mnist-parity:…`: a probability, perhaps with `,full` and `,shuffled`."""
        number, *words = argument.split(",")
        try:
            probability = float(number)
        except ValueError:
            probability = -1.0
        in_order = [word for word in cls.options if word in words]
        if not 0.0 <= probability <= 1.0 or words != in_order:
            raise InputError(
                f"mnist-parity:{argument}: expected a probability from 0 to 1, such as mnist-parity:0.7, "
                "and perhaps ',full' for all images and ',shuffled' for digits in random order"
            )
        if "full" in words and named_directory() is None:
            refuse_if_confined(f"mnist-parity:{argument}, which may be downloaded")
        return cls(probability, full="full" in words, shuffled="shuffled" in words)

    @property
    def name(self) -> str:
        """`mnist-parity:P`, with `,full` if all of MNIST is used and `,shuffled` if digits are."""
        return f"mnist-parity:{self.p:g}{',full' if self.full else ''}{',shuffled' if self.shuffled else ''}"

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
        # The third generator changes nothing about the others: images and actions are those of the task itself.
        image_generator, action_generator, shuffle_generator = random_generator(seed).spawn(3)
        images = draw_images(len(source.labels), count, image_generator)
        labels = source.labels[images]
        wrong = action_generator.random(count) >= p
        observations = np.empty((2 * count, len(OBSERVATION_NAMES)), np.float32)
        observations[0::2] = image_observations(source.images[images])
        observations[1::2] = digit_observations(shuffle_generator.permutation(labels) if self.shuffled else labels)
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
                "image": images.astype(np.int32),
                "is_test": np.full(count, split == "test"),
            },
            attributes={"task": self.name},
        )


def draw_images(available: int, count: int, generator: np.random.Generator) -> Int[np.ndarray, " count"]:
    """Random images, none a second time before all were drawn; a smaller count gives the first of a larger."""
    rounds = -(-count // available)
    return np.concatenate([generator.permutation(available) for _ in range(rounds)])[:count]
