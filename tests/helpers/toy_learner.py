"""A small learner for the trainer's tests: a linear policy with noise from both random states in its loss."""

import numpy as np
import torch

from hvil.data.traces import Traces
from hvil.learners.config import Config
from hvil.learners.learner import Loss


class ToyPolicy:
    def __init__(self, learner: "ToyLearner") -> None:
        self.learner = learner
        self.action_names = learner.action_names

    def reset(self, count: int | None = None, seed: int = 0) -> None:
        pass

    def act(self, observation: np.ndarray, greedy: bool = True) -> int:
        scores = self.learner.network(torch.as_tensor(observation, dtype=torch.float32))
        return int(scores.argmax())

    def wrong(self, traces: Traces) -> np.ndarray:
        with torch.no_grad():
            chosen = self.learner.network(torch.tensor(traces.observations)).argmax(-1).numpy()
        targets = _targets(traces)
        owner = np.repeat(np.arange(len(traces)), traces.lengths + 1)
        return np.bincount(owner, weights=chosen != targets, minlength=len(traces)) > 0


class ToyLearner(torch.nn.Module):
    def __init__(self, config: Config, poison: int | None = None) -> None:
        super().__init__()
        self.action_names = config.action_names
        hidden = config.model.hidden
        self.network = torch.nn.Sequential(
            torch.nn.Linear(int(np.prod(config.observation_shape)), hidden),
            torch.nn.ReLU(),
            torch.nn.Linear(hidden, len(config.action_names) + 1),
        )
        self.poison = poison
        self.seen: list[bytes] = []

    def loss(self, traces: Traces, rng: np.random.Generator, update: int) -> Loss:
        self.seen.append(traces.actions.tobytes())
        inputs = torch.tensor(traces.observations)
        inputs = inputs + 0.01 * torch.from_numpy(rng.standard_normal(inputs.shape, dtype=np.float32))
        inputs = inputs + 0.01 * torch.randn(inputs.shape)
        total = torch.nn.functional.cross_entropy(self.network(inputs), torch.from_numpy(_targets(traces)))
        if update == self.poison:
            total = total * float("nan")
        return Loss(total, {"php_steps_per_action": 1.0 + 0.001 * update})

    def policy(self) -> ToyPolicy:
        return ToyPolicy(self)


def _targets(traces: Traces) -> np.ndarray:
    padded = traces.padded()
    inside = np.arange(padded.actions.shape[1]) <= traces.lengths[:, None]
    return padded.actions[inside]


def toy_traces(count: int = 12, seed: int = 0) -> Traces:
    """The first column says which action is right."""
    rng = np.random.default_rng(seed)
    observations, actions = [], []
    for _ in range(count):
        length = int(rng.integers(1, 6))
        chosen = rng.integers(0, 2, length)
        rows = rng.standard_normal((length + 1, 3)).astype(np.float32)
        rows[:, 0] = [*(4.0 * chosen - 2.0), 8.0]
        observations.append(rows)
        actions.append(chosen)
    return Traces.from_episodes(observations, actions, ("left", "right"), ("code", "noise1", "noise2"))
