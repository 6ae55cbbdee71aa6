"""MNIST parity: see a digit, say whether it is even or odd, then be shown which digit it was."""

from hvil.domains.mnist_parity.environment import MnistParityEnv
from hvil.domains.mnist_parity.task import MnistParityTask

__all__ = ["MnistParityEnv", "MnistParityTask"]
