"""Call structure as data: the stack at each action of given traces, from the PHP steps that a learner infers.

As annotations it goes into trace files; `segment_files` writes it as columns of a table for other tools.

Letters: S actions of all traces together.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from hvil.data.annotations import Annotations
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.exact_learner import ExactLearner, infer_exactly
from hvil.learners.hvil import HvilLearner
from hvil.learners.learner import InferredSteps, InfersStructure, Learner
from hvil.machine.callgraph import CallGraph
from hvil.machine.steps import Steps, joined


class Segments(NamedTuple):
    """Sub-tasks: what was on the stack when each action was taken."""

    annotations: Annotations
    procedure: Int[np.ndarray, "S"]
    """The active one."""
    segment: Int[np.ndarray, "S"]
    """Number, within its trace, of the stretch of actions that one invocation takes without calling or returning."""


def infer(
    learner: Learner | InfersStructure, traces: Traces, rng: np.random.Generator | None = None, exact: bool = False
) -> InferredSteps:
    """The call structure of each trace; the traces' own annotations are ignored.

    Args:
        learner: with its current weights.
        traces: of the learner's actions and observations.
        rng: for a structure drawn from the posterior; None: the most likely step at each turn.
        exact: by dynamic programming, from the exact posterior; without `rng` the most likely structure as a whole.
    """
    if not isinstance(learner, InfersStructure):
        raise InputError("this learner infers no call structure (an LSTM, a feed-forward network or a Stack-RNN)")
    traces = replace(traces, annotations=None)
    parts = [_infer_exactly(learner, part, rng) if exact else learner.infer(part, rng) for part in traces.parts()]
    return InferredSteps(
        steps=joined([part.steps for part in parts]), log_q=np.concatenate([part.log_q for part in parts])
    )


def _infer_exactly(learner: object, traces: Traces, rng: np.random.Generator | None) -> InferredSteps:
    if isinstance(learner, ExactLearner):
        return learner.infer(traces, rng)
    if isinstance(learner, HvilLearner):
        return infer_exactly(learner.policy_network, traces, learner.config, rng=rng)
    raise InputError("exact inference needs a policy of procedures")


def segments(graph: CallGraph, traces: Traces, steps: Steps) -> Segments:
    """The stacks of a call structure at each action."""
    order = np.arange(len(steps.choice))
    acts = np.flatnonzero(steps.choice < graph.terminate)
    if len(acts) != len(traces.actions):
        raise InputError(f"a structure of {len(acts)} actions for traces of {len(traces.actions)}")
    depths = steps.depth[acts]
    stacks = np.full((len(acts), int(depths.max())), -1, dtype=np.int16)
    for level in range(stacks.shape[1]):
        # The frame at a level of the stack is the one that took the latest step at that height.
        latest = np.maximum.accumulate(np.where(steps.depth == level + 1, order, 0))[acts]
        stacks[:, level] = np.where(depths > level, steps.procedure[latest], -1)
    since = np.append(0, acts[:-1] + 1)
    first = np.zeros(len(acts), dtype=bool)
    first[traces.offsets[:-1]] = True
    # Between two actions come returns, then calls, so the lowest height in between is the number of frames kept.
    # The returns after the very last action are cut off: no action follows them.
    kept = np.where(first, 1, np.minimum.reduceat(steps.depth[: acts[-1] + 1], since))
    same = ~first & (kept == depths) & (kept == np.append(0, depths[:-1]))
    changes = np.cumsum(~same)
    starts = np.repeat(changes[traces.offsets[:-1]], traces.lengths)
    return Segments(
        annotations=Annotations(graph.procedures, stacks, kept.astype(np.int16)),
        procedure=stacks[np.arange(len(acts)), depths - 1].astype(np.int64),
        segment=(changes - starts).astype(np.int64),
    )
