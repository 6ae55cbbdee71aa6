"""What all figures of the paper share: how every model is trained."""

from collections.abc import Mapping
from typing import Any

TRAINING: Mapping[str, Any] = {
    "context": 32,
    "learning_rate": 1e-3,
    "weight_decay": 1e-3,
    "entropy_weight": 1.0,
    "entropy_decay": 0.7,
}
"""Adam with PyTorch's learning rate and the paper's weight decay, its inference model, and the entropy weight that it
gives for bubble sort. Each figure says how many updates there are, and after how many the entropy weight falls."""
