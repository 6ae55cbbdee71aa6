"""The policy steps that some call structure of given traces visits, as the rows of one table.

A row is (procedure, counter, last, observation). Equal rows of all traces are one, so the policy is evaluated once on
each. A *cell* is a place where one trace needs a row: (block, t, τ, l) in the letters of `lattice`. `inference` runs a
dynamic program over the table; this module knows nothing of probabilities.

Letters: S policy steps, D features, A actions, T actions of a trace, U choices.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from hvil.data.arrays import distinct_rows
from hvil.data.traces import Traces
from hvil.learners.exact.cost import Cost, Limits, estimated_cost, refuse_beyond
from hvil.learners.exact.lattice import Lattice
from hvil.learners.exact.nodes import Nodes, nodes_of
from hvil.learners.exact.row_kernels import Blocks, KeyCode, row_keys
from hvil.machine.callgraph import CallGraph

DENSE_KEYS = 4
"""Keys are numbered through an array over all possible ones, in linear time, while there are at most so many possible
keys for each cell (or a million); beyond, the array would take more memory than the cells, and keys are sorted."""


@runtime_checkable
class StepPolicy(Protocol):
    """What exact inference asks of a policy; `PolicyNetwork` has it."""

    def log_probs(
        self,
        observations: Float[torch.Tensor, "S D"],
        procedure: Int[np.ndarray, "S"],
        counter: Int[np.ndarray, "S"],
        last: Int[np.ndarray, "S"],
        depth: Int[np.ndarray, "S"],
    ) -> Float[torch.Tensor, "S U"]:
        """Log-probabilities of each procedure's choices; the depth of the stack may matter for masks only."""


@dataclass(frozen=True, eq=False)
class StepTable:
    """Rows on which the policy is evaluated, and for each trace which of them its frames visit."""

    graph: CallGraph
    nodes: Nodes
    observation: Int[np.ndarray, "rows"]
    """Which of the traces' observations the step sees."""
    procedure: Int[np.ndarray, "rows"]
    counter: Int[np.ndarray, "rows"]
    last: Int[np.ndarray, "rows"]
    depth: Int[np.ndarray, "rows"]
    """A depth of the stack at which the row's masks hold."""
    lattices: Sequence[Lattice]
    """One for each trace."""
    cost: Cost
    limited: bool
    """Whether limits leave call structures out."""

    def __len__(self) -> int:
        return len(self.procedure)

    def log_probs(
        self, policy: StepPolicy, features: Float[torch.Tensor, "observations D"]
    ) -> Float[torch.Tensor, "rows U"]:
        """The policy's log-probabilities on all rows, with their gradient, from features of all observations."""
        of_rows = features[torch.from_numpy(self.observation).to(features.device)]
        return policy.log_probs(of_rows, self.procedure, self.counter, self.last, self.depth)


class _Distinct(NamedTuple):
    """The observations of all traces, equal ones counted once."""

    number: Int[np.ndarray, "observations"]
    """Equal for equal observations."""
    first: Int[np.ndarray, "distinct"]
    """The first observation with each number."""


def step_table(graph: CallGraph, traces: Traces, limits: Limits | None = None) -> StepTable:
    """The table for some traces; an `InputError` if they are impossible under the graph, or too much work."""
    limits = limits or Limits()
    limits.check()
    graph.check_actions(traces.actions, "the traces")
    nodes, distinct = nodes_of(graph), _distinct(traces)
    cost = estimated_cost(graph, nodes, traces.lengths, len(distinct.first), limits)
    refuse_beyond(cost, traces, limits)
    return _with_rows(graph, nodes, traces, distinct, limits, cost)


def refuse_costly(graph: CallGraph, traces: Traces, limits: Limits) -> None:
    """Raise an `InputError` if all traces, one after another, would take longer than the limit."""
    cost = estimated_cost(graph, nodes_of(graph), traces.lengths, len(traces.observations), limits)
    refuse_beyond(cost._replace(gigabytes=0.0), traces, limits)


