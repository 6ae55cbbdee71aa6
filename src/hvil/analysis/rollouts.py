"""Roll-outs: a policy in its task's environment, many environments at a time, from the initial states of given traces.

Whether an episode was right is the environment's verdict (`success`) and, beside it, whether it repeated the teacher's
actions. What to do with the numbers is `evaluation`'s business.

Letters: N traces, E environments that are run at once.
"""

from typing import Any, NamedTuple

import gymnasium
import numpy as np
from jaxtyping import Bool, Int

from hvil.data.tasks import Task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.learner import Policy

AT_ONCE = 256


class Rollouts(NamedTuple):
    """What happened in one episode for each trace."""

    success: Bool[np.ndarray, "N"]
    """The environment's verdict at the end: the task itself was done."""
    wrong: Bool[np.ndarray, "N"]
    """Some action was not the teacher's, the ∅ at the end included."""
    steps: Int[np.ndarray, "N"]
    """Actions taken, ∅ included."""
    truncated: Bool[np.ndarray, "N"]
    """The step limit ended the episode."""


def roll_out(
    policy: Policy, task: Task, traces: Traces, step_limit: int | None = None, greedy: bool = True, seed: int = 0
) -> Rollouts:
    """Run the policy from the initial state of every trace.

    Args:
        policy: what to run.
        task: where; it must be the task that the traces are from.
        traces: teacher traces with their initial states in the metadata.
        step_limit: actions after which an episode is given up; by default twice the longest trace and 50 more.
        greedy: the most likely action, or a sampled one.
        seed: of sampling.
    """
    if task.action_names != policy.action_names:
        raise InputError(f"{task.name}: its actions {task.action_names} are not the policy's {policy.action_names}")
    limit = step_limit or 2 * int(traces.lengths.max()) + 50
    environments = [task.environment() for _ in range(min(AT_ONCE, len(traces)))]
    try:
        parts = [
            _roll_out_group(policy, task, environments, traces[start : start + AT_ONCE], limit, greedy, seed + start)
            for start in range(0, len(traces), AT_ONCE)
        ]
    finally:
        for environment in environments:
            environment.close()
    return Rollouts(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _roll_out_group(
    policy: Policy,
    task: Task,
    environments: list["gymnasium.Env[Any, Any]"],
    traces: Traces,
    limit: int,
    greedy: bool,
    seed: int,
) -> Rollouts:
    count = len(traces)
    teacher = traces.padded().actions
    start = [environments[i].reset(options=task.reset_options(traces, i))[0] for i in range(count)]
    observations = np.stack(start)
    success, wrong, truncated = (np.zeros(count, dtype=bool) for _ in range(3))
    steps = np.zeros(count, dtype=np.int64)
    running = np.ones(count, dtype=bool)
    policy.reset(count, seed)
    for time in range(limit):
        # Environments that have ended keep their last observation, so that the batch keeps its shape.
        actions = policy.act(observations, greedy)
        wanted = teacher[:, time] if time < teacher.shape[1] else np.full(count, -1)
        wrong |= running & (actions != wanted)
        steps += running
        for i in np.flatnonzero(running):
            observations[i], _, terminated, cut, info = environments[i].step(int(actions[i]))
            if terminated or cut:
                running[i] = False
                success[i] = terminated and bool(info.get("success", False))
                truncated[i] = cut and not terminated
        if not running.any():
            break
    return Rollouts(success, wrong | running | truncated, steps, truncated | running)
