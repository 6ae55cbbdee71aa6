"""Exact inference: the likelihood of traces summed over all call structures, and the posterior over these.

A dynamic program over spans. For a node n (a procedure with the levels of the stack it may fill), let

    inside[n, s, e]    = p(n, called at time s, emits a_s … a_{e-1} and returns at time e | o)
    alpha[n, s; τ,l,t] = p(its frame, called at s, is active at t with counter τ and last step l)

A frame acts (t → t+1), calls k (t → e with probability inside[k, t, e]) or returns; as every call emits an action,
τ ≤ t - s, and alpha can be filled by increasing τ from callees' inside tables alone. log p(x) = inside[root, 0, T].
Expected counts of steps are the reverse-mode derivative of log p(x); the gradient of log p(x) is their product with
the gradients of the policy's log-probabilities: exact, without sampling noise.

Cost: with E the number of edges between nodes and H the number of nodes (one a procedure for an acyclic graph, up to
one for each procedure and depth else), time is O(E T⁴/24 + H C² T³/6) for counters up to T, and
O(E M T L²) with a largest counter M and a longest span L: linear in T. Under a root that only leaf procedures serve, as
in `tree:KxD` with D = 2, only the root makes calls and only at s = 0: O(E T³/6). Memory is O(H T²) for spans and
O(H C T M) for rows. What that is in seconds and gigabytes is estimated, and refused beyond `Limits`.

Special cases: a root that only calls and leaves that only act are the options of DDO; fully observed structure is the
sum over one.

Letters: N traces, T actions of a trace, U choices, R rows of the step table.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from hvil.gate.errors import InputError
from hvil.learners.exact.conditional_kernels import step_posteriors
from hvil.learners.exact.inside_kernels import Tables, inside_pass
from hvil.learners.exact.outside_kernels import outside_pass
from hvil.learners.exact.step_table import StepTable
from hvil.learners.exact.structure_kernels import choose_structures


class SpanPosterior(NamedTuple):
    """What the sum over all call structures ξ of each trace says."""

    log_likelihood: Float[np.ndarray, "N"]
    """log p(x) = log Σ_ξ p(ξ, x)."""
    step_counts: Float[np.ndarray, "R U"]
    """Σ_x E[how often a row's choice is taken | x]: the derivative of Σ log p(x) by the policy's log-probabilities."""


class Structures(NamedTuple):
    """Call structures of each trace: PHP steps, flat, ordered by trace, sample and the order they are taken in."""

    trace: Int[np.ndarray, "steps"]
    sample: Int[np.ndarray, "steps"]
    time: Int[np.ndarray, "steps"]
    depth: Int[np.ndarray, "steps"]
    """Height of the stack before the step; 1 for the root alone."""
    row: Int[np.ndarray, "steps"]
    """Row of the step table: procedure, counter, last step and observation."""
    choice: Int[np.ndarray, "steps"]
    log_joint: Float[np.ndarray, "N samples"]
    """log p(ξ, x) of each structure."""


def posterior(table: StepTable, log_probs: Float[torch.Tensor, "R U"]) -> SpanPosterior:
    """Log-likelihood of each trace, and expected counts of all steps over all traces."""
    numbers = _numbers(log_probs)
    counts = np.zeros_like(numbers)
    likelihoods = []
    for index in range(len(table.lattices)):
        tables, value = _inside(table, numbers, index)
        outside_pass(table.lattices[index], numbers, tables, 1.0, counts)
        likelihoods.append(value)
    return SpanPosterior(np.array(likelihoods), counts)


def log_likelihood(table: StepTable, log_probs: Float[torch.Tensor, "R U"]) -> Float[torch.Tensor, "N"]:
    """The log-likelihood of each trace in double precision, differentiable by the policy's log-probabilities."""
    result: torch.Tensor = _LogLikelihood.apply(log_probs, table)  # type: ignore[no-untyped-call]
    return result


def viterbi(table: StepTable, log_probs: Float[torch.Tensor, "R U"]) -> Structures:
    """The most likely call structure of each trace."""
    return _structures(table, _numbers(log_probs), 1, None)


def sample(table: StepTable, log_probs: Float[torch.Tensor, "R U"], count: int, rng: np.random.Generator) -> Structures:
    """Independent samples from the posterior over call structures, `count` for each trace."""
    return _structures(table, _numbers(log_probs), count, rng)


def expected_log_prob(result: SpanPosterior, log_probs: Float[torch.Tensor, "R U"]) -> Float[torch.Tensor, ""]:
    """Σ_x E[log p(ξ, x) | x] with the counts held fixed: its gradient is that of Σ log p(x)."""
    counts = torch.from_numpy(result.step_counts).to(log_probs.device)
    # An impossible choice is never counted; leaving it out keeps 0·∞ away.
    return (torch.where(counts > 0, log_probs.double(), 0.0) * counts).sum()


def step_posterior(
    table: StepTable,
    log_probs: Float[torch.Tensor, "R U"],
    trace: int,
    structures: Sequence[Int[np.ndarray, "_"]],
) -> list[Float[np.ndarray, "_ U"]]:
    """The exact posterior of each next step along given structures of one trace: log p(u_i = u | u_0 … u_{i-1}, x).

    Args:
        table: the step table of the traces.
        log_probs: the policy's log-probabilities on it.
        trace: which of the traces.
        structures: choices of each structure, in the order they are taken.
    """
    numbers = _numbers(log_probs)
    tables, _ = _inside(table, numbers, trace)
    results = [np.empty((len(taken), numbers.shape[1])) for taken in structures]
    for taken, result in zip(structures, results, strict=True):
        choices = np.ascontiguousarray(taken, dtype=np.int64)
        step_posteriors(table.lattices[trace], numbers, tables.inside, choices, table.graph.max_depth, result)
    return results


def step_log_posterior(
    table: StepTable, log_probs: Float[torch.Tensor, "R U"], structures: Structures
) -> Float[np.ndarray, "steps"]:
    """The exact log p(u_i | u_0 … u_{i-1}, x) of each step of some structures; over one structure, log p(ξ | x)."""
    result = np.empty(len(structures.choice))
    owner = structures.trace * structures.log_joint.shape[1] + structures.sample
    parts = np.split(np.arange(len(owner)), np.flatnonzero(np.diff(owner)) + 1)
    for trace in range(len(table.lattices)):
        ours = [part for part in parts if structures.trace[part[0]] == trace]
        found = step_posterior(table, log_probs, trace, [structures.choice[part] for part in ours])
        for part, conditional in zip(ours, found, strict=True):
            result[part] = conditional[np.arange(len(part)), structures.choice[part]]
    return result


class _LogLikelihood(torch.autograd.Function):
    """The dynamic program as one operation: forward the inside pass, backward the expected counts."""

    @staticmethod
    def forward(ctx: Any, log_probs: torch.Tensor, table: StepTable) -> torch.Tensor:
        numbers = _numbers(log_probs)
        results = [_inside(table, numbers, index) for index in range(len(table.lattices))]
        ctx.table, ctx.numbers, ctx.tables = table, numbers, [tables for tables, _ in results]
        ctx.dtype, ctx.device = log_probs.dtype, log_probs.device
        return torch.tensor([value for _, value in results], dtype=torch.float64, device=log_probs.device)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        # Counts stay positive in the kernels; a trace's sign only says to which sum they go.
        counts = {sign: np.zeros_like(ctx.numbers) for sign in (1.0, -1.0)}
        for index, weight in enumerate(gradients[0].cpu().numpy().astype(np.float64)):
            if weight:
                into = counts[float(np.sign(weight))]
                outside_pass(ctx.table.lattices[index], ctx.numbers, ctx.tables[index], float(abs(weight)), into)
        return torch.from_numpy(counts[1.0] - counts[-1.0]).to(ctx.device, ctx.dtype), None


def _numbers(log_probs: torch.Tensor) -> Float[np.ndarray, "R U"]:
    return np.ascontiguousarray(log_probs.detach().cpu().double().numpy())


def _inside(
    table: StepTable, numbers: Float[np.ndarray, "R U"], index: int, best: bool = False
) -> tuple[Tables, float]:
    tables, value = inside_pass(table.lattices[index], numbers, best)
    if not value > -np.inf:
        raise InputError(
            f"exact inference: trace {index} has no possible call structure under the policy"
            + (" within the given limits" if table.limited else "")
        )
    return tables, float(value)


def _structures(
    table: StepTable, numbers: Float[np.ndarray, "R U"], count: int, rng: np.random.Generator | None
) -> Structures:
    if count < 1:
        raise InputError(f"the number of samples must be at least 1, not {count}")
    generator = rng or np.random.default_rng(0)  # the most likely structure draws nothing, but the kernel wants one
    flat, log_joint = [], np.empty((len(table.lattices), count))
    for index, lattice in enumerate(table.lattices):
        tables, _ = _inside(table, numbers, index, best=rng is None)
        steps = choose_structures(lattice, numbers, tables, count, rng is None, generator)
        steps = steps[_order(steps, table.graph.terminate)]
        log_joint[index] = np.bincount(steps[:, 0], numbers[steps[:, 3], steps[:, 4]], minlength=count)
        flat.append(np.column_stack([np.full(len(steps), index), steps]))
    trace, sampled, time, depth, row, choice = np.concatenate(flat).T.copy()
    return Structures(trace, sampled, time, depth, row, choice, log_joint)


def _order(steps: Int[np.ndarray, "steps 5"], terminate: int) -> Int[np.ndarray, "steps"]:
    """The order in which the machine takes steps: at each time returns from the top, then calls, then the action."""
    structure, time, depth, _, choice = steps.T
    kind = np.where(choice == terminate, 0, np.where(choice > terminate, 1, 2))
    return np.lexsort((np.where(kind == 0, -depth, depth), kind, time, structure))
