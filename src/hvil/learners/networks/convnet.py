"""The paper's ConvNet, and how an observation splits into an image and other numbers.

`encoders` makes networks of procedures and encoders of it.

Letters: N rows, M different images, C channels, E other numbers beside the image.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from hvil.data.arrays import distinct_rows
from hvil.gate.errors import InputError

MNIST_SIDE = 28
CHANNELS = (10, 20)
"""Of the two convolutions. All sizes are those of the network that the paper cites, PyTorch's MNIST example."""
KERNEL = 5
FEATURES = 50
"""Units after the convolutions."""
SMALLEST_SIDE = 16
"""Two convolutions and two poolings leave one pixel of a side of 16, and none of a smaller one."""


class ImageLayout(NamedTuple):
    """Where the image is in an observation."""

    channels: int
    height: int
    width: int
    numbers: int
    """How many numbers come after the pixels of a flat observation."""


def image_layout(shape: tuple[int, ...]) -> ImageLayout:
    """The layout of an observation: `(H, W)`, `(H, W, C)`, or flat with 28×28 pixels and then other numbers."""
    if len(shape) == 1 and shape[0] >= MNIST_SIDE**2:
        return ImageLayout(1, MNIST_SIDE, MNIST_SIDE, shape[0] - MNIST_SIDE**2)
    if len(shape) in (2, 3) and min(shape[:2]) >= SMALLEST_SIDE:
        return ImageLayout(shape[2] if len(shape) == 3 else 1, shape[0], shape[1], 0)
    raise InputError(
        f"network convnet needs images: observations of shape {shape} are neither (H, W) or (H, W, C) with sides of at "
        f"least {SMALLEST_SIDE}, nor flat with {MNIST_SIDE}×{MNIST_SIDE} pixels first"
    )


def split_image(
    layout: ImageLayout, observations: Shaped[Tensor, "N ..."]
) -> tuple[Float[Tensor, "N C H W"], Float[Tensor, "N E"]]:
    """Images (bytes become 0..1, other pixels stay as they are) and the numbers beside them."""
    scale = 255.0 if observations.dtype == torch.uint8 else 1.0
    flat = observations.reshape(len(observations), -1)
    flat = flat if flat.is_floating_point() else flat.to(torch.float32)
    pixels = layout.channels * layout.height * layout.width
    images = flat[:, :pixels].reshape(-1, layout.height, layout.width, layout.channels).movedim(3, 1)
    return images if scale == 1.0 else images / scale, flat[:, pixels:]


class ConvNet(nn.Module):
    """Conv 10@5×5, pool, ReLU, conv 20@5×5, pool, ReLU, 50 units, output; other numbers join after or before the 50."""

    def __init__(self, layout: ImageLayout, numbers: int, outputs: int, early: bool = False) -> None:
        """Build it.

        Args:
            layout: of the images.
            numbers: how many numbers beside the image `forward` is given.
            outputs: how many it puts out.
            early: the numbers join before the 50 units, and not after them.
        """
        super().__init__()
        self.early = early
        first, second = CHANNELS
        self.first = nn.Conv2d(layout.channels, first, KERNEL)
        self.second = nn.Conv2d(first, second, KERNEL)
        pooled = second * _remaining(layout.height) * _remaining(layout.width)
        self.features = nn.Linear(pooled + (numbers if early else 0), FEATURES)
        self.output = nn.Linear(FEATURES + (0 if early else numbers), outputs)

    def forward(self, images: Float[Tensor, "N C H W"], numbers: Float[Tensor, "N E"]) -> Float[Tensor, "N outputs"]:
        """The outputs of each row."""
        different, index = _each_once(images)
        different = different.to(memory_format=torch.channels_last)  # a third less time on the CPU
        hidden = torch.relu(torch.max_pool2d(self.first(different), 2))
        hidden = torch.relu(torch.max_pool2d(self.second(hidden), 2))
        pooled = hidden.flatten(1)
        if self.early:
            hidden = torch.relu(self.features(torch.cat([pooled.index_select(0, index), numbers], dim=1)))
        else:
            hidden = torch.cat([torch.relu(self.features(pooled)).index_select(0, index), numbers], dim=1)
        output: Tensor = self.output(hidden)
        return output


def _each_once(images: Float[Tensor, "N C H W"]) -> tuple[Float[Tensor, "M C H W"], Int[Tensor, "N"]]:
    """The different images, and the index of each row's image among them.

    Convolutions take most of the time. Several walks of a trace see the same picture, and in tasks whose later
    observations have no picture half of all images are blank.
    """
    device = images.device
    first, index = distinct_rows(images.detach().flatten(1).cpu().numpy())
    if len(first) == len(images):
        return images, torch.arange(len(images), device=device)
    return images[torch.from_numpy(first).to(device)], torch.from_numpy(index).to(device)


def _remaining(side: int) -> int:
    """How many pixels the convolutions and poolings leave of a side."""
    for _ in CHANNELS:
        side = (side - KERNEL + 1) // 2
    return side
