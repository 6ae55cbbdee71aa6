"""Encoders: what a network makes of an observation before procedures, posterior or baselines see it.

`ENCODERS` holds what `--network` names. A user's encoder is a factory: called with the shape of an observation, it
gives a `torch.nn.Module` from flat observations (R, D) to (R, width), with the attribute `width`.

Letters: R rows, D features, E encoded features, F other numbers (a frame's inputs, the action before).
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hvil.gate.errors import InputError
from hvil.gate.registry import Registry
from hvil.learners.config import Config
from hvil.learners.networks.convnet import FEATURES, ConvNet, image_layout, split_image

ENCODERS: Registry[Callable[[tuple[int, ...]], nn.Module]] = Registry(
    "encoder",
    {
        "mlp": "hvil.learners.networks.encoders:Observations",
        "convnet": "hvil.learners.networks.encoders:ImageEncoder",
        "convnet-early": "hvil.learners.networks.encoders:EarlyImageEncoder",
    },
)


CONVNETS = {"convnet": False, "convnet-early": True}
"""The names of the paper's ConvNet, and whether numbers beside the image join before its 50 units, as in the authors'
program, or after them."""


class Observations(nn.Module):
    """The observations themselves: a perceptron sees them as they are."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.width = math.prod(shape)

    def forward(self, features: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
        """The features."""
        return features


class ImageEncoder(nn.Module):
    """The paper's ConvNet with 50 outputs."""

    width = FEATURES
    early = False

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.layout = image_layout(shape)
        self.network = ConvNet(self.layout, self.layout.numbers, FEATURES, self.early)

    def forward(self, features: Float[Tensor, "R D"]) -> Float[Tensor, "R E"]:
        """The encoded images, and what other numbers the observations have."""
        return torch.relu(self.network(*split_image(self.layout, features)))


class EarlyImageEncoder(ImageEncoder):
    """The same, with numbers beside the image that join before the 50 units."""

    early = True


class ConvNetWithNumbers(nn.Module):
    """The paper's ConvNet as a whole network: other numbers join after the 50 units, or (early) before them."""

    def __init__(self, shape: tuple[int, ...], numbers: int, outputs: int, early: bool) -> None:
        super().__init__()
        self.layout = image_layout(shape)
        self.network = ConvNet(self.layout, self.layout.numbers + numbers, outputs, early)

    def forward(self, features: Float[Tensor, "R D"], numbers: Float[Tensor, "R F"]) -> Float[Tensor, "R outputs"]:
        """The outputs of each row."""
        images, others = split_image(self.layout, features)
        outputs: Tensor = self.network(images, torch.cat([others, numbers], dim=1))
        return outputs


class EncoderWithNumbers(nn.Module):
    """An encoder and, after it, a perceptron that sees other numbers too."""

    def __init__(self, encoder: nn.Module, width: int, numbers: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.network = nn.Sequential(nn.Linear(width + numbers, hidden), nn.ReLU(), nn.Linear(hidden, outputs))

    def forward(self, features: Float[Tensor, "R D"], numbers: Float[Tensor, "R F"]) -> Float[Tensor, "R outputs"]:
        """The outputs of each row."""
        outputs: Tensor = self.network(torch.cat([self.encoder(features), numbers], dim=1))
        return outputs


def make_encoder(network: str, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
    """A new encoder by its registered name, and its width."""
    encoder = ENCODERS[network](shape)
    width = getattr(encoder, "width", None)
    if not isinstance(encoder, nn.Module) or not isinstance(width, int):
        raise InputError(f"network {network}: the encoder must be a torch.nn.Module with a whole number `width`")
    return encoder, width


def network_with_numbers(network: str, shape: tuple[int, ...], numbers: int, hidden: int, outputs: int) -> nn.Module:
    """A network from features and other numbers to outputs, with an encoder of its own.

    The ConvNet is followed by its own output layer, as in the paper, any other encoder by a perceptron.
    """
    if network in CONVNETS:
        return ConvNetWithNumbers(shape, numbers, outputs, CONVNETS[network])
    return EncoderWithNumbers(*make_encoder(network, shape), numbers, hidden, outputs)


def feature_shape(config: Config) -> tuple[int, ...]:
    """The shape of what an encoder is given: an observation's, unless the inputs change the number of columns."""
    shape = config.observation_shape
    return shape if math.prod(shape) == config.input_width else (config.input_width,)
