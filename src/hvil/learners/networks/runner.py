"""Running a policy of procedures: reset, act, the call stack; one environment or many; greedy or sampled.

Perceptrons of single precision on the CPU run in compiled code, everything else through `machine.batched`.

Letters: M environments or frames, N traces, R rows, D numbers of an observation, E features that the bank sees,
U choices, H procedures, S actions of all traces together, A numbers of a continuous action.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Num

from hvil.data.inputs import features as input_features
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.networks.action_head import ActionHead
from hvil.learners.networks.bank import Frames, MlpBank
from hvil.learners.networks.dispatch import can_compile
from hvil.learners.networks.policy import PolicyNetwork
from hvil.machine import kernels
from hvil.machine.arrays import NetworkArrays
from hvil.machine.batched import Machines, Tops, most_likely, sampled
from hvil.machine.reference import NONE

ENDED = "∅"
"""The end of the program among the names of actions."""
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


class NamedFrame(NamedTuple):
    """One procedure on the stack, in words."""

    procedure: str
    counter: int
    """τ, how many steps it has taken."""
    last: str | None
    """The action or call that it took last; None at first."""


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

    def __repr__(self) -> str:
        names = self.graph.procedures
        stacks = self.stack if isinstance(self.stack, list) else [self.stack]
        now = " > ".join(frame.procedure for frame in stacks[0]) or "ended"
        where = f"stack {now}" if self._single else f"{len(stacks)} environments"
        return f"ProcedurePolicy({len(names)} procedures, actions {', '.join(self.action_names)}; {where})"

    @property
    def stack(self) -> tuple[NamedFrame, ...] | list[tuple[NamedFrame, ...]]:
        """The call stack (root first), or one for each environment of a batch; empty when the program has ended."""
        machines = self._machines
        stacks = [
            tuple(
                NamedFrame(
                    procedure=self.graph.procedures[machines.procedures[i, level]],
                    counter=int(machines.counters[i, level]),
                    last=self._step_name(int(machines.lasts[i, level])),
                )
                for level in range(machines.heights[i])
            )
            for i in range(len(machines.heights))
        ]
        return stacks[0] if self._single else stacks

    def _step_name(self, step: int) -> str | None:
        """The name of an action or of the procedure that a call begins; None for no step."""
        names = (*self.action_names, ENDED, *self.graph.procedures)
        return None if step == NONE else names[step]

    def probabilities(self, observation: Any) -> dict[str, float] | list[dict[str, float]]:
        """How likely each action is to be the next one, and `∅`, the end; for a batch a mapping each.

        It sums over all returns and calls that can come before the action. The stack does not change.

        Args:
            observation: as for `act`.
        """
        features = self._features(observation)
        found = [self._next_action(row, features[row : row + 1]) for row in range(len(features))]
        named = [dict(zip((*self.action_names, ENDED), chances.tolist(), strict=True)) for chances in found]
        return named[0] if self._single else named

    def _next_action(self, row: int, features: Float[np.ndarray, "1 E"]) -> Float[np.ndarray, "_"]:
        """The probability of each action, and of the end, in one environment."""
        machines, end = self._machines, self.graph.terminate
        fresh: dict[tuple[int, int], np.ndarray] = {}

        def from_frame(procedure: int, counter: int, last: int, depth: int) -> np.ndarray:
            tops = Tops(*(np.array([number]) for number in (procedure, counter, last, depth)))
            chances = np.exp(self._log_probabilities(features, tops).astype(np.float64))[0]
            result = np.zeros(end + 1)
            result[:end] = chances[:end]
            result[end] = chances[end] if counter else 0.0
            for callee in np.flatnonzero(chances[end + 1 :]).tolist():
                result[:end] += chances[end + 1 + callee] * called(callee, depth + 1)[:end]
            return result

        def called(procedure: int, depth: int) -> np.ndarray:
            """The same for a procedure that has just been called; it cannot return before it acts."""
            if (procedure, depth) not in fresh:
                fresh[procedure, depth] = from_frame(procedure, 0, NONE, depth)
            return fresh[procedure, depth]

        chances = np.zeros(end + 1)
        chances[end] = 1.0  # with no frame left, the program has ended
        for level in range(int(machines.heights[row])):
            here = from_frame(
                procedure=int(machines.procedures[row, level]),
                counter=int(machines.counters[row, level]),
                last=int(machines.lasts[row, level]),
                depth=level + 1,
            )
            chances = np.append(here[:end], 0.0) + here[end] * chances
        return chances

    def act(self, observation: Any, greedy: bool = True) -> Any:
        """The next action (an int, or an array of them); the number of actions once the program has ended.

        A continuous action is a vector in the data's units (or an array with one in each row): the mean of the
        procedure that acts, or a sample; NaN once the program has ended.

        Args:
            observation: an array, or values by the names of their columns; for a batch a row or a mapping each.
            greedy: take the most likely step each time; otherwise draw one.
        """
        features = self._features(observation)
        machines = self._machines
        actions = np.empty(len(features), dtype=np.int64)
        befores = np.empty(len(features), dtype=np.int64)
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
                befores,
                self.php_steps,
            )
        else:
            self._act_batched(features, uniforms, greedy, actions, befores)
        if self.network.head is not None:
            vectors = self._vectors(self.network.head, features, actions, befores, greedy)
            return vectors[0] if self._single else vectors
        return int(actions[0]) if self._single else actions

    @property
    def ended(self) -> bool | Bool[np.ndarray, "M"]:
        """Whether the program has ended, or in which environments of a batch."""
        over = self._machines.heights == 0
        return bool(over[0]) if self._single else over

    def _vectors(
        self,
        head: ActionHead,
        features: Float[np.ndarray, "M E"],
        actions: Int[np.ndarray, "M"],
        befores: Int[np.ndarray, "M"],
        greedy: bool,
    ) -> Float[np.ndarray, "M A"]:
        """The continuous actions of environments that have just acted; NaN where the program has ended."""
        scale = self.network.actions
        assert scale is not None
        acted = np.flatnonzero(actions < self.graph.terminate)
        tops = self._machines.tops(acted)
        frames = Frames(tops.counter - 1, befores[acted])  # as the frames were before they acted
        with torch.no_grad():
            rows = torch.from_numpy(features[acted]).to(self._weights)
            vectors = head.mean_vectors(rows, tops.procedure, frames).numpy(force=True)
            if not greedy:
                deviations = head.deviations.numpy(force=True)[tops.procedure]
                vectors = vectors + deviations * self._rng.standard_normal(vectors.shape)
        result = np.full((len(features), scale.width), np.nan, dtype=np.float32)
        result[acted] = scale.in_units(vectors)
        return result

    @property
    def vector_names(self) -> tuple[str, ...]:
        """Of the numbers of a continuous action; empty for discrete actions."""
        return () if self.network.actions is None else self.network.actions.names

    def frame_vectors(self, observations: Num[np.ndarray, "M D"], tops: Tops) -> Float[np.ndarray, "M A"]:
        """The mean of the continuous action of each active frame, if it acts, in the data's units."""
        head, scale = self.network.head, self.network.actions
        assert head is not None
        assert scale is not None
        with torch.no_grad():
            rows = torch.from_numpy(self._encoded(observations, len(observations))).to(self._weights)
            means = head.mean_vectors(rows, tops.procedure, Frames(tops.counter, tops.last))
            return scale.in_units(means.numpy(force=True))

    def vectors_along(self, traces: Traces) -> Float[np.ndarray, "S A"]:
        """The continuous actions of the greedy policy along each teacher trace; NaN once its program has ended."""
        parts = []
        for part in traces.parts():
            observations, _, lengths = part.padded()
            runner = ProcedurePolicy(self.network)
            runner.reset(len(part))
            vectors = np.stack([runner.act(observations[:, t]) for t in range(int(lengths.max()))], axis=1)
            parts.append(vectors[np.arange(vectors.shape[1]) < lengths[:, None]])
        return np.concatenate(parts)

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

    def _features(self, observation: Any) -> Float[np.ndarray, "M E"]:
        """What the procedures see of one observation for each environment."""
        count = len(self._machines.heights)
        return self._encoded(self.network.reader(observation, count, self._single), count)

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

    def step_probabilities(self, observations: Num[np.ndarray, "M D"], tops: Tops) -> Float[np.ndarray, "M U"]:
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
        befores: Int[np.ndarray, "M"],
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
            befores[running] = machines.tops(running).last
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
        actions, befores = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        row = row_offsets[:-1].copy()
        while (runner._machines.heights > 0).any():
            alive = runner._machines.heights > 0
            runner._act_batched(features[row], np.empty((count, 0)), True, actions, befores, calls)
            mistaken = alive & (actions != emitted[row])
            wrong |= mistaken
            runner._machines.heights[mistaken] = 0
            row[alive & ~mistaken & (actions < self.graph.terminate)] += 1
        return Followed(wrong=wrong, step_counts=runner.php_steps, calls=calls)
