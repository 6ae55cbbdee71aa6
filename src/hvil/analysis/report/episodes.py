"""Episodes to look at: a policy plays from the start of each trace, and every PHP step is kept with its distribution.

Where there is no environment the policy is led along the trace instead, up to its first wrong action. Pictures and the
page are made elsewhere in this package.

Letters: S PHP steps, U choices, T actions.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Num

from hvil.data.tasks import Task
from hvil.data.traces import Traces
from hvil.learners.learner import Learner, Policy
from hvil.learners.networks.runner import PhpStep

Ending = Literal["returned", "stopped", "limit", "left"]
"""The program returned; the environment stopped it; it took too long; it left the trace that it was led along."""


class Step(NamedTuple):
    """One PHP step."""

    time: int
    """How many actions were taken before it."""
    procedure: int
    """-1 for a policy without procedures."""
    counter: int
    last: int
    depth: int
    choice: int
    policy: Float[np.ndarray, "U"] | None
    """Probability of each choice under p; NaN if impossible."""
    posterior: Float[np.ndarray, "U"] | None = None
    """Under q, which has seen the teacher's whole trace; None where the episode is not on that trace."""


class Episode(NamedTuple):
    """What the policy did from the start of one trace."""

    trace: int
    """Index of the trace."""
    success: bool
    ending: Ending
    reason: str
    """What the environment said when it stopped the episode, or nothing."""
    observations: list[np.ndarray]
    """What the policy saw at each time."""
    actions: list[int]
    """What it did; the final ∅ is not among them."""
    teacher: list[int]
    """What the teacher did."""
    steps: list[Step]

    @property
    def divergence(self) -> int | None:
        """The first time at which the policy did not do what the teacher did."""
        end = -1  # stands for ∅
        own = [*self.actions, *([end] if self.steps[-1].time == len(self.actions) else [])]
        pairs = zip(own, [*self.teacher, end], strict=False)
        return next((time for time, (action, wanted) in enumerate(pairs) if action != wanted), None)


@runtime_checkable
class Watched(Protocol):
    """A policy of procedures, which can be watched while it acts."""

    def watch(self, observation: Num[np.ndarray, "..."]) -> list[PhpStep]:
        """The PHP steps up to the next action."""


def play(policy: Policy, traces: Traces, task: Task | None, indices: Iterable[int]) -> Iterator[Episode]:
    """Let the greedy policy play from the start of some traces: in the task's environment, or along the trace."""
    with closing(task.environment() if task is not None else _TraceWorld(traces)) as world:
        for index in indices:
            options = task.reset_options(traces, index) if task is not None else {"trace": index}
            yield _play(policy, world, options, traces, index)


def _play(policy: Policy, world: Any, options: dict[str, Any], traces: Traces, index: int) -> Episode:
    teacher = traces.actions[traces.offsets[index] : traces.offsets[index + 1]].tolist()
    observation, _ = world.reset(options=options)
    policy.reset()
    terminate = len(policy.action_names)
    observations = [np.asarray(observation)]
    actions: list[int] = []
    steps: list[Step] = []
    ending: Ending = "limit"
    success, reason = False, ""
    for time in range(2 * len(teacher) + 50):
        if isinstance(policy, Watched):
            taken = policy.watch(observations[-1])
            steps += [Step(time, *step.frame, step.depth, step.choice, step.probabilities) for step in taken]
            action = taken[-1].choice
        else:
            action = int(policy.act(observations[-1]))
            steps.append(Step(time, -1, time, actions[-1] if actions else -1, 0, action, None))
        observation, _, terminated, truncated, info = world.step(action)
        if action < terminate:
            actions.append(action)
            observations.append(np.asarray(observation))
        if terminated or truncated:
            success = bool(terminated and info.get("success", False))
            reason = str(info.get("crash") or "")
            returned = action == terminate and not info.get("left")
            ending = "left" if info.get("left") else "returned" if returned else "stopped" if terminated else "limit"
            break
    return Episode(index, success, ending, reason, observations, actions, teacher, steps)


class _TraceWorld:
    """Given traces in the form of an environment: it shows the next observation as long as the actions are right."""

    def __init__(self, traces: Traces) -> None:
        self._traces = traces

    def reset(self, options: dict[str, Any]) -> tuple[np.ndarray, dict[str, Any]]:
        trace = self._traces[options["trace"]]
        self._actions, self._observations, self._time = [*trace.actions.tolist(), None], trace.observations, 0
        return self._observations[0], {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        wanted = self._actions[self._time]
        ends = action == len(self._traces.action_names)
        if ends or action != wanted:
            success = ends and wanted is None
            return (
                self._observations[self._time],
                float(success),
                True,
                False,
                {"success": success, "left": not success},
            )
        self._time += 1
        return self._observations[self._time], 0.0, False, False, {}

    def close(self) -> None:
        """Nothing is open."""


class Calls(NamedTuple):
    """How often each edge of the call graph was taken, and each action by each procedure."""

    calls: Counter[tuple[int, int]]
    acts: Counter[tuple[int, int]]


def count_calls(episodes: Sequence[Episode], callees: Sequence[Sequence[int]], actions: int) -> Calls:
    """Count over all steps of the episodes."""
    counts = Calls(Counter(), Counter())
    for step in (step for episode in episodes for step in episode.steps if step.procedure >= 0):
        if step.choice > actions:
            counts.calls[step.procedure, callees[step.procedure][step.choice - actions - 1]] += 1
        elif step.choice < actions:
            counts.acts[step.procedure, step.choice] += 1
    return counts


def chosen(episodes: Sequence[Episode], count: int) -> list[Episode]:
    """Which episodes to show: a typical one of each kind that occurs, then as many of each as there is room for.

    The kinds: a success by the teacher's own actions, a failure, a success by other actions.
    """
    kinds = [
        [e for e in episodes if e.success and e.divergence is None],
        [e for e in episodes if not e.success],
        [e for e in episodes if e.success and e.divergence is not None],
    ]
    first = [_typical(kind) for kind in kinds if kind]
    rest = [[e for e in kind if not any(e is f for f in first)] for kind in kinds]
    turns = [kind[turn] for turn in range(len(episodes)) for kind in rest if turn < len(kind)]
    return [*first, *turns][:count]


def _typical(episodes: Sequence[Episode]) -> Episode:
    """The episode of median length."""
    return sorted(episodes, key=lambda episode: len(episode.actions))[len(episodes) // 2]


def with_distributions(episode: Episode, learner: Learner, traces: Traces) -> Episode:
    """Add what the player shows beside p: q where the learner has one; of a baseline, its p."""
    from hvil.analysis.report import distributions

    return episode._replace(steps=distributions.completed(episode, learner, traces))
