"""What a policy did, PHP step by PHP step: greedy roll-outs in a task's environment, or along given traces.

From a recording come the invocations of each procedure: the steps that it took, and all actions below it.

Letters: N episodes, R observations of all episodes together, S PHP steps.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import gymnasium
import numpy as np
from jaxtyping import Int, Num

from hvil.data.tasks import Task
from hvil.data.traces import Traces
from hvil.machine.batched import Machines, Tops
from hvil.machine.callgraph import CallGraph

AT_ONCE = 256
MOST_ROWS = 400_000
CUT = -2
"""In place of an action, where an episode was given up."""


@runtime_checkable
class ChoosesSteps(Protocol):
    """A policy of procedures that says which PHP step it would take."""

    graph: CallGraph

    def choices(self, features: Num[np.ndarray, "M D"], tops: Tops) -> Int[np.ndarray, "M"]:
        """The most likely step of each active frame."""


class Recording(NamedTuple):
    """Greedy episodes of a policy."""

    observations: Num[np.ndarray, "R D"]
    offsets: Int[np.ndarray, "N_plus_1"]
    """Where each episode's observations begin."""
    actions: Int[np.ndarray, "R"]
    """What was done at each observation: an action, ∅ (`terminate`), or `CUT`."""
    steps: Int[np.ndarray, "S 3"]
    """Row, procedure and choice of each PHP step, in order."""
    teacher: Int[np.ndarray, "N"]
    """Whether each episode is the teacher's (1) or not (0)."""

    def __len__(self) -> int:
        return len(self.offsets) - 1


def record(policy: ChoosesSteps, traces: Traces, task: Task | None, limit: int | None = None) -> Recording:
    """Run the policy from the initial state of each trace; without a task, along the traces up to the first error.

    A policy that does not end its episodes would take for ever: beyond `MOST_ROWS` observations, the rest is left out.
    """
    limit = limit or 2 * int(traces.lengths.max()) + 50
    parts = []
    environments = [] if task is None else [task.environment() for _ in range(min(AT_ONCE, len(traces)))]
    try:
        for start in range(0, len(traces), AT_ONCE):
            group = traces[start : start + AT_ONCE]
            worlds = _Replayed(group) if task is None else _Simulated(task, environments, group)
            parts.append(_record_group(policy, worlds, group, limit))
            if sum(len(part.observations) for part in parts) > MOST_ROWS:
                break
    finally:
        for environment in environments:
            environment.close()
    return _joined(parts)


class _Simulated:
    """Environments in the initial states of traces."""

    def __init__(self, task: Task, environments: "Sequence[gymnasium.Env[Any, Any]]", traces: Traces) -> None:
        self.environments = environments
        self.start = [
            environments[i].reset(options=task.reset_options(traces, i))[0].ravel() for i in range(len(traces))
        ]

    def step(self, index: int, time: int, action: int) -> np.ndarray | None:
        """The next observation; None at the end of the episode."""
        observation, _, terminated, truncated, _ = self.environments[index].step(action)
        return None if terminated or truncated else observation.ravel()


class _Replayed:
    """Traces in place of environments: the episode goes on as long as the action is the trace's."""

    def __init__(self, traces: Traces) -> None:
        self.traces = traces
        self.rows = traces.observations.reshape(len(traces.observations), -1)
        self.start = list(self.rows[traces.row_offsets[:-1]])

    def step(self, index: int, time: int, action: int) -> np.ndarray | None:
        """The next observation; None where the policy leaves the trace."""
        first, last = self.traces.offsets[index : index + 2]
        if first + time >= last or self.traces.actions[first + time] != action:
            return None
        return np.asarray(self.rows[self.traces.row_offsets[index] + time + 1])


