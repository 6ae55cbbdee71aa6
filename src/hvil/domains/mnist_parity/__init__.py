"""MNIST parity: the environment and task, the digits, their pictures."""

from hvil.domains.mnist_parity.environment import MnistParityEnv, MnistParityTask

__all__ = ["MnistParityEnv", "MnistParityTask"]
