"""The probabilities of recorded steps: under the policy p, and under the posterior q where the learner has one.

Episodes are recorded without them; they are computed for the few episodes that a page shows.

Letters: S PHP steps, U choices, M frames, D numbers of an observation.
"""

from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Num

from hvil.analysis.report.episodes import Episode
from hvil.data.traces import Traces
from hvil.learners.baselines import BaselineLearner
from hvil.learners.config import Config
from hvil.learners.learner import Learner, Policy
from hvil.learners.networks.bank import Frames, grouped, masked_log_softmax
from hvil.learners.networks.batch import prepare
from hvil.learners.networks.posterior import PosteriorNetwork
from hvil.machine import reference
from hvil.machine.batched import Tops
from hvil.machine.callgraph import CallGraph
from hvil.machine.reference import Frame, Stack
from hvil.machine.steps import Steps


@runtime_checkable
class GivesProbabilities(Protocol):
    """A policy of procedures that says how likely each PHP step is."""

    def step_probabilities(self, features: Num[np.ndarray, "M D"], tops: Tops) -> Float[np.ndarray, "M U"]:
        """The probability of each step of each active frame; NaN if the step is impossible."""


def with_distributions(episode: Episode, learner: Learner, policy: Policy, trace: Traces, config: Config) -> Episode:
    """The episode with all probabilities that the learner has; `trace` is the teacher's, `policy` the learner's."""
    if isinstance(learner, BaselineLearner):
        # What the network saw of its own continuous actions was not recorded.
        return episode if learner.width else episode._replace(policy=_of_baseline(learner, episode))
    steps = episode.steps
    if steps is None:
        return episode
    if isinstance(policy, GivesProbabilities):
        features = episode.observations.reshape(len(episode.observations), -1)[steps.row]
        tops = Tops(steps.procedure, steps.counter, steps.last, steps.depth)
        episode = episode._replace(policy=policy.step_probabilities(features, tops))
    posterior = getattr(learner, "posterior", None)
    if isinstance(posterior, PosteriorNetwork):
        episode = episode._replace(posterior=_of_posterior(episode, steps, posterior, trace, config))
    return episode


@torch.no_grad()
def _of_baseline(learner: BaselineLearner, episode: Episode) -> Float[np.ndarray, "S U"]:
    """The probabilities of the actions and ∅ at each time, along what the policy itself saw and did."""
    device = learner.device
    observations = torch.from_numpy(learner.features(episode.observations)).to(device)
    before = torch.tensor([learner.terminate, *episode.emitted], device=device)
    state = learner.memory.initial(1, device)
    rows = []
    for time in range(len(episode.emitted)):
        logits, state = learner.step(observations[time : time + 1], before[time : time + 1], state)
        rows.append(logits[0].softmax(dim=0).numpy(force=True))
    return np.array(rows, dtype=np.float64)


@torch.no_grad()
def _of_posterior(
    episode: Episode, steps: Steps, posterior: PosteriorNetwork, trace: Traces, config: Config
) -> Float[np.ndarray, "S U"]:
    """The probabilities under q at each step until the episode leaves the teacher's trace, which is what q has seen."""
    masks = _posterior_masks(posterior.graph, episode, steps, _last_common_time(episode, trace))
    probabilities = np.full(masks.shape, np.nan)
    on_trace = np.flatnonzero(masks.any(axis=1))
    if not len(on_trace):
        return probabilities
    device = next(posterior.parameters()).device
    context = posterior.context(prepare(trace, config, device))
    groups = grouped(steps.procedure[on_trace], len(posterior.graph.procedures))
    order = on_trace[groups.order]
    times = torch.from_numpy(steps.row[order]).to(device)
    scores = posterior.bank(context[times], Frames(steps.counter[order], steps.last[order]), groups)
    likely = masked_log_softmax(scores, masks[order]).exp().numpy(force=True)
    probabilities[order] = np.where(masks[order], likely, np.nan)
    return probabilities


def _last_common_time(episode: Episode, trace: Traces) -> int:
    """The last time at which the policy saw what the teacher saw, and had done what the teacher had done."""
    for time, (own, theirs) in enumerate(zip(episode.observations, trace.observations, strict=False)):
        if not np.array_equal(own, theirs):
            return time - 1
        if episode.divergence == time:
            return time
    return len(trace.observations) - 1


def _posterior_masks(graph: CallGraph, episode: Episode, steps: Steps, until: int) -> Bool[np.ndarray, "S U"]:
    """The posterior's masks at the steps up to a time; all false where the teacher's action cannot be reached."""
    masks = np.zeros((len(steps.choice), graph.step_count), dtype=bool)
    stack: Stack = reference.start(graph)
    frames = zip(steps.procedure.tolist(), steps.counter.tolist(), steps.last.tolist(), strict=True)
    for i, (time, frame, choice) in enumerate(zip(episode.times, frames, episode.choices, strict=True)):
        if time > until:
            break
        assert stack[-1] == Frame(*frame)
        masks[i, reference.posterior_steps(graph, stack, episode.teacher[time])] = True
        stack = reference.step(graph, stack, choice)
    return masks
