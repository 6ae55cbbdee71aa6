"""Episodes of a policy: one loop runs any policy, in a task's environment or along given traces, and records it.

`evaluation` counts what the episodes show, `explain` extracts programs from them, `report` draws them.

Letters: N episodes, R rows (the observations of all episodes together), S PHP steps, M episodes that are still running
or their machines, D numbers of an observation.
"""

from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int, Num, Shaped

from hvil.data.tasks import Task
from hvil.data.traces import TRACES_AT_ONCE, Traces
from hvil.gate.errors import InputError, one_line
from hvil.learners.learner import Policy
from hvil.machine.batched import Machines, Tops
from hvil.machine.callgraph import CallGraph
from hvil.machine.steps import Steps

CUT = -2
"""Stands at an episode's last row in place of an action if the step limit ended the episode there."""

Ending = Literal["returned", "stopped", "limit", "left"]
"""The program returned; the environment ended the episode; it took too many steps, or too long for one; the policy left
the trace that it was run along."""


@runtime_checkable
class ChoosesSteps(Protocol):
    """A policy of procedures that says which PHP step it would take."""

    graph: CallGraph

    def choices(self, features: Num[np.ndarray, "M D"], tops: Tops) -> Int[np.ndarray, "M"]:
        """The most likely step of each active frame, given the observation that the frame sees."""


@runtime_checkable
class CanBeStuck(Protocol):
    """A policy that may do nothing for ever, as a program may. It then says ∅, but its episode was not done."""

    @property
    def stuck(self) -> Bool[np.ndarray, "M"]:
        """In which environments it does nothing for ever."""


class Result(NamedTuple):
    """How one episode ended."""

    success: bool
    """The environment's verdict: the task was done. Along a trace: every action was the trace's."""
    ending: Ending
    reason: str = ""
    """What the environment said when it ended the episode, such as the kind of crash."""


class Episodes(NamedTuple):
    """What a policy did from the start of each of some traces."""

    row_offsets: Int[np.ndarray, "N_plus_1"]
    """Episode i has the rows `row_offsets[i]:row_offsets[i+1]`."""
    emitted: Int[np.ndarray, "R"]
    """What was done at each row: an action, ∅ (the number of actions) or `CUT`."""
    results: tuple[Result, ...]
    """How each episode ended."""
    wrong: Bool[np.ndarray, "N"]
    """Whether something was done in the episode that the teacher did not do, the ∅ at the end included."""
    observations: Shaped[np.ndarray, "R ..."] | None
    """What the policy saw at each row; None if only the actions were recorded."""
    steps: Steps | None
    """The PHP steps; None for a policy without procedures, and if only the actions were recorded."""

    def __len__(self) -> int:
        return len(self.results)

    @property
    def success(self) -> Bool[np.ndarray, "N"]:
        """In which episodes the task was done."""
        return np.array([result.success for result in self.results], dtype=bool)

    @property
    def truncated(self) -> Bool[np.ndarray, "N"]:
        """Which episodes the step limit ended."""
        return np.array([result.ending == "limit" for result in self.results], dtype=bool)


def step_limit(traces: Traces) -> int:
    """Actions after which an episode from the start of one of these traces is given up.

    A policy may do the task by another way than the teacher: twice the longest trace leaves room for it, and 50 more
    actions leave room where all traces are short. A policy that never ends takes no longer than that.
    """
    return 2 * int(traces.lengths.max()) + 50


def record(
    policy: Policy | ChoosesSteps,
    traces: Traces,
    task: Task | None = None,
    *,
    details: bool = True,
    greedy: bool = True,
    seed: int = 0,
    limit: int | None = None,
    most_rows: int | None = None,
) -> Episodes:
    """Run a policy from the start of each trace, many traces at a time.

    Args:
        policy: what to run.
        traces: teacher traces; with a task, their metadata hold the initial states.
        task: where to run; None: along the traces, each up to the first action that is not the trace's.
        details: also record the observations, and the PHP steps of a policy of procedures. Without them, such a policy
            runs in compiled code, and long episodes with large observations take no memory.
        greedy: take the most likely action, or a sampled one (only without details).
        seed: of the samples.
        limit: actions after which an episode is given up; by default `step_limit`.
        most_rows: do not begin another group of traces after so many rows. The episodes of the traces at the end are
            then missing.
    """
    _check_actions(policy, task)
    if details and not greedy:
        raise InputError("details are recorded of the greedy policy only")
    limit = limit or step_limit(traces)
    journal = _Journal(details)
    with closing(_Worlds(task, min(TRACES_AT_ONCE, len(traces)))) as worlds:
        for group in traces.parts():
            player = _player(policy, len(group), details, greedy, seed + journal.episodes)
            _play(player, worlds, group, limit, journal)
            if most_rows is not None and journal.rows > most_rows:
                break
    return journal.recorded(traces[: journal.episodes])


