"""Exact inference: the likelihood of traces summed over all call structures z, and the posterior p(z | x).

A dynamic program over spans. A node n is a procedure with the number of levels of the stack it may fill. Let

    inside[n, s, e]      = p(n, called at time s, emits a_s … a_{e-1} and returns at time e | o)
    alpha[n, s; τ, l, t] = p(its frame, called at s, is active at t with counter τ after a last step l)

A frame acts (t → t + 1), calls k (t → e with probability inside[k, t, e]) or returns. Every call emits an action, so
τ ≤ t - s, and alpha is filled by increasing τ from the callees' inside tables alone. log p(x) = log inside[root, 0, T].
The kernels keep logarithms, and count times from s: their tables have the span e - s and t - s in place of e and t.
Expected counts of steps are the derivative of log p(x) by the policy's log-probabilities. Their product with the
gradients of these is the gradient of log p(x): exact, without sampling noise.

Cost, for a trace of T actions, |H| nodes (one for each procedure of an acyclic graph; up to one for each procedure and
depth of a cyclic one), E edges between nodes and at most C callees of a node. Time: O(E T⁴/24 + |H| C² T³/6) with
counters up to τ = T; O(E M T L²), linear in T, with counters τ ≤ M and spans ≤ L (`Limits`); O(E T³/6) where only the
root calls (`tree:KxD` with D = 2), because then calls start in one frame. Memory: O(|H| T²) for spans and O(|H| C T M)
for rows, with M = T if there is no limit. `cost` estimates seconds and gigabytes and refuses inputs beyond `Limits`.

Special cases: with a root that only calls and leaves that only act, these are the options of DDO; with an observed
structure the sum has one term.

Letters: N traces, K structures of each trace, S PHP steps, R rows of the step table, U choices.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from hvil.gate.errors import InputError
from hvil.learners.exact.conditional_kernels import step_posteriors
from hvil.learners.exact.inside_kernels import inside_pass
from hvil.learners.exact.lattice import SpanTables
from hvil.learners.exact.linear_kernels import SMALLEST, linear_inside, linear_outside
from hvil.learners.exact.outside_kernels import outside_pass
from hvil.learners.exact.semiring import BEST, SUM, Semiring
from hvil.learners.exact.step_table import StepTable
from hvil.learners.exact.structure_kernels import choose_structures
from hvil.machine.steps import Steps


class SpanPosterior(NamedTuple):
    """The results of the sum over all call structures z of each trace x."""

    log_likelihood: Float[np.ndarray, "N"]
    """log p(x) = log Σ_z p(z, x)."""
    step_counts: Float[np.ndarray, "R U"]
    """Σ_x E[#{i: step u_i of z takes choice u at row r} | x] = ∂ Σ_x log p(x) / ∂ log p(u | r)."""
    tables: Sequence[SpanTables]
    """The span tables of each trace, for `sample`; none unless they were asked for."""


class Structures(NamedTuple):
    """Call structures z of each trace: all of the first trace, then all of the second, and so on."""

    steps: Steps
    """u_0, u_1, … of structure after structure; `offsets` says where each of the N · K structures begins."""
    table_row: Int[np.ndarray, "S"]
    """r_i, the row of the step table at which step i is taken."""
    log_joint: Float[np.ndarray, "N K"]
    """log p(z, x) = Σ_i log p(u_i | r_i)."""


def posterior(table: StepTable, log_probs: Float[torch.Tensor, "R U"], keep_tables: bool = False) -> SpanPosterior:
    """Log-likelihood of each trace, and expected counts of all steps over all traces."""
    numbers = _numbers(log_probs)
    weights = np.exp(numbers) if numbers.max(initial=0.0) <= 0.0 else None
    counts = np.zeros_like(numbers)
    values = np.empty(len(table.lattices))
    kept = []
    for trace in range(len(table.lattices)):
        tables, values[trace] = _counted(table, numbers, weights, trace, counts)
        if keep_tables:
            kept.append(tables)
    return SpanPosterior(log_likelihood=values, step_counts=counts, tables=kept)


def log_likelihood(table: StepTable, log_probs: Float[torch.Tensor, "R U"]) -> Float[torch.Tensor, "N"]:
    """The log-likelihood of each trace in double precision, differentiable by the policy's log-probabilities."""
    result: torch.Tensor = _LogLikelihood.apply(log_probs, table)  # type: ignore[no-untyped-call]
    return result


def viterbi(table: StepTable, log_probs: Float[torch.Tensor, "R U"]) -> Structures:
    """The most likely call structure of each trace."""
    unused = np.random.default_rng(0)  # the kernel's signature has a generator; the most likely structure draws nothing
    numbers = _numbers(log_probs)
    tables = (_inside(table, numbers, trace, BEST)[0] for trace in range(len(table.lattices)))
    return _structures(table, numbers, tables, 1, unused)


def sample(
    table: StepTable,
    log_probs: Float[torch.Tensor, "R U"],
    count: int,
    rng: np.random.Generator,
    tables: Iterable[SpanTables] | None = None,
) -> Structures:
    """Independent samples from the posterior over call structures, `count` for each trace.

    Args:
        table: the step table of the traces.
        log_probs: the policy's log-probabilities on it.
        count: how many samples of each trace.
        rng: where they come from.
        tables: the span tables, if `posterior` has made them for the same log-probabilities.
    """
    if count < 1:
        raise InputError(f"the number of samples must be at least 1, not {count}")
    numbers = _numbers(log_probs)
    if tables is None:
        tables = (_inside(table, numbers, trace, SUM)[0] for trace in range(len(table.lattices)))
    return _structures(table, numbers, tables, count, rng)


def expected_log_prob(result: SpanPosterior, log_probs: Float[torch.Tensor, "R U"]) -> Float[torch.Tensor, ""]:
    """Σ_x E[log p(z, x) | x] with the counts held fixed: its gradient is that of Σ log p(x)."""
    counts = torch.from_numpy(result.step_counts).to(log_probs.device)
    # An impossible choice is never counted; its log-probability is left out because 0 · -∞ is not a number.
    return (torch.where(counts > 0, log_probs.double(), 0.0) * counts).sum()


def step_posterior(
    table: StepTable, log_probs: Float[torch.Tensor, "R U"], trace: int, structures: Sequence[Int[np.ndarray, "_"]]
) -> list[Float[np.ndarray, "_ U"]]:
    """The exact log-posterior of all choices at each step of given structures: log p(u_i = u | u_0 … u_{i-1}, x).

    Args:
        table: the step table of the traces.
        log_probs: the policy's log-probabilities on it.
        trace: which of the traces the structures are of.
        structures: choices of each structure, in the order they are taken.
    """
    numbers = _numbers(log_probs)
    tables, _ = _inside(table, numbers, trace, SUM)
    results = [np.empty((len(taken), numbers.shape[1])) for taken in structures]
    for taken, result in zip(structures, results, strict=True):
        choices = np.ascontiguousarray(taken, dtype=np.int64)
        step_posteriors(table.lattices[trace], numbers, tables.inside, choices, table.graph.max_depth, result)
    return results


def step_log_posterior(
    table: StepTable, log_probs: Float[torch.Tensor, "R U"], structures: Structures
) -> Float[np.ndarray, "steps"]:
    """The exact log p(u_i | u_0 … u_{i-1}, x) of each step that was taken; summed over a structure, log p(z | x)."""
    choices = np.split(structures.steps.choice, structures.steps.offsets[1:-1])
    samples = structures.log_joint.shape[1]
    result = []
    for trace in range(len(table.lattices)):
        of_trace = choices[trace * samples : (trace + 1) * samples]
        for taken, log_posterior in zip(of_trace, step_posterior(table, log_probs, trace, of_trace), strict=True):
            result.append(log_posterior[np.arange(len(taken)), taken])
    return np.concatenate(result)


class _LogLikelihood(torch.autograd.Function):
    """The dynamic program as one operation: forward the inside pass, backward the expected counts."""

    @staticmethod
    def forward(ctx: Any, log_probs: torch.Tensor, table: StepTable) -> torch.Tensor:
        numbers = _numbers(log_probs)
        results = [_inside(table, numbers, trace, SUM) for trace in range(len(table.lattices))]
        ctx.table, ctx.numbers, ctx.tables = table, numbers, [tables for tables, _ in results]
        ctx.dtype, ctx.device = log_probs.dtype, log_probs.device
        return torch.tensor([value for _, value in results], dtype=torch.float64, device=log_probs.device)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        # The kernels take positive counts only, so traces with a positive and with a negative weight have own sums.
        counts = {sign: np.zeros_like(ctx.numbers) for sign in (1.0, -1.0)}
        weights = gradients[0].cpu().numpy().astype(np.float64)
        for lattice, tables, weight in zip(ctx.table.lattices, ctx.tables, weights, strict=True):
            if weight:
                outside_pass(lattice, ctx.numbers, tables, float(abs(weight)), counts[float(np.sign(weight))])
        return torch.from_numpy(counts[1.0] - counts[-1.0]).to(ctx.device, ctx.dtype), None


def _numbers(log_probs: torch.Tensor) -> Float[np.ndarray, "R U"]:
    """The log-probabilities as the kernels read them: an array in double precision."""
    return np.ascontiguousarray(log_probs.detach().cpu().double().numpy())


def _inside(
    table: StepTable, numbers: Float[np.ndarray, "R U"], trace: int, semiring: Semiring
) -> tuple[SpanTables, float]:
    """The span tables of a trace and its log p(x), or the log-probability of its best structure."""
    tables, value = inside_pass(table.lattices[trace], numbers, semiring)
    if not value > -np.inf:
        raise InputError(
            f"exact inference: trace {trace} has no possible call structure under the policy"
            + (" within the given limits" if table.limited else "")
        )
    return tables, float(value)


def _counted(
    table: StepTable,
    numbers: Float[np.ndarray, "R U"],
    weights: Float[np.ndarray, "R U"] | None,
    trace: int,
    counts: Float[np.ndarray, "R U"],
) -> tuple[SpanTables, float]:
    """The span tables of a trace and its log p(x); expected counts of its steps are added to `counts`.

    `weights` are the exponentials of the numbers, unless one of these is above 0: then plain probabilities will not do.
    """
    lattice = table.lattices[trace]
    if weights is not None:
        spans, likelihood = linear_inside(lattice, weights)
        if likelihood >= SMALLEST:
            linear_outside(lattice, weights, spans, likelihood, counts)
            return _span_tables(spans), float(np.log(likelihood))
    tables, value = _inside(table, numbers, trace, SUM)
    outside_pass(lattice, numbers, tables, 1.0, counts)
    return tables, value


def _span_tables(spans: Float[np.ndarray, "nodes T spans"]) -> SpanTables:
    """The tables of sums that were made with plain probabilities."""
    largest = spans.max(axis=2, keepdims=True)
    largest[largest == 0.0] = 1.0
    with np.errstate(divide="ignore"):
        inside = np.log(spans)
    return SpanTables(semiring=SUM, inside=inside, scale=np.log(largest[..., 0]), linear=spans / largest)


def _structures(
    table: StepTable,
    numbers: Float[np.ndarray, "R U"],
    tables: Iterable[SpanTables],
    count: int,
    rng: np.random.Generator,
) -> Structures:
    """Pick structures of each trace by its span tables, and put their steps in order."""
    parts, sizes, first_row = [], [], 0
    for lattice, tables_of_trace in zip(table.lattices, tables, strict=True):
        steps = choose_structures(lattice, numbers, tables_of_trace, count, rng)
        steps = steps[_order(steps, table.graph.terminate)]
        sizes.append(np.bincount(steps[:, 0], minlength=count))
        parts.append(steps[:, 1:] + [first_row, 0, 0, 0])
        first_row += len(lattice.actions) + 1
    row, depth, table_row, choice = np.concatenate(parts).T.copy()
    offsets = np.append(0, np.cumsum(np.concatenate(sizes)))
    return Structures(
        steps=Steps(
            row=row,
            procedure=table.procedure[table_row],
            counter=table.counter[table_row],
            last=table.last[table_row],
            depth=depth,
            choice=choice,
            offsets=offsets,
        ),
        table_row=table_row,
        log_joint=np.add.reduceat(numbers[table_row, choice], offsets[:-1]).reshape(-1, count),
    )


def _order(steps: Int[np.ndarray, "S 5"], terminate: int) -> Int[np.ndarray, "S"]:
    """The order in which the machine takes steps: at each time returns from the top, then calls, then the action."""
    structure, time, depth, _, choice = steps.T
    kind = np.where(choice == terminate, 0, np.where(choice > terminate, 1, 2))
    return np.lexsort((np.where(kind == 0, -depth, depth), kind, time, structure))
