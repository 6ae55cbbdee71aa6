"""Running a policy of procedures: reset, act, the call stack; one environment or many; greedy or sampled.

Perceptrons of single precision on the CPU run in compiled code, everything else through `machine.batched`.

Letters: M environments or frames, N traces, R rows, D numbers of an observation, E features that the bank sees,
U choices, H procedures.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Num

from hvil.data.inputs import features as input_features
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.networks.bank import MlpBank
from hvil.learners.networks.dispatch import can_compile
from hvil.learners.networks.policy import PolicyNetwork
from hvil.machine import kernels
from hvil.machine.arrays import NetworkArrays
from hvil.machine.batched import Machines, Tops, most_likely, sampled
from hvil.machine.reference import Frame, Stack

ENCODED_AT_ONCE = 1024
"""Rows that a shared encoder takes at a time: the activations of the ConvNet take some 50 KB a row."""


class Followed(NamedTuple):
    """The greedy policy along teacher traces, up to the first wrong action of each."""

    wrong: Bool[np.ndarray, "N"]
    """Which traces have a wrong action (∅ included)."""
    step_counts: Int[np.ndarray, "N"]
    """PHP steps taken along each trace."""
    calls: Int[np.ndarray, "H"]
    """Calls of each procedure; that the root starts counts as one."""


class ProcedurePolicy:
    """A policy with a call stack for each environment."""

    def __init__(self, network: PolicyNetwork) -> None:
        self.network = network
        self.graph = network.graph
        self.action_names = network.graph.action_names
        self._net: NetworkArrays | None = None
        """The networks for compiled code; None where torch has to run them."""
        self._weights = next(network.parameters())
        """One of the weights: features go where it is, in its precision."""
        if isinstance(network.bank, MlpBank) and can_compile(self._weights):
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
        # One uniform number for each step that can come at one time: returns, calls, the action.
        most_steps = 0 if greedy else 2 * self.graph.max_depth
        uniforms = self._rng.random((len(features), most_steps))
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
        return self.follow(traces).wrong

    def follow(self, traces: Traces) -> Followed:
        """Run the greedy policy along teacher traces, up to the first wrong action of each."""
        if traces.action_names != self.action_names:
            theirs, own = ", ".join(traces.action_names), ", ".join(self.action_names)
            raise InputError(f"the traces have the actions {theirs}; the policy has {own}")
        if np.prod(traces.observation_shape) != self.width:
            raise InputError(
                f"the traces' observations of shape {traces.observation_shape} do not fit: the policy takes "
                f"{self.width} numbers"
            )
        emitted, row_offsets = traces.emitted(), traces.row_offsets
        features = self._encoded(traces.observations, len(traces.observations))
        if self._net is None:
            return self._follow_batched(features, emitted, row_offsets)
        followed = Followed(
            wrong=np.zeros(len(traces), dtype=bool),
            step_counts=np.zeros(len(traces), dtype=np.int64),
            calls=np.zeros(len(self.graph.procedures), dtype=np.int64),
        )
        kernels.follow(self._machines.graph, self._net, features, emitted, row_offsets, *followed)
        return followed

    def _features(self, observation: np.ndarray) -> Float[np.ndarray, "M E"]:
        """What the procedures see of one observation for each environment."""
        array = np.asarray(observation)
        count, width = len(self._machines.heights), self.width
        if array.size != count * width or not (self._single or len(array) == count):
            raise InputError(
                f"observations of shape {array.shape} do not fit: {count} environment(s), {width} numbers each"
            )
        return self._encoded(array, count)

    def _encoded(self, observations: np.ndarray, count: int) -> Float[np.ndarray, "M E"]:
        """What the procedures see of so many observations; a shared encoder runs once for all PHP steps at them."""
        features = input_features(self.network.inputs, observations, count)
        if self.network.encoder is None:
            return features
        with torch.no_grad():
            starts = range(0, len(features), ENCODED_AT_ONCE)
            rows = torch.from_numpy(features).to(self._weights)
            parts = [self.network.encode(rows[start : start + ENCODED_AT_ONCE]) for start in starts]
            return torch.cat(parts).numpy(force=True)

    @property
    def width(self) -> int:
        """How many numbers an observation has."""
        return self.network.width

    def choices(self, observations: Num[np.ndarray, "M D"], tops: Tops) -> Int[np.ndarray, "M"]:
        """The most likely PHP step of each active frame."""
        features = self._encoded(observations, len(observations))
        if self._net is None:
            return np.asarray(self._log_probabilities(features, tops).argmax(axis=1))
        choice = np.empty(len(features), dtype=np.int64)
        kernels.choices(self._machines.graph, self._net, features, *tops, choice)
        return choice

    def probabilities(self, observations: Num[np.ndarray, "M D"], tops: Tops) -> Float[np.ndarray, "M U"]:
        """The probability of each PHP step of each active frame; NaN if the step is impossible."""
        scores = self._log_probabilities(self._encoded(observations, len(observations)), tops)
        possible = self.network.possible(tops.procedure, tops.counter, tops.depth)
        return np.where(possible, np.exp(scores.astype(np.float64)), np.nan)

    def _log_probabilities(self, features: Float[np.ndarray, "M E"], tops: Tops) -> Float[np.ndarray, "M U"]:
        with torch.no_grad():
            rows = torch.from_numpy(features).to(self._weights)
            return self.network.log_probs(rows, *tops).numpy(force=True)

    def _act_batched(
        self,
        features: Float[np.ndarray, "M E"],
        uniforms: Float[np.ndarray, "M most_steps"],
        greedy: bool,
        actions: Int[np.ndarray, "M"],
        calls: Int[np.ndarray, "H"] | None = None,
    ) -> None:
        """`kernels.act` with all environments abreast; calls of each procedure are added to `calls`."""
        machines = self._machines
        actions[:] = machines.terminate
        running = np.flatnonzero(machines.heights > 0)
        turn = 0
        while running.size:
            possible = machines.policy_possible(running)
            scores = self._log_probabilities(features[running], machines.tops(running))
            choice = most_likely(scores, possible) if greedy else sampled(scores, possible, uniforms[running, turn])
            machines.step(running, choice)
            self.php_steps[running] += 1
            if calls is not None:
                np.add.at(calls, machines.tops(running[choice > machines.terminate]).procedure, 1)
            acted = choice < machines.terminate
            actions[running[acted]] = choice[acted]
            running = running[~acted & (machines.heights[running] > 0)]
            turn += 1

    def _follow_batched(
        self,
        features: Float[np.ndarray, "R E"],
        emitted: Int[np.ndarray, "R"],
        row_offsets: Int[np.ndarray, "N_plus_1"],
    ) -> Followed:
        """`kernels.follow` with all traces abreast."""
        count = len(row_offsets) - 1
        runner = ProcedurePolicy(self.network)
        runner.reset(count)
        wrong = np.zeros(count, dtype=bool)
        calls = np.zeros(len(self.graph.procedures), dtype=np.int64)
        calls[self.graph.root] = count
        actions = np.empty(count, dtype=np.int64)
        row = row_offsets[:-1].copy()
        while (runner._machines.heights > 0).any():
            alive = runner._machines.heights > 0
            runner._act_batched(features[row], np.empty((count, 0)), True, actions, calls)
            mistaken = alive & (actions != emitted[row])
            wrong |= mistaken
            runner._machines.heights[mistaken] = 0
            row[alive & ~mistaken & (actions < self.graph.terminate)] += 1
        return Followed(wrong=wrong, step_counts=runner.php_steps, calls=calls)