def _check_actions(policy: Policy | ChoosesSteps, task: Task | None) -> None:
    own = policy.graph.action_names if isinstance(policy, ChoosesSteps) else policy.action_names
    if task is not None and task.action_names != own:
        raise InputError(f"{task.name}: its actions {task.action_names} are not the policy's {own}")


def _play(player: "_Actor | _Stepper", worlds: "_Worlds", traces: Traces, limit: int, journal: "_Journal") -> None:
    """Play one episode for each trace, all of them side by side."""
    observations = worlds.reset(traces)
    results = [Result(success=False, ending="limit")] * len(traces)
    running = np.arange(len(traces))
    for time in range(limit):
        actions = player.act(observations, running, time)
        journal.add(running, observations, actions)
        goes_on = np.ones(len(running), dtype=bool)
        stuck = player.stuck(running)
        for position, (i, action) in enumerate(zip(running.tolist(), actions.tolist(), strict=True)):
            observations[i], result = worlds.step(i, action)
            if stuck[position]:
                result = Result(success=False, ending="limit")
            if result is not None:
                results[i] = result
                goes_on[position] = False
        running = running[goes_on]
        if not running.size:
            break
    # Episodes that are still running have come to the limit.
    journal.add(running, observations, np.full(len(running), CUT))
    journal.end_group(results, player.steps)


class _Actor:
    """Runs any policy: asks it for its actions alone."""

    steps: Sequence[Int[np.ndarray, "M columns"]] = ()

    def __init__(self, policy: Policy, count: int, greedy: bool, seed: int) -> None:
        self._policy, self._greedy = policy, greedy
        policy.reset(count, seed)

    def act(self, observations: np.ndarray, running: Int[np.ndarray, "M"], time: int) -> Int[np.ndarray, "M"]:
        """The next action of each running episode."""
        # Episodes that have ended keep their last observation, because the policy expects a batch of one size.
        actions: np.ndarray = np.asarray(self._policy.act(observations, self._greedy))[running]
        if actions.ndim == 2:  # continuous: one kind of action, and NaN for ∅
            return np.where(np.isnan(actions).any(axis=1), 1, 0)
        return actions

    def stuck(self, running: Int[np.ndarray, "M"]) -> Bool[np.ndarray, "M"]:
        """In which running episodes the policy does nothing for ever."""
        if isinstance(self._policy, CanBeStuck):
            return np.asarray(self._policy.stuck[running])
        return np.zeros(len(running), dtype=bool)


class _Stepper:
    """Runs a policy of procedures: asks it for one PHP step after another, and keeps the steps."""

    def __init__(self, policy: ChoosesSteps, count: int) -> None:
        self._policy = policy
        self._machines = Machines(policy.graph, count)
        self.steps: list[Int[np.ndarray, "M columns"]] = []
        """Episode, time, the active frame with its depth, and the choice."""

    def act(self, observations: np.ndarray, running: Int[np.ndarray, "M"], time: int) -> Int[np.ndarray, "M"]:
        """The next action of each running episode."""
        machines, terminate = self._machines, self._policy.graph.terminate
        features = observations.reshape(len(observations), -1)
        actions = np.full(len(observations), terminate, dtype=np.int64)
        waiting = running
        while waiting.size:
            tops = machines.tops(waiting)
            choice = self._policy.choices(features[waiting], tops)
            self.steps.append(np.stack([waiting, np.full_like(waiting, time), *tops, choice], axis=1))
            machines.step(waiting, choice)
            acted = choice < terminate
            actions[waiting[acted]] = choice[acted]
            waiting = waiting[~acted & (machines.heights[waiting] > 0)]
        return np.asarray(actions[running])

    def stuck(self, running: Int[np.ndarray, "M"]) -> Bool[np.ndarray, "M"]:
        """A stack machine is never stuck: every procedure begins with an action or a call, and the stack is bounded."""
        return np.zeros(len(running), dtype=bool)


def _player(policy: Policy | ChoosesSteps, count: int, details: bool, greedy: bool, seed: int) -> _Actor | _Stepper:
    if details and isinstance(policy, ChoosesSteps):
        return _Stepper(policy, count)
    assert isinstance(policy, Policy)
    return _Actor(policy, count, greedy, seed)


class _TraceEnvironment:
    """A trace in place of an environment: it shows the next observation as long as the actions are the trace's."""

    def __init__(self, observations: np.ndarray, emitted: Int[np.ndarray, "rows"]) -> None:
        self._observations, self._emitted, self._time = observations, emitted, 0

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """As in Gymnasium; `left` says that the action was not the trace's."""
        right = bool(action == self._emitted[self._time])
        if right and self._time + 1 < len(self._observations):
            self._time += 1
            return self._observations[self._time], 0.0, False, False, {}
        return self._observations[self._time], float(right), True, False, {"success": right, "left": not right}


