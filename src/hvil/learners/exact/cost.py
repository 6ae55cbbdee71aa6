"""What exact inference costs: an estimate of memory and time before anything is computed, and the limits to it.

Only the refusal of hopeless inputs depends on these numbers, so they need to be right within a factor of two or three.

Letters: N traces.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.exact.nodes import Nodes
from hvil.machine.callgraph import CallGraph

SECONDS_PER_SPAN = 1.2e-9
SECONDS_PER_STATE = 1.5e-8
SECONDS_PER_ROW = 2e-6
"""Measured on one core by `python -m hvil.experiments.bench.exact`: one term of the sum over a callee's spans; one
exponential for a pair of state and choice; one row through a policy of 256 hidden units, with its gradient."""
PASSES = 3
"""Inside, inside once more (frames are not stored but computed again), and outside."""

BYTES_PER_KEPT_SPAN = 16
"""The tables `inside` and `linear` of every trace, in double precision; the gradient needs them later."""
BYTES_PER_SPAN = 24
"""The tables `inside`, `linear` and the expected `spans` of the trace at hand."""
BYTES_PER_CELL = 28
"""Of a cell (block, t, τ, l): its key, the sorted and the joined copy of the key (8 each), its row's number (4)."""
BYTES_PER_ENTRY = 32
"""Of a choice at a row: log-probability and expected count in double precision (8 each); the network's score and
log-probability, and their gradients, in single precision (4 each)."""


class Limits(NamedTuple):
    """What to leave out of the sum over call structures, and what to refuse.

    With a limit, the log-likelihood is that of the call structures within it: a lower bound of log p(x). Posterior,
    most likely structure, samples and gradient are those of the same restricted set.
    """

    longest_span: int | None = None
    """Leave out structures in which a call lasts for more actions than this; the root itself spans the whole trace."""
    largest_counter: int | None = None
    """Leave out structures in which a procedure, the root included, takes more steps than this before it returns."""
    gigabytes: float = 4.0
    """Refuse an input that is estimated to need more memory than this."""
    seconds: float = 600.0
    """Refuse an input that is estimated to need more time than this, for likelihood and gradient."""

    @property
    def leave_out(self) -> bool:
        """Whether they leave call structures out."""
        return self.longest_span is not None or self.largest_counter is not None

    def check(self) -> None:
        """Raise an `InputError` for a limit that no structure can meet."""
        for name, value in (("longest span", self.longest_span), ("largest counter", self.largest_counter)):
            if value is not None and value < 1:
                raise InputError(f"exact inference: {name} must be at least 1, not {value}")

    def longest_of(self, length: int) -> int:
        """The longest span of a call in a trace of so many actions."""
        return min(self.longest_span or length, length)

    def largest_of(self, length: int) -> int:
        """The largest counter in a trace of so many actions: every step but ∅ takes at least one action."""
        return min(self.largest_counter or length, length)


class Cost(NamedTuple):
    """Estimated need of one evaluation with gradient."""

    gigabytes: float
    seconds: float


class _Work(NamedTuple):
    """Numbers of operations (terms of sums) and of array entries that one trace needs."""

    span_terms: float
    state_terms: float
    cells: float
    spans: float


def estimated_cost(
    graph: CallGraph, nodes: Nodes, lengths: Int[np.ndarray, "N"], observations: int, limits: Limits
) -> Cost:
    """Memory and time of one evaluation with gradient, for traces with so many distinct observations."""
    width = _block_widths(graph, nodes)
    distinct, counts = np.unique(lengths, return_counts=True)
    works = [_work(nodes, int(width.sum()), int(length), limits) for length in distinct]
    span_terms, state_terms, cells, spans = counts @ np.array(works)
    largest = limits.largest_of(int(lengths.max()))
    rows = min(cells, float(observations * (largest + 1) * (width * (len(graph.action_names) + 1)).sum()))
    memory = BYTES_PER_KEPT_SPAN * spans + BYTES_PER_SPAN * max(work.spans for work in works)
    memory += BYTES_PER_CELL * cells + BYTES_PER_ENTRY * rows * graph.step_count
    seconds = PASSES * (span_terms * SECONDS_PER_SPAN + state_terms * SECONDS_PER_STATE) + rows * SECONDS_PER_ROW
    return Cost(gigabytes=float(memory / 1e9), seconds=float(seconds))


def refuse_beyond(cost: Cost, traces: Traces, limits: Limits) -> None:
    """Raise an `InputError` with the estimate if it is beyond the limits."""
    if cost.gigabytes > limits.gigabytes or cost.seconds > limits.seconds:
        raise InputError(
            f"exact inference on {len(traces)} trace(s) of up to {traces.lengths.max()} actions would need about "
            f"{cost.gigabytes:.2g} GB and {cost.seconds:.2g} s, the limits are {limits.gigabytes:g} GB and "
            f"{limits.seconds:g} s; give fewer or shorter traces, or limit the longest span or the largest counter"
        )


def _block_widths(graph: CallGraph, nodes: Nodes) -> Int[np.ndarray, "blocks"]:
    """The number of last steps, as slots, in each block of rows."""
    _, representative = np.unique(nodes.block, return_index=True)
    return 1 + np.array([len(graph.calls[procedure]) for procedure in nodes.procedure[representative]])


def _work(nodes: Nodes, width: int, length: int, limits: Limits) -> _Work:
    """What one trace of so many actions needs; `width` is the number of slots of all blocks."""
    longest, counters = limits.longest_of(length), limits.largest_of(length)
    callees = (nodes.children >= 0).sum(axis=1)
    lasting = np.arange(length + 1.0)
    # Calls may be made at any time of a frame; a callee's span is then at most what is left of the frame's.
    spans_until = np.append(0.0, np.cumsum(np.minimum(lasting[1:], longest)))
    spans_below = np.append(0.0, np.cumsum(spans_until[1:]))
    # With counter τ at least τ actions are gone. Both arrays: for a frame that lasts for so many actions, the sum over
    # its counters.
    frame_spans = spans_below - np.append(np.zeros(counters), spans_below)[: length + 1]
    frame_states = lasting * np.minimum(lasting, counters)
    pairs = (1 + callees) * (2 + callees)  # of a last step and a choice
    reaches = np.minimum(np.arange(length) + 1, longest)  # of a call at each time, counted from the end of the trace
    return _Work(
        span_terms=float(callees[0] * frame_spans[length] + callees[1:].sum() * frame_spans[reaches].sum()),
        state_terms=float(pairs[0] * frame_states[length] + pairs[1:].sum() * frame_states[reaches].sum()),
        cells=float((length + 1) * (counters + 1) * width),
        spans=float(len(nodes.procedure) * length * (longest + 1)),
    )