def _record_group(policy: ChoosesSteps, worlds: _Simulated | _Replayed, traces: Traces, limit: int) -> Recording:
    count, graph = len(traces), policy.graph
    machines = Machines(graph, count)
    observed = [[row] for row in worlds.start]
    done: list[list[int]] = [[] for _ in range(count)]
    steps: list[list[tuple[int, int, int]]] = [[] for _ in range(count)]
    now = np.stack(worlds.start)
    alive = np.ones(count, dtype=bool)
    for time in range(limit):
        running = np.flatnonzero(alive)
        while running.size:
            tops = machines.tops(running)
            choice = policy.choices(now[running], tops)
            for i, procedure, chosen in zip(running.tolist(), tops.procedure.tolist(), choice.tolist(), strict=True):
                steps[i].append((time, procedure, chosen))
            machines.step(running, choice)
            ended = machines.heights[running] == 0
            for i in running[ended].tolist():
                done[i].append(graph.terminate)
                alive[i] = False
            acting = choice < graph.terminate
            for i, action in zip(running[acting].tolist(), choice[acting].tolist(), strict=True):
                done[i].append(action)
                following = worlds.step(i, time, action)
                if following is None:
                    alive[i] = False
                else:
                    observed[i].append(following)
                    now[i] = following
            running = running[~acting & ~ended]
        if not alive.any():
            break
    for i in range(count):
        done[i] += [CUT] * (len(observed[i]) - len(done[i]))
    lengths = np.array([len(rows) for rows in observed])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    flat = [(time + offset, h, u) for offset, part in zip(offsets.tolist(), steps, strict=False) for time, h, u in part]
    teacher = [
        done[i] == [*traces.actions[traces.offsets[i] : traces.offsets[i + 1]], graph.terminate] for i in range(count)
    ]
    return Recording(
        np.concatenate([np.stack(rows) for rows in observed]),
        offsets,
        np.concatenate([np.array(part, dtype=np.int64) for part in done]),
        np.array(flat, dtype=np.int64).reshape(-1, 3),
        np.array(teacher, dtype=np.int64),
    )


def _joined(parts: Sequence[Recording]) -> Recording:
    shifts = np.cumsum([0, *(len(part.observations) for part in parts)])
    return Recording(
        np.concatenate([part.observations for part in parts]),
        np.concatenate([[0], *(part.offsets[1:] + shift for part, shift in zip(parts, shifts, strict=False))]),
        np.concatenate([part.actions for part in parts]),
        np.concatenate([part.steps + np.array([shift, 0, 0]) for part, shift in zip(parts, shifts, strict=False)]),
        np.concatenate([part.teacher for part in parts]),
    )


class Event(NamedTuple):
    """A step of an invocation, and what came before it."""

    row: int
    """The observation that it was taken at."""
    step: int
    """An action, ∅ (`terminate`), or the call of a procedure (`terminate` + 1 + procedure)."""
    signature: tuple[tuple[int, int], ...]
    """Procedure and last choice of the frames, from the invocation's own, after the action before."""


Invocation = list[Event]


class Invocations(NamedTuple):
    """All invocations of one procedure; those cut by the end of an episode have no ∅."""

    own: list[Invocation]
    """Its own steps: actions and calls."""
    flat: list[Invocation]
    """The actions of it and of everything it called."""


def invocations(recording: Recording, graph: CallGraph) -> dict[int, Invocations]:
    """The invocations of each procedure that was used."""
    found: dict[int, Invocations] = {}
    stack: list[tuple[int, Invocation, Invocation]] = []
    lasts: list[int] = []
    signature: tuple[tuple[int, int], ...] = ()
    starts = set(recording.offsets.tolist())
    previous = -1

    def begin(procedure: int) -> None:
        entry = found.setdefault(procedure, Invocations([], []))
        stack.append((procedure, [], []))
        lasts.append(-1)
        entry.own.append(stack[-1][1])
        entry.flat.append(stack[-1][2])

    for row, _, choice in recording.steps.tolist():
        if row in starts and row != previous:
            stack.clear()
            lasts.clear()
            begin(graph.root)
            signature = ()
        previous = row
        procedure, own, flat = stack[-1]
        here = signature[len(stack) - 1 :]
        if choice == graph.terminate:
            own.append(Event(row, graph.terminate, here))
            flat.append(Event(row, graph.terminate, here if flat else ()))
            stack.pop()
            lasts.pop()
            continue
        lasts[-1] = choice
        if choice > graph.terminate:
            callee = graph.calls[procedure][choice - graph.terminate - 1]
            own.append(Event(row, graph.terminate + 1 + callee, here))
            begin(callee)
            continue
        own.append(Event(row, choice, here))
        for level, (_, _, events) in enumerate(stack):
            events.append(Event(row, choice, signature[level:] if events else ()))
        signature = tuple((frame[0], last) for frame, last in zip(stack, lasts, strict=True))
    return found