class _Worlds:
    """What a group of episodes plays in: a task's environments, or the traces themselves."""

    def __init__(self, task: Task | None, count: int) -> None:
        self._task = task
        self._environments: list[Any] = [] if task is None else [task.environment() for _ in range(count)]
        self._terminate = -1

    def reset(self, traces: Traces) -> np.ndarray:
        """Begin at the start of each trace; the first observations."""
        self._terminate = len(traces.action_names)
        task, rows = self._task, traces.row_offsets
        if task is None:
            emitted, pairs = traces.emitted(), pairwise(rows.tolist())
            self._environments = [_TraceEnvironment(traces.observations[a:b], emitted[a:b]) for a, b in pairs]
            return np.asarray(traces.observations[rows[:-1]])
        return np.stack([self._begun(task, traces, i) for i in range(len(traces))])

    def _begun(self, task: Task, traces: Traces, index: int) -> np.ndarray:
        """The first observation of an episode that begins where a trace does."""
        try:
            observation, _ = self._environments[index].reset(options=task.reset_options(traces, index))
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise InputError(
                f"{task.name}: trace {index} does not say where it begins ({one_line(error, 200)})"
            ) from error
        return np.asarray(observation)

    def step(self, index: int, action: int) -> tuple[np.ndarray, "Result | None"]:
        """The next observation, and the result if the episode has ended."""
        observation, _, terminated, truncated, info = self._environments[index].step(action)
        if not (terminated or truncated):
            return observation, None
        ending: Ending = "returned" if action == self._terminate else "stopped"
        return observation, Result(
            success=bool(terminated and info.get("success", False)),
            ending="limit" if not terminated else "left" if info.get("left") else ending,
            reason=str(info.get("crash") or ""),
        )

    def close(self) -> None:
        """Close the environments."""
        for environment in self._environments if self._task is not None else ():
            environment.close()


class _Journal:
    """What happened, noted time after time and sorted by episodes at the end."""

    def __init__(self, details: bool) -> None:
        self._details = details
        self._who: list[np.ndarray] = []
        self._saw: list[np.ndarray] = []
        self._did: list[np.ndarray] = []
        self._steps: list[np.ndarray] = []
        self._results: list[Result] = []
        self.rows = 0

    @property
    def episodes(self) -> int:
        """How many episodes have been played."""
        return len(self._results)

    def add(self, running: Int[np.ndarray, "M"], observations: np.ndarray, emitted: Int[np.ndarray, "M"]) -> None:
        """Note a time of the group that is playing."""
        self._who.append(running + self.episodes)
        self._did.append(emitted)
        if self._details:
            self._saw.append(observations[running])
        self.rows += len(running)

    def end_group(self, results: Sequence[Result], steps: Sequence[Int[np.ndarray, "M columns"]]) -> None:
        """Note the results and the PHP steps of the group that has played."""
        for taken in steps:
            taken[:, 0] += self.episodes
            self._steps.append(taken)
        self._results += results

    def recorded(self, traces: Traces) -> Episodes:
        """All episodes; the traces are the teacher's, in the same order."""
        episode = np.concatenate(self._who)
        order = np.argsort(episode, kind="stable")
        row_offsets = np.append(0, np.cumsum(np.bincount(episode, minlength=self.episodes)))
        emitted = np.concatenate(self._did)[order]
        cut_short = np.array([result.ending == "limit" for result in self._results], dtype=bool)
        return Episodes(
            row_offsets=row_offsets,
            emitted=emitted,
            results=tuple(self._results),
            wrong=_differs_from_teacher(row_offsets, emitted, traces) | cut_short,
            observations=np.concatenate(self._saw)[order] if self._details else None,
            steps=_steps(np.concatenate(self._steps), row_offsets) if self._steps else None,
        )


def _steps(taken: Int[np.ndarray, "S columns"], row_offsets: Int[np.ndarray, "N_plus_1"]) -> Steps:
    """Steps in the order of the episodes, from steps in the order of times."""
    episode, time, procedure, counter, last, depth, choice = taken[np.argsort(taken[:, 0], kind="stable")].T
    counts = np.bincount(episode, minlength=len(row_offsets) - 1)
    return Steps(
        row=row_offsets[episode] + time,
        procedure=procedure,
        counter=counter,
        last=last,
        depth=depth,
        choice=choice,
        offsets=np.append(0, np.cumsum(counts)),
    )


def _differs_from_teacher(
    row_offsets: Int[np.ndarray, "N_plus_1"], emitted: Int[np.ndarray, "R"], traces: Traces
) -> Bool[np.ndarray, "N"]:
    """In which episodes something was done that the teacher does not do at that time."""
    episode = np.repeat(np.arange(len(traces)), np.diff(row_offsets))
    time = np.arange(len(emitted)) - row_offsets[episode]
    lengths = traces.lengths[episode]
    teacher = traces.emitted()[traces.row_offsets[episode] + np.minimum(time, lengths)]
    differs = (emitted != teacher) | (time > lengths)
    return np.bincount(episode, weights=differs, minlength=len(traces)) > 0
