"""A random policy and the probability of enumerated call structures under it: oracles for the tests."""

from itertools import islice

import numpy as np
import torch
from strategies import ACTIONS

from hvil.data.traces import Traces
from hvil.machine import reference
from hvil.machine.callgraph import CallGraph

FEATURES = 2


class RandomPolicy(torch.nn.Module):
    """Random scores of each procedure, linear in the observation, with a part for each counter and last step."""

    def __init__(self, graph: CallGraph, seed: int, counters: int = 50, scale: float = 1.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.graph = graph
        count, choices = len(graph.procedures), graph.step_count

        def random(*shape: int) -> torch.nn.Parameter:
            return torch.nn.Parameter(scale * torch.randn(*shape, choices, dtype=torch.float64, generator=generator))

        self.seen, self.counted = random(count, FEATURES), random(count, counters)
        self.lasted = random(count, choices + 1)

    def log_probs(
        self,
        observations: torch.Tensor,
        procedure: np.ndarray,
        counter: np.ndarray,
        last: np.ndarray,
        depth: np.ndarray,
    ) -> torch.Tensor:
        logits = torch.einsum("rd,rdu->ru", observations.double(), self.seen[procedure])
        logits = logits + self.counted[procedure, counter] + self.lasted[procedure, last + 1]
        return torch.log_softmax(logits.masked_fill(~self._possible(procedure, counter, depth), -torch.inf), dim=1)

    def _possible(self, procedure: np.ndarray, counter: np.ndarray, depth: np.ndarray) -> torch.Tensor:
        states, inverse = np.unique(np.stack([procedure, counter, depth], axis=1), axis=0, return_inverse=True)
        mask = torch.zeros(len(states), self.graph.step_count, dtype=torch.bool)
        for row, (h, tau, height) in enumerate(states.tolist()):
            stack = (reference.Frame(0, 1, 0),) * (height - 1) + (reference.Frame(h, tau, 0),)
            mask[row, reference.policy_steps(self.graph, stack)] = True
        return mask[inverse.ravel()]


def random_traces(seed: int, *actions: list[int]) -> Traces:
    """Traces with given actions and few different observations, so that rows are shared between times and traces."""
    rng = np.random.default_rng(seed)
    observations = [rng.integers(0, 2, (len(a) + 1, FEATURES)).astype(np.float32) for a in actions]
    return Traces.from_episodes(observations, [np.array(a) for a in actions], ACTIONS)


def log_joints(policy: RandomPolicy, traces: Traces, structures: list[tuple[int, ...]]) -> torch.Tensor:
    """The log-probability log p(z, x) of each of some structures of a single trace, by replaying them."""
    actions = traces.actions.tolist()
    moments = [moment for structure in structures for moment in reference.replay(policy.graph, actions, structure)]
    frames = np.array([moment.stack[-1] for moment in moments])
    depth = np.array([len(moment.stack) for moment in moments])
    observations = torch.tensor(traces.observations[[moment.time for moment in moments]])
    log_probs = policy.log_probs(observations, *frames.T, depth)
    taken = log_probs[torch.arange(len(moments)), torch.tensor([u for structure in structures for u in structure])]
    owner = torch.tensor(np.repeat(np.arange(len(structures)), [len(structure) for structure in structures]))
    return torch.zeros(len(structures), dtype=torch.float64).index_add(0, owner, taken)


def shortened(graph: CallGraph, actions: list[int], most: int = 200) -> list[int]:
    """As much of a trace as has few enough call structures to enumerate."""
    while len(actions) > 1 and len(list(islice(reference.structures(graph, actions), most + 1))) > most:
        actions = actions[:-1]
    return actions
