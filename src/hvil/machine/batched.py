"""Many stack machines side by side, in numpy: for devices and for networks that compiled code cannot run.

The same semantics as `reference`, vectorised over machines instead of compiled; equal to it in the tests.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from hvil.machine.arrays import GraphArrays, Guide, Steps, at, empty_steps, graph_arrays
from hvil.machine.callgraph import CallGraph


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
        self.actions = len(graph.action_names)
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
        """The steps that the policy can take."""
        tops = self.tops(which)
        return np.concatenate(
            [
                self.graph.can_act[tops.procedure],
                (tops.counter > 0)[:, None],
                policy_calls(self.graph, tops.procedure, tops.depth),
            ],
            axis=1,
        )

    def posterior_possible(self, which: Int[np.ndarray, "M"], emitted: Int[np.ndarray, "M"]) -> Bool[np.ndarray, "M U"]:
        """The steps that the posterior can take, the action at this time known."""
        graph, tops = self.graph, self.tops(which)
        ending = emitted == self.actions
        action = np.where(ending, 0, emitted)
        possible = np.zeros((len(which), self.actions + 1 + graph.children.shape[1]), dtype=bool)
        possible[np.arange(len(which)), action] = graph.can_act[tops.procedure, action]
        levels = np.arange(self.procedures.shape[1])
        below = graph.reaches[np.maximum(graph.max_depth - levels, 0), self.procedures[which], action[:, None]] & (
            levels < tops.depth[:, None] - 1
        )
        possible[:, self.actions] = (tops.counter > 0) & below.any(axis=1)
        callees = graph.children[tops.procedure]
        remaining = (graph.max_depth - tops.depth)[:, None]
        possible[:, self.actions + 1 :] = (callees >= 0) & graph.reaches[remaining, callees, action[:, None]]
        possible[ending] = False
        possible[ending, self.actions] = True
        return possible

    def step(self, which: Int[np.ndarray, "M"], choice: Int[np.ndarray, "M"]) -> None:
        """Each active procedure takes its step."""
        top = self.heights[which] - 1
        returns = choice == self.actions
        stays = which[~returns]
        self.counters[stays, top[~returns]] += 1
        self.lasts[stays, top[~returns]] = choice[~returns]
        calls = choice > self.actions
        callers, position = which[calls], top[calls]
        callees = self.graph.children[self.procedures[callers, position], choice[calls] - self.actions - 1]
        self.procedures[callers, position + 1] = callees
        self.counters[callers, position + 1] = 0
        self.lasts[callers, position + 1] = -1
        self.heights[which] += calls.astype(np.int64) - returns


def policy_calls(
    graph: GraphArrays, procedure: Int[np.ndarray, "M"], depth: Int[np.ndarray, "M"]
) -> Bool[np.ndarray, "M C"]:
    """Which callees could act within the depth that remains."""
    callees = graph.children[procedure]
    return np.asarray((callees >= 0) & graph.reaches_any[(graph.max_depth - depth)[:, None], callees])


def chosen(
    log_probabilities: Float[np.ndarray, "M U"], possible: Bool[np.ndarray, "M U"], uniforms: Float[np.ndarray, "M"]
) -> Int[np.ndarray, "M"]:
    """For each row the first possible choice whose cumulative probability exceeds the uniform number."""
    cumulative = np.cumsum(np.where(possible, np.exp(log_probabilities.astype(np.float64)), 0.0), axis=1)
    beyond = (cumulative > uniforms[:, None]) & possible
    final = possible.shape[1] - 1 - np.argmax(possible[:, ::-1], axis=1)
    return np.asarray(np.where(beyond.any(axis=1), np.argmax(beyond, axis=1), final))


def most_likely(log_probabilities: Float[np.ndarray, "M U"], possible: Bool[np.ndarray, "M U"]) -> Int[np.ndarray, "M"]:
    """For each row the first of the most likely choices."""
    return np.asarray(np.argmax(np.where(possible, log_probabilities, -np.inf), axis=1))


def walk(
    graph: CallGraph,
    log_probabilities: LogProbabilities,
    emitted: Int[np.ndarray, "rows"],
    rows: Int[np.ndarray, "N_plus_1"],
    guide: Guide,
    uniforms: Float[np.ndarray, "total"],
    uniform_offsets: Int[np.ndarray, "N_plus_1"],
    greedy: bool = False,
) -> Steps:
    """Sample the posterior's steps for every trace, all traces abreast; `kernels.walk` trace by trace."""
    count = len(rows) - 1
    machines = Machines(graph, count)
    room = empty_steps(graph, int(uniform_offsets[-1]), count)
    now = rows[:-1].copy()
    taken = np.zeros(count, dtype=np.int64)
    keep = np.zeros(count, dtype=np.int64)
    popping = np.zeros(count, dtype=bool)
    arrived = np.ones(count, dtype=bool)
    while (alive := np.flatnonzero(machines.heights > 0)).size:
        action = emitted[now[alive]]
        place = np.minimum(now[alive] - alive, len(guide.stacks) - 1)
        known = (action < machines.actions) & (guide.stacks[place, 0] >= 0)
        _arrive(machines, alive[arrived[alive] & known], place[arrived[alive] & known], guide, keep, popping)
        arrived[alive] = False
        possible = machines.posterior_possible(alive, action)
        choice = np.argmax(possible, axis=1)
        free = (possible.sum(axis=1) > 1) & ~known
        if free.any():
            scores = log_probabilities(now[alive[free]], machines.tops(alive[free]), possible[free])
            numbers = uniforms[(uniform_offsets[:-1] + taken)[alive[free]]]
            choice[free] = most_likely(scores, possible[free]) if greedy else chosen(scores, possible[free], numbers)
        popping[alive] &= machines.heights[alive] > keep[alive]
        choice[known] = _guided(machines, alive[known], place[known], guide, action[known], popping)
        here = uniform_offsets[alive] + taken[alive]
        for array, values in zip(room[1:5], machines.tops(alive), strict=True):
            array[here] = values
        room.row[here], room.choice[here], room.known[here] = now[alive], choice, known
        room.posterior_possible[here], room.policy_possible[here] = possible, machines.policy_possible(alive)
        machines.step(alive, choice)
        taken[alive] += 1
        acted = alive[choice < machines.actions]
        now[acted] += 1
        arrived[acted] = True
    room.offsets[1:] = np.cumsum(taken)
    used = np.repeat(uniform_offsets[:-1] - room.offsets[:-1], taken) + np.arange(room.offsets[-1])
    return at(room, used)


