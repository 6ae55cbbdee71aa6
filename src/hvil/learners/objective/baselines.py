"""Baselines: what the weights of the score are compared with, so that they carry news and not noise.

The weight of ∇log q(u_j) is the cost that comes after step j. Most of it would have come whatever the step had been. A
baseline estimates that part from other walks or other traces, which do not depend on the step: the gradient stays
unbiased, and its variance falls.

`BASELINES` holds what `--baseline` names.

Letters: S steps, N traces, W walks, T times.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hvil.gate.registry import Registry
from hvil.learners.objective.elbo import Terms

Baseline = Callable[[Float[Tensor, "S"], Terms, Int[Tensor, "S"]], Float[Tensor, "S"]]
"""From the steps' costs, the terms, and for each step the time from which on costs count, to what is expected of it."""

BASELINES: Registry[Baseline] = Registry(
    "baseline",
    {
        "none": "hvil.learners.objective.baselines:no_baseline",
        "others": "hvil.learners.objective.baselines:others",
        "leave-one-out": "hvil.learners.objective.baselines:leave_one_out",
    },
)


def no_baseline(costs: Float[Tensor, "S"], terms: Terms, since: Int[Tensor, "S"]) -> Float[Tensor, "S"]:
    """Nothing is expected."""
    return torch.zeros_like(costs)


def others(costs: Float[Tensor, "S"], terms: Terms, since: Int[Tensor, "S"]) -> Float[Tensor, "S"]:
    """The other traces' mean cost of a time, times the times that are left; 0 if there is no other trace."""
    times = torch.from_numpy(terms.times).to(costs.device)
    if len(times) == 1:
        return torch.zeros_like(costs)
    samples = (len(terms.offsets) - 1) // len(times)
    trace = terms.walk // samples
    of_trace = costs.new_zeros(len(times), dtype=torch.float64).index_add(0, trace, costs.double()) / samples
    rates = (of_trace.sum() - of_trace) / (times.sum() - times)
    return (rates[trace] * (times[trace] - since)).to(costs)


def leave_one_out(costs: Float[Tensor, "S"], terms: Terms, since: Int[Tensor, "S"]) -> Float[Tensor, "S"]:
    """The mean over the trace's other walks of their cost from the same time on; `others` if there is no other walk."""
    samples = (len(terms.offsets) - 1) // len(terms.times)
    if samples == 1:
        return others(costs, terms, since)
    longest = int(terms.times.max())
    at_times = costs.new_zeros(len(terms.offsets) - 1, longest, dtype=torch.float64)
    at_times = at_times.index_put((terms.walk, terms.time), costs.double(), accumulate=True)
    to_end: Float[Tensor, "W T"] = at_times.flip(1).cumsum(1).flip(1)
    of_trace = to_end.reshape(-1, samples, longest).sum(dim=1).repeat_interleave(samples, dim=0)
    mean_of_others = (of_trace - to_end) / (samples - 1)
    return mean_of_others[terms.walk, since].to(costs)
