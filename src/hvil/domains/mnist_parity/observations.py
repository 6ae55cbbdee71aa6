"""What is seen of an MNIST-parity episode: first the image, then the digit; and the two actions."""

import numpy as np
from jaxtyping import Float32, UInt8

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
"""Of all grey values of the training images, as parts of 255."""


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
