"""Running a policy of procedures: reset, act, the call stack; one environment or many; greedy or sampled.

Multi-layer perceptrons on the CPU run in compiled code; any other bank or device through `machine.batched`.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Num

from hvil.data.inputs import features as input_features
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.networks.bank import MlpBank
from hvil.learners.networks.php import PolicyNetwork
from hvil.machine import kernels
from hvil.machine.arrays import NetworkArrays
from hvil.machine.batched import Machines, Tops, chosen, most_likely
from hvil.machine.reference import Frame, Stack

ENCODED_AT_ONCE = 1024
"""Images that a shared encoder takes at a time: a ConvNet's activations are large."""


class ProcedurePolicy:
    """A policy with a call stack for each environment."""

    def __init__(self, network: PolicyNetwork) -> None:
        self.network = network
        self.graph = network.graph
        self.action_names = network.graph.action_names
        self._net: NetworkArrays | None = None
        self._device = next(network.parameters()).device
        if isinstance(network.bank, MlpBank) and self._device.type == "cpu":
            self._net = network.bank.arrays()
        self.reset()

    def reset(self, count: int | None = None, seed: int = 0) -> None:
        """Begin new episodes: one environment with single observations, or a batch of `count`."""
        if count is not None and count < 1:
            raise InputError(f"a batch has at least one environment, not {count}")
        self._single = count is None
        self._machines = Machines(self.graph, 1 if count is None else count)
        self._rng = np.random.default_rng(seed)
        self.php_steps = np.zeros(len(self._machines.heights), dtype=np.int64)

    @property
    def stack(self) -> Stack | list[Stack]:
        """The call stack (root first), or one for each environment of a batch; empty when the program has ended."""
        machines = self._machines
        stacks = [
            tuple(
                Frame(
                    int(machines.procedures[i, level]), int(machines.counters[i, level]), int(machines.lasts[i, level])
                )
                for level in range(machines.heights[i])
            )
            for i in range(len(machines.heights))
        ]
        return stacks[0] if self._single else stacks

    def act(self, observation: Num[np.ndarray, "..."] | Bool[np.ndarray, "..."], greedy: bool = True) -> Any:
        """The next action (an int, or an array of them); the number of actions once the program has ended."""
        features = self._features(observation)
        machines = self._machines
        actions = np.empty(len(features), dtype=np.int64)
        # One uniform number for each step that could come before the action: returns, calls, the action.
        room = 0 if greedy else 2 * self.graph.max_depth
        uniforms = self._rng.random((len(features), room))
        if self._net is not None:
            kernels.act(
                machines.graph,
                self._net,
                features,
                machines.procedures,
                machines.counters,
                machines.lasts,
                machines.heights,
                uniforms,
                greedy,
                actions,
                self.php_steps,
            )
        else:
            self._act_batched(features, uniforms, greedy, actions)
        return int(actions[0]) if self._single else actions

    def wrong(self, traces: Traces) -> Bool[np.ndarray, "N"]:
        """Whether the greedy policy takes a wrong action along each teacher trace (∅ included)."""
        return self.follow(traces)[0]

    def follow(self, traces: Traces) -> tuple[Bool[np.ndarray, "N"], Int[np.ndarray, "N"], Int[np.ndarray, "H"]]:
        """Along teacher traces up to the first error: which go wrong, PHP steps of each, calls of each procedure."""
        if traces.action_names != self.action_names:
            theirs, own = ", ".join(traces.action_names), ", ".join(self.action_names)
            raise InputError(f"the traces have the actions {theirs}; the policy has {own}")
        if np.prod(traces.observation_shape) != self.width:
            raise InputError(
                f"the traces' observations of shape {traces.observation_shape} do not fit: the policy takes "
                f"{self.width} numbers"
            )
        rows = traces.row_offsets
        emitted = np.full(rows[-1], len(traces.action_names), dtype=np.int64)
        emitted[np.arange(len(traces.actions)) + np.repeat(np.arange(len(traces)), traces.lengths)] = traces.actions
        features = self._seen(traces.observations, len(traces.observations))
        wrong = np.zeros(len(traces), dtype=bool)
        taken = np.zeros(len(traces), dtype=np.int64)
        visits = np.zeros(len(self.graph.procedures), dtype=np.int64)
        if self._net is not None:
            kernels.follow(self._machines.graph, self._net, features, emitted, rows, wrong, taken, visits)
            return wrong, taken, visits
        return self._follow_batched(features, emitted, rows)

    def _features(self, observation: np.ndarray) -> Float[np.ndarray, "M D"]:
        array = np.asarray(observation)
        count, width = len(self._machines.heights), self.width
        if array.size != count * width or not (self._single or len(array) == count):
            raise InputError(
                f"observations of shape {array.shape} do not fit: {count} environment(s), {width} numbers each"
            )
        return self._seen(array, count)

    def _seen(self, observations: np.ndarray, count: int) -> Float[np.ndarray, "M E"]:
        """What the procedures see of observations; a shared encoder is asked once, not at every PHP step."""
        features = input_features(self.network.inputs, observations, count)
        if self.network.encoder is None:
            return features
        with torch.no_grad():
            starts = range(0, len(features), ENCODED_AT_ONCE)
            rows = torch.from_numpy(features).to(self._device)
            parts = [self.network.encode(rows[start : start + ENCODED_AT_ONCE]) for start in starts]
            return torch.cat(parts).numpy(force=True)

    @property
    def width(self) -> int:
        """How many numbers an observation has."""
        return self.network.width

    def choices(self, features: Num[np.ndarray, "M D"], tops: Tops) -> Int[np.ndarray, "M"]:
        """The most likely PHP step of each active frame."""
        seen = self._seen(features, len(features))
        return np.asarray(self._log_probabilities(seen, tops).argmax(axis=1))

    def probabilities(self, features: Num[np.ndarray, "M D"], tops: Tops) -> Float[np.ndarray, "M U"]:
        """The probability of each PHP step of each active frame; NaN if the step is impossible."""
        scores = self._log_probabilities(self._seen(features, len(features)), tops)
        possible = self.network.possible(tops.procedure, tops.counter, tops.depth)
        return np.where(possible, np.exp(scores.astype(np.float64)), np.nan)

    def _log_probabilities(self, features: Float[np.ndarray, "M D"], tops: Tops) -> Float[np.ndarray, "M U"]:
        with torch.no_grad():
            rows = torch.from_numpy(features).to(self._device)
            return self.network.log_probs(rows, *tops).numpy(force=True)

    def _act_batched(
        self,
        features: Float[np.ndarray, "M D"],
        uniforms: Float[np.ndarray, "M room"],
        greedy: bool,
        actions: Int[np.ndarray, "M"],
        visits: Int[np.ndarray, "H"] | None = None,
    ) -> None:
        machines = self._machines
        actions[:] = machines.actions
        running = np.flatnonzero(machines.heights > 0)
        turn = 0
        while running.size:
            possible = machines.policy_possible(running)
            scores = self._log_probabilities(features[running], machines.tops(running))
            choice = most_likely(scores, possible) if greedy else chosen(scores, possible, uniforms[running, turn])
            machines.step(running, choice)
            self.php_steps[running] += 1
            if visits is not None:
                np.add.at(visits, machines.tops(running[choice > machines.actions]).procedure, 1)
            acted = choice < machines.actions
            actions[running[acted]] = choice[acted]
            running = running[~acted & (machines.heights[running] > 0)]
            turn += 1

    def _follow_batched(
        self, features: Float[np.ndarray, "R D"], emitted: Int[np.ndarray, "R"], rows: Int[np.ndarray, "N_plus_1"]
    ) -> tuple[Bool[np.ndarray, "N"], Int[np.ndarray, "N"], Int[np.ndarray, "H"]]:
        count = len(rows) - 1
        runner = ProcedurePolicy(self.network)
        runner.reset(count)
        wrong = np.zeros(count, dtype=bool)
        visits = np.zeros(len(self.graph.procedures), dtype=np.int64)
        visits[self.graph.root] = count
        actions = np.empty(count, dtype=np.int64)
        now = rows[:-1].copy()
        while (runner._machines.heights > 0).any():
            alive = runner._machines.heights > 0
            runner._act_batched(features[now], np.empty((count, 0)), True, actions, visits)
            mistaken = alive & (actions != emitted[now])
            wrong |= mistaken
            runner._machines.heights[mistaken] = 0
            now[alive & ~mistaken & (actions < runner._machines.actions)] += 1
        return wrong, runner.php_steps, visits
