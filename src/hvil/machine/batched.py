"""Many stack machines side by side, in numpy: for devices and for networks that compiled code cannot run.

They mean the same as `reference` (tests show it); here a step is vectorised over machines instead of compiled.

Letters: M some of the machines, N all of them (one a trace), U choices.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from hvil.machine.arrays import GraphArrays, Guide, graph_arrays
from hvil.machine.callgraph import CallGraph
from hvil.machine.steps import Walk, room_for_walk, selected


class Tops(NamedTuple):
    """The active frames of some machines."""

    procedure: Int[np.ndarray, "M"]
    counter: Int[np.ndarray, "M"]
    last: Int[np.ndarray, "M"]
    depth: Int[np.ndarray, "M"]


LogProbabilities = Callable[
    [Int[np.ndarray, "M"], Tops, Bool[np.ndarray, "M U"]],
    Float[np.ndarray, "M U"],
]
"""From the machines' rows, their active frames and masks to masked log-probabilities."""


class Machines:
    """The stacks of many machines."""

    def __init__(self, graph: CallGraph, count: int) -> None:
        self.graph: GraphArrays = graph_arrays(graph)
        self.terminate = graph.terminate
        self.procedures = np.zeros((count, graph.max_depth + 1), dtype=np.int64)
        self.counters = np.zeros_like(self.procedures)
        self.lasts = np.zeros_like(self.procedures)
        self.heights = np.zeros(count, dtype=np.int64)
        self.start(np.arange(count))

    def start(self, which: Int[np.ndarray, "M"]) -> None:
        """Begin new episodes."""
        self.procedures[which, 0], self.counters[which, 0], self.lasts[which, 0] = self.graph.root, 0, -1
        self.heights[which] = 1

    def tops(self, which: Int[np.ndarray, "M"]) -> Tops:
        """The active frames."""
        top = self.heights[which] - 1
        return Tops(self.procedures[which, top], self.counters[which, top], self.lasts[which, top], self.heights[which])

    def policy_possible(self, which: Int[np.ndarray, "M"]) -> Bool[np.ndarray, "M U"]:
        """The steps that the policy can take (`reference.policy_steps`)."""
        tops = self.tops(which)
        return policy_possible(self.graph, tops.procedure, tops.counter, tops.depth)

    def posterior_possible(self, which: Int[np.ndarray, "M"], emitted: Int[np.ndarray, "M"]) -> Bool[np.ndarray, "M U"]:
        """The steps that the posterior can take, given what is emitted at this time (`reference.posterior_steps`)."""
        graph, tops = self.graph, self.tops(which)
        ending = emitted == self.terminate
        action = np.where(ending, 0, emitted)  # any action will do where the trace ends: those rows are set below
        possible = np.zeros((len(which), self.terminate + 1 + graph.children.shape[1]), dtype=bool)
        possible[np.arange(len(which)), action] = graph.can_act[tops.procedure, action]
        levels = np.arange(self.procedures.shape[1])
        below = graph.reaches[np.maximum(graph.max_depth - levels, 0), self.procedures[which], action[:, None]] & (
            levels < tops.depth[:, None] - 1
        )
        possible[:, self.terminate] = (tops.counter > 0) & below.any(axis=1)
        callees = graph.children[tops.procedure]
        remaining = (graph.max_depth - tops.depth)[:, None]
        possible[:, self.terminate + 1 :] = (callees >= 0) & graph.reaches[remaining, callees, action[:, None]]
        possible[ending] = False
        possible[ending, self.terminate] = True
        return possible

    def step(self, which: Int[np.ndarray, "M"], choice: Int[np.ndarray, "M"]) -> None:
        """Each active procedure takes its step (`reference.step`)."""
        top = self.heights[which] - 1
        returns = choice == self.terminate
        stays = which[~returns]
        self.counters[stays, top[~returns]] += 1
        self.lasts[stays, top[~returns]] = choice[~returns]
        calls = choice > self.terminate
        callers, level = which[calls], top[calls]
        callees = self.graph.children[self.procedures[callers, level], choice[calls] - self.terminate - 1]
        self.procedures[callers, level + 1] = callees
        self.counters[callers, level + 1] = 0
        self.lasts[callers, level + 1] = -1
        self.heights[which] += calls.astype(np.int64) - returns


def policy_possible(
    graph: GraphArrays,
    procedure: Int[np.ndarray, "M"],
    counter: Int[np.ndarray, "M"],
    depth: Int[np.ndarray, "M"],
) -> Bool[np.ndarray, "M U"]:
    """The policy's mask: a frame returns after its first step, and calls what could act within the remaining depth."""
    callees = graph.children[procedure]
    calls = (callees >= 0) & graph.reaches_any[(graph.max_depth - depth)[:, None], callees]
    return np.concatenate([graph.can_act[procedure], (counter > 0)[:, None], calls], axis=1)


def sampled(
    log_probabilities: Float[np.ndarray, "M U"], possible: Bool[np.ndarray, "M U"], uniforms: Float[np.ndarray, "M"]
) -> Int[np.ndarray, "M"]:
    """For each row the first possible choice whose cumulative probability exceeds the uniform number."""
    cumulative = np.cumsum(np.where(possible, np.exp(log_probabilities.astype(np.float64)), 0.0), axis=1)
    beyond = (cumulative > uniforms[:, None]) & possible
    final = possible.shape[1] - 1 - np.argmax(possible[:, ::-1], axis=1)  # where rounding leaves the sum below 1
    return np.asarray(np.where(beyond.any(axis=1), np.argmax(beyond, axis=1), final))


