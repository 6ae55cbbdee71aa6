"""The one question whether compiled code can do a computation, or torch has to; all who have compiled code ask it."""

import torch
from torch import Tensor


def can_compile(values: Tensor) -> bool:
    """Whether compiled code can read these values: it knows numbers of single precision on the CPU."""
    return values.device.type == "cpu" and values.dtype == torch.float32
