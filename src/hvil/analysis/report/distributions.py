"""The distributions of recorded steps that playing does not give: the posterior's, and those of a recurrent policy."""

import numpy as np
import torch
from jaxtyping import Bool, Float

from hvil.analysis.report.episodes import Episode, Step
from hvil.data.traces import Traces
from hvil.learners.baselines import BaselineLearner
from hvil.learners.learner import Learner
from hvil.learners.networks.bank import Frames, grouped, masked_log_softmax
from hvil.learners.networks.batch import prepare
from hvil.learners.networks.posterior import PosteriorNetwork
from hvil.machine import reference
from hvil.machine.callgraph import CallGraph
from hvil.machine.reference import Frame, Stack


def completed(episode: Episode, learner: Learner, traces: Traces) -> list[Step]:
    """The episode's steps with all distributions that the learner has."""
    if isinstance(learner, BaselineLearner):
        table = _recurrent(learner, episode)
        return [step._replace(policy=table[step.time]) for step in episode.steps]
    posterior = getattr(learner, "posterior", None)
    if isinstance(posterior, PosteriorNetwork):
        return _with_posterior(episode, posterior, learner, traces[episode.trace : episode.trace + 1])
    return episode.steps


@torch.no_grad()
def _recurrent(learner: BaselineLearner, episode: Episode) -> Float[np.ndarray, "times choices"]:
    """The probabilities of the actions and ∅ at each time, along what the policy itself saw and did."""
    device = learner.device
    observations = torch.from_numpy(learner.seen(np.stack(episode.observations))).to(device)
    before = torch.tensor([learner.terminate, *episode.actions], device=device)
    state = learner.memory.initial(1, device)
    rows = []
    for time in range(len(observations)):
        logits, state = learner.step(observations[time : time + 1], before[time : time + 1], state)
        rows.append(logits[0].softmax(dim=0).numpy(force=True))
    return np.array(rows, dtype=np.float64)


@torch.no_grad()
def _with_posterior(episode: Episode, posterior: PosteriorNetwork, learner: Learner, trace: Traces) -> list[Step]:
    """Add q at every step until the episode leaves the teacher's trace, which is what q has seen."""
    graph = posterior.graph
    on_trace = _common_times(episode, trace)
    masks = _masks(graph, episode, on_trace)
    rows = np.flatnonzero(masks.any(axis=1))
    if not len(rows):
        return episode.steps
    steps = [episode.steps[row] for row in rows]
    device = next(posterior.parameters()).device
    context = posterior.context(prepare(trace, learner.config, device))  # type: ignore[attr-defined]
    groups = grouped(np.array([step.procedure for step in steps]), len(graph.procedures))
    frames = Frames(*(np.array([getattr(step, name) for step in steps])[groups.order] for name in ("counter", "last")))
    times = torch.tensor([step.time for step in steps], device=device)[torch.from_numpy(groups.order).to(device)]
    scores = posterior.bank(context[times], frames, groups)
    possible = masks[rows][groups.order]
    probabilities = masked_log_softmax(scores, possible).exp().numpy(force=True).astype(np.float64)
    result = list(episode.steps)
    for place, row in enumerate(rows[groups.order]):
        result[row] = result[row]._replace(posterior=np.where(possible[place], probabilities[place], np.nan))
    return result


def _common_times(episode: Episode, trace: Traces) -> int:
    """Up to which time the policy saw what the teacher saw."""
    for time, (own, theirs) in enumerate(zip(episode.observations, trace.observations, strict=False)):
        if not np.array_equal(own, theirs):
            return time - 1
        if episode.divergence == time:
            return time
    return len(trace.observations) - 1


def _masks(graph: CallGraph, episode: Episode, until: int) -> Bool[np.ndarray, "S U"]:
    """The posterior's masks at the steps up to a time; all false where the teacher's action cannot be reached."""
    masks = np.zeros((len(episode.steps), graph.step_count), dtype=bool)
    emitted = [*episode.teacher, graph.terminate]
    stack: Stack = reference.start(graph)
    for row, step in enumerate(episode.steps):
        if step.time > until:
            break
        assert stack[-1] == Frame(step.procedure, step.counter, step.last)
        masks[row, reference.posterior_steps(graph, stack, emitted[step.time])] = True
        stack = reference.step(graph, stack, step.choice)
    return masks