def most_likely(log_probabilities: Float[np.ndarray, "M U"], possible: Bool[np.ndarray, "M U"]) -> Int[np.ndarray, "M"]:
    """For each row the first of the most likely choices."""
    return np.asarray(np.argmax(np.where(possible, log_probabilities, -np.inf), axis=1))


def walk(
    graph: CallGraph,
    log_probabilities: LogProbabilities,
    emitted: Int[np.ndarray, "rows"],
    row_offsets: Int[np.ndarray, "N_plus_1"],
    guide: Guide,
    uniforms: Float[np.ndarray, "total"],
    uniform_offsets: Int[np.ndarray, "W_plus_1"],
    greedy: bool = False,
) -> Walk:
    """Sample the posterior's steps of every walk: `kernels.walk`, with all walks abreast."""
    count = len(uniform_offsets) - 1
    trace = np.repeat(np.arange(len(row_offsets) - 1), count // (len(row_offsets) - 1))
    machines = Machines(graph, count)
    taken = room_for_walk(graph, int(uniform_offsets[-1]), count)
    steps = taken.steps
    row = row_offsets[trace]
    step_counts = np.zeros(count, dtype=np.int64)
    towards = _Towards(machines, guide)
    while (alive := np.flatnonzero(machines.heights > 0)).size:
        emitted_now = emitted[row[alive]]
        # A trace has one row more than actions; the last row of the last trace has no action to look up.
        action = np.minimum(row[alive] - trace[alive], len(guide.stacks) - 1)
        annotated = (emitted_now < machines.terminate) & (guide.stacks[action, 0] >= 0)
        possible = machines.posterior_possible(alive, emitted_now)
        choice = np.argmax(possible, axis=1)
        free = (possible.sum(axis=1) > 1) & ~annotated
        if free.any():
            scores = log_probabilities(row[alive[free]], machines.tops(alive[free]), possible[free])
            numbers = uniforms[(uniform_offsets[:-1] + step_counts)[alive[free]]]
            choice[free] = most_likely(scores, possible[free]) if greedy else sampled(scores, possible[free], numbers)
        choice[annotated] = towards.choice(alive[annotated], action[annotated], emitted_now[annotated])
        i = uniform_offsets[alive] + step_counts[alive]
        for column, values in zip(steps[1:5], machines.tops(alive), strict=True):
            column[i] = values
        steps.row[i], steps.choice[i], taken.annotated[i] = row[alive], choice, annotated
        taken.posterior_possible[i], taken.policy_possible[i] = possible, machines.policy_possible(alive)
        machines.step(alive, choice)
        step_counts[alive] += 1
        acted = alive[choice < machines.terminate]
        row[acted] += 1
        towards.new_time[acted] = True
    steps.offsets[1:] = np.cumsum(step_counts)
    filled = np.repeat(uniform_offsets[:-1] - steps.offsets[:-1], step_counts) + np.arange(steps.offsets[-1])
    return selected(taken, filled)


class _Towards:
    """The way of machines to annotated stacks (`reference.steps_towards`): returns, then calls, then the action."""

    def __init__(self, machines: Machines, guide: Guide) -> None:
        count = len(machines.heights)
        self.machines, self.guide = machines, guide
        self.new_time = np.ones(count, dtype=bool)
        """Whether the machine takes its first step at this time."""
        self.keep = np.zeros(count, dtype=np.int64)
        """How many frames stay at this time."""
        self.returning = np.zeros(count, dtype=bool)
        """Whether frames above those still have to return."""

    def choice(
        self, which: Int[np.ndarray, "M"], action: Int[np.ndarray, "M"], emitted: Int[np.ndarray, "M"]
    ) -> Int[np.ndarray, "M"]:
        """The next step of some machines; `action` says which annotated stack each is to reach."""
        machines, arrived = self.machines, self.new_time[which]
        self._begin(which[arrived], action[arrived])
        # Frames return only before the first call: what was called at this time stays.
        self.returning[which] &= machines.heights[which] > self.keep[which]
        wanted_stacks = np.pad(self.guide.stacks[action], ((0, 0), (0, 1)), constant_values=-1)
        level = np.minimum(machines.heights[which], wanted_stacks.shape[1] - 1)
        wanted = wanted_stacks[np.arange(len(which)), level]
        callees = machines.graph.children[machines.tops(which).procedure]
        calls = (callees == wanted[:, None]) & (wanted >= 0)[:, None]
        call = machines.terminate + 1 + (calls * np.arange(calls.shape[1])).sum(axis=1)
        choice = np.where(calls.any(axis=1), call, emitted)
        return np.where(self.returning[which], machines.terminate, choice)

    def _begin(self, which: Int[np.ndarray, "M"], action: Int[np.ndarray, "M"]) -> None:
        """At the first step of a time: how many frames stay, and whether any must return."""
        machines, guide = self.machines, self.guide
        self.new_time[which] = False
        depth = min(guide.stacks.shape[1], machines.procedures.shape[1])
        same = guide.stacks[action, :depth] == machines.procedures[which, :depth]
        same &= np.arange(depth) < machines.heights[which, None]
        shared = np.cumprod(same, axis=1).sum(axis=1)
        kept = guide.kept[action]
        self.keep[which] = np.where(kept < 0, shared, np.minimum(kept, shared))
        self.returning[which] = machines.heights[which] > self.keep[which]