def _with_rows(
    graph: CallGraph, nodes: Nodes, traces: Traces, distinct: _Distinct, limits: Limits, cost: Cost
) -> StepTable:
    """Code the row of every cell of every trace as a key; the distinct keys, decoded, are the table's rows."""
    longest_trace = int(traces.lengths.max())
    longest, largest = limits.longest_of(longest_trace), limits.largest_of(longest_trace)
    _, representative = np.unique(nodes.block, return_index=True)
    blocks = _blocks(graph, nodes, nodes.procedure[representative])
    code = KeyCode(counters=largest + 1, lasts=graph.step_count + 1, observations=len(distinct.first))
    actions = [a.astype(np.int64) for a in np.split(traces.actions, traces.offsets[1:-1])]
    observations = np.split(distinct.number, traces.row_offsets[1:-1])
    cells = []
    for of_trace, observed in zip(actions, observations, strict=True):
        counters = min(largest, len(of_trace))
        keys = np.empty((len(of_trace) + 1) * (counters + 1) * blocks.width.sum(), dtype=np.int64)
        row_keys(blocks, code, of_trace, observed, counters, longest, keys)
        cells.append(keys)
    keys, rows = _numbered(cells, len(blocks.width) * code.counters * code.lasts * code.observations)
    acts = graph.can_act[nodes.procedure]
    rest, observation = np.divmod(keys, code.observations)
    rest, last = np.divmod(rest, code.lasts)
    block, counter = np.divmod(rest, code.counters)
    return StepTable(
        graph=graph,
        nodes=nodes,
        observation=distinct.first[observation],
        procedure=nodes.procedure[representative][block],
        counter=counter,
        last=last - 1,
        depth=(graph.max_depth - nodes.level[representative] + 1)[block],
        lattices=[
            _lattice(nodes, acts, blocks.width, of_trace, of_cells, min(largest, len(of_trace)), longest)
            for of_trace, of_cells in zip(actions, rows, strict=True)
        ],
        cost=cost,
        limited=limits.leave_out,
    )


def _lattice(
    nodes: Nodes,
    acts: Bool[np.ndarray, "nodes A"],
    width: Int[np.ndarray, "blocks"],
    actions: Int[np.ndarray, "T"],
    rows: Int[np.ndarray, "cells"],
    counters: int,
    longest: int,
) -> Lattice:
    """What the kernels read of one trace; `rows` are the table's rows of its cells."""
    sizes = (len(actions) + 1) * (counters + 1) * width
    return Lattice(
        children=nodes.children,
        acts=acts,
        block=nodes.block,
        width=width,
        base=np.append(0, np.cumsum(sizes)[:-1]),
        rows=rows,
        actions=actions,
        counters=counters,
        longest=longest,
    )


def _blocks(graph: CallGraph, nodes: Nodes, procedures: Int[np.ndarray, "blocks"]) -> Blocks:
    """What the nodes of each block can do, whichever of them it is; `procedures` are the blocks' procedures."""
    reach = graph.reaches[nodes.level, nodes.procedure]
    enters = np.zeros((len(procedures), reach.shape[1]), dtype=bool)
    calls = np.zeros((len(procedures), nodes.children.shape[1], reach.shape[1]), dtype=bool)
    for node, block in enumerate(nodes.block):
        enters[block] |= reach[node]
        calls[block] |= reach[nodes.children[node]] & (nodes.children[node] >= 0)[:, None]
    return Blocks(
        enters=enters,
        acts=graph.can_act[procedures],
        calls=calls,
        width=np.array([1 + len(graph.calls[procedure]) for procedure in procedures]),
        holds_root=np.arange(len(procedures)) == nodes.block[0],
        holds_calls=np.bincount(nodes.block[1:], minlength=len(procedures)) > 0,
    )


def _distinct(traces: Traces) -> _Distinct:
    """Observations are equal if their bytes are, and those of the continuous actions that are taken at them."""
    rows = len(traces.observations)
    raw = np.ascontiguousarray(traces.observations.reshape(rows, -1)).view(np.uint8).reshape(rows, -1)
    if traces.vectors is not None:
        raw = np.hstack([raw, traces.vector_rows().view(np.uint8).reshape(rows, -1)])
    first, number = distinct_rows(raw)
    return _Distinct(number=number, first=first)


def _numbered(
    parts: Sequence[Int[np.ndarray, "_"]], bound: int
) -> tuple[Int[np.ndarray, "rows"], list[Int[np.ndarray, "_"]]]:
    """The distinct keys (all below `bound`) in order, and for each key its index among them (-1 for -1)."""
    if bound <= max(DENSE_KEYS * sum(map(len, parts)), 1_000_000):
        used = np.zeros(bound + 1, dtype=bool)
        for keys in parts:
            used[keys] = True
        used[bound] = False  # the key -1 went there
        distinct = np.flatnonzero(used)
        index = np.full(bound + 1, -1, dtype=np.int32)
        index[distinct] = np.arange(len(distinct))
        return distinct, [index[keys] for keys in parts]
    distinct = np.unique(np.concatenate([np.unique(keys) for keys in parts]))
    distinct = distinct[distinct >= 0]
    return distinct, [np.where(keys < 0, -1, np.searchsorted(distinct, keys)).astype(np.int32) for keys in parts]