def _arrive(
    machines: Machines,
    which: Int[np.ndarray, "M"],
    place: Int[np.ndarray, "M"],
    guide: Guide,
    keep: Int[np.ndarray, "N"],
    popping: Bool[np.ndarray, "N"],
) -> None:
    """At a time whose stack is known: how many frames stay, and whether any must return first."""
    depth = min(guide.stacks.shape[1], machines.procedures.shape[1])
    same = guide.stacks[place, :depth] == machines.procedures[which, :depth]
    same &= np.arange(depth) < machines.heights[which, None]
    shared = np.cumprod(same, axis=1).sum(axis=1)
    kept = guide.kept[place]
    keep[which] = np.where(kept < 0, shared, np.minimum(kept, shared))
    popping[which] = machines.heights[which] > keep[which]


def _guided(
    machines: Machines,
    which: Int[np.ndarray, "M"],
    place: Int[np.ndarray, "M"],
    guide: Guide,
    action: Int[np.ndarray, "M"],
    popping: Bool[np.ndarray, "N"],
) -> Int[np.ndarray, "M"]:
    """The steps that lead towards the known stacks: returns, then calls, then the action."""
    padded = np.pad(guide.stacks[place], ((0, 0), (0, 1)), constant_values=-1)
    heights = np.minimum(machines.heights[which], padded.shape[1] - 1)
    wanted = padded[np.arange(len(which)), heights]
    callees = machines.graph.children[machines.tops(which).procedure]
    calls = (callees == wanted[:, None]) & (wanted >= 0)[:, None]
    position = np.argmax(calls, axis=1) if calls.shape[1] else np.zeros(len(which), dtype=np.int64)
    choice = np.where(wanted >= 0, machines.actions + 1 + position, action)
    return np.where(popping[which], machines.actions, choice)
