"""Baselines of the score: costs to expect, subtracted from the weights of ∇log q(u_j) to lower their variance.

The weight of ∇log q(u_j) is the cost that comes after step j, or the walk's whole cost. Most of it would have come
whatever the step had been. A baseline b_j estimates that part from other walks of the trace or from other traces.
Given the steps u_{<j}, it is independent of u_j, and E[∇log q(u_j | u_{<j})] = 0. So E[b_j ∇log q(u_j)] = 0: the
gradient stays unbiased under every estimator.

`BASELINES` holds what `--baseline` names. The policies to compare with, baselines too, are in `learners.baselines`.

Letters: S steps, N traces, W walks, T time steps.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hvil.learners.objective.elbo import Terms

Baseline = Callable[[Float[Tensor, "S"], Terms, Int[Tensor, "S"]], Float[Tensor, "S"]]
"""From the costs of all steps, the terms, and the time since when each step's weight counts costs, to each step's b_j.

That time is the step's own, or 0 where the weight is the whole cost: u_j has no influence on it."""


def no_baseline(costs: Float[Tensor, "S"], terms: Terms, since: Int[Tensor, "S"]) -> Float[Tensor, "S"]:
    """Zero: the weights stay what they are."""
    return torch.zeros_like(costs)


def others(costs: Float[Tensor, "S"], terms: Terms, since: Int[Tensor, "S"]) -> Float[Tensor, "S"]:
    """The other traces' mean cost per time step, multiplied by the time steps left; 0 if there is no other trace."""
    durations = torch.from_numpy(terms.durations).to(costs.device)
    if len(durations) == 1:
        return torch.zeros_like(costs)
    trace = terms.walk // terms.samples
    summed: Float[Tensor, "N"] = costs.new_zeros(len(durations), dtype=torch.float64)
    of_trace = summed.index_add(0, trace, costs.double()) / terms.samples
    rates = (of_trace.sum() - of_trace) / (durations.sum() - durations)
    return (rates[trace] * (durations[trace] - since)).to(costs)


def leave_one_out(costs: Float[Tensor, "S"], terms: Terms, since: Int[Tensor, "S"]) -> Float[Tensor, "S"]:
    """The mean over the trace's other walks of their cost from the same time on; `others` if there is no other walk.

    Walks are aligned by time and not by step: the other walks' cost includes all of their steps at that time.
    """
    samples = terms.samples
    if samples == 1:
        return others(costs, terms, since)
    longest = int(terms.durations.max())
    at_times = costs.new_zeros(len(terms.offsets) - 1, longest, dtype=torch.float64)
    at_times = at_times.index_put((terms.walk, terms.time), costs.double(), accumulate=True)
    to_end: Float[Tensor, "W T"] = at_times.flip(1).cumsum(1).flip(1)
    of_trace = to_end.reshape(-1, samples, longest).sum(dim=1).repeat_interleave(samples, dim=0)
    mean_of_others = (of_trace - to_end) / (samples - 1)
    return mean_of_others[terms.walk, since].to(costs)


BASELINES: dict[str, Baseline] = {"none": no_baseline, "others": others, "leave-one-out": leave_one_out}
