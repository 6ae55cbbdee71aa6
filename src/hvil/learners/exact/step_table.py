"""The policy steps that some call structure of given traces visits, as the rows of one table.

A row is (procedure, counter, last, observation); equal rows of all traces are one, so that a policy is evaluated once
on each. `exact` runs its dynamic program over the table; this module knows nothing of probabilities.

Letters: N traces, T actions of a trace, H procedures, C callees, M largest counter, U choices.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.exact.inside_kernels import Lattice
from hvil.learners.exact.row_kernels import row_keys
from hvil.machine.callgraph import CallGraph

# Measured on one core (`python -m hvil.inference.exact_bench`); only the refusal of hopeless inputs depends on them.
SECONDS_PER_SPAN = 1.2e-9
SECONDS_PER_STATE = 1.5e-8
SECONDS_PER_ROW = 2e-6


@runtime_checkable
class StepPolicy(Protocol):
    """What exact inference asks of a policy; `models.php.PolicyNetwork` has it."""

    def log_probs(
        self,
        observations: Float[torch.Tensor, "S D"],
        procedure: Int[np.ndarray, "S"],
        counter: Int[np.ndarray, "S"],
        last: Int[np.ndarray, "S"],
        depth: Int[np.ndarray, "S"],
    ) -> Float[torch.Tensor, "S U"]:
        """Log-probabilities of each procedure's choices; the depth of the stack may matter for masks only."""


class Limits(NamedTuple):
    """What to leave out of the sum over call structures, and what to refuse.

    With a limit, the log-likelihood is that of the call structures within it: a lower bound of log p(x). Posterior,
    most likely structure, samples and gradient are those of the same restricted set.
    """

    longest_span: int | None = None
    """Leave out structures in which a procedure other than the root is active for more actions than this."""
    largest_counter: int | None = None
    """Leave out structures in which a procedure, the root included, takes more steps than this before it returns."""
    gigabytes: float = 4.0
    """Refuse an input that is estimated to need more memory than this."""
    seconds: float = 600.0
    """Refuse an input that is estimated to need more time than this, for likelihood and gradient."""


class Cost(NamedTuple):
    """Estimated need of one evaluation with gradient."""

    gigabytes: float
    seconds: float


class Nodes(NamedTuple):
    """Procedures with the levels of the stack that they may fill; the root first, callees after their callers.

    A procedure below which no path is cut off by the maximum depth is one node, wherever it stands in the stack. So
    an acyclic graph has one node a procedure, a cyclic one up to one for each procedure and depth.
    """

    procedure: Int[np.ndarray, "nodes"]
    level: Int[np.ndarray, "nodes"]
    children: Int[np.ndarray, "nodes C"]
    """The node of each callee, -1 where the policy cannot call."""
    block: Int[np.ndarray, "nodes"]
    """Nodes of one procedure with the same possible choices share their block of rows."""


@dataclass(frozen=True, eq=False)
class StepTable:
    """Rows on which the policy is evaluated, and for each trace where its frames find theirs."""

    graph: CallGraph
    nodes: Nodes
    observation: Int[np.ndarray, "rows"]
    """Which of the traces' observations a row sees."""
    procedure: Int[np.ndarray, "rows"]
    counter: Int[np.ndarray, "rows"]
    last: Int[np.ndarray, "rows"]
    depth: Int[np.ndarray, "rows"]
    """A depth of the stack at which the row's masks hold."""
    lattices: Sequence[Lattice]
    """One a trace."""
    cost: Cost
    limited: bool
    """Whether limits leave call structures out."""

    def __len__(self) -> int:
        return len(self.procedure)

    def log_probs(
        self, policy: StepPolicy, observations: Float[torch.Tensor, "times D"]
    ) -> Float[torch.Tensor, "rows U"]:
        """The policy's log-probabilities on all rows, with their gradient; observations of all traces, flat."""
        seen = observations[torch.from_numpy(self.observation).to(observations.device)]
        return policy.log_probs(seen, self.procedure, self.counter, self.last, self.depth)


def step_table(graph: CallGraph, traces: Traces, limits: Limits | None = None) -> StepTable:
    """The table for some traces; an `InputError` if they are impossible under the graph, or too much work."""
    limits = limits or Limits()
    for name in ("longest_span", "largest_counter"):
        value = getattr(limits, name)
        if value is not None and value < 1:
            raise InputError(f"exact inference: {name.replace('_', ' ')} must be at least 1, not {value}")
    graph.check_actions(traces.actions, "the traces")
    nodes = _nodes(graph)
    seen, first_seen = _distinct(traces)
    cost = _affordable(estimated_cost(graph, nodes, traces.lengths, len(first_seen), limits), traces, limits)
    return _with_rows(graph, nodes, traces, seen, first_seen, limits, cost)


def refuse_costly(graph: CallGraph, traces: Traces, limits: Limits) -> None:
    """Raise an `InputError` if all traces, one after another, would take longer than the limit."""
    seconds = estimated_cost(graph, _nodes(graph), traces.lengths, len(traces.observations), limits).seconds
    _affordable(Cost(0.0, seconds), traces, limits)


def _affordable(cost: Cost, traces: Traces, limits: Limits) -> Cost:
    if cost.gigabytes > limits.gigabytes or cost.seconds > limits.seconds:
        raise InputError(
            f"exact inference on {len(traces)} trace(s) of up to {traces.lengths.max()} actions would need about "
            f"{cost.gigabytes:.2g} GB and {cost.seconds:.2g} s, the limits are {limits.gigabytes:g} GB and "
            f"{limits.seconds:g} s; give fewer or shorter traces, or limit the longest span or the largest counter"
        )
    return cost


def estimated_cost(
    graph: CallGraph, nodes: Nodes, lengths: Int[np.ndarray, "N"], observations: int, limits: Limits
) -> Cost:
    """Memory and time of one evaluation with gradient: of the tables, the spans, the frames' states and the rows."""
    callees = (nodes.children >= 0).sum(axis=1)
    blocks = np.unique(nodes.block, return_index=True)[1]
    width = 1 + np.array([len(graph.calls[nodes.procedure[node]]) for node in blocks])
    spans = states = cells = table = 0.0
    for steps, count in zip(*np.unique(lengths, return_counts=True), strict=True):
        longest = min(limits.longest_span or steps, steps)
        counters = min(limits.largest_counter or steps, steps)
        reaches = np.minimum(np.arange(steps) + 1, longest)
        reachable = np.append(0.0, np.cumsum(np.minimum(np.arange(steps) + 1.0, longest)))
        below = np.append(0.0, np.cumsum(reachable[1:]))
        # For a frame that may last so long: Σ over counters and times of a call of the spans that the callee may have.
        frame_spans = below - np.append(np.zeros(counters), below)[: steps + 1]
        frame_states = np.arange(steps + 1.0) * np.minimum(np.arange(steps + 1), counters)
        spans += count * (callees[0] * frame_spans[steps] + callees[1:].sum() * frame_spans[reaches].sum())
        square = (1 + callees) * (2 + callees)
        states += count * (square[0] * frame_states[steps] + square[1:].sum() * frame_states[reaches].sum())
        cells += count * float((steps + 1) * (counters + 1) * width.sum())
        table = max(table, 24.0 * len(nodes.procedure) * steps * (longest + 1))
        table += 16.0 * count * len(nodes.procedure) * steps * (longest + 1)
    most = min(limits.largest_counter or lengths.max(), lengths.max())
    rows = min(cells, float(observations * (most + 1) * (width * (len(graph.action_names) + 1)).sum()))
    memory = table + 28.0 * cells + 32.0 * rows * graph.step_count
    seconds = 3 * (spans * SECONDS_PER_SPAN + states * SECONDS_PER_STATE) + rows * SECONDS_PER_ROW
    return Cost(float(memory / 1e9), float(seconds))


def _heights(graph: CallGraph) -> Int[np.ndarray, "H"]:
    """Procedures on the longest path down from each, cut off at the maximum depth."""
    heights = np.ones(len(graph.procedures), dtype=np.int64)
    for _ in range(graph.max_depth - 1):
        heights = np.array(
            [min(graph.max_depth, 1 + max((heights[callee] for callee in c), default=0)) for c in graph.calls]
        )
    return heights


def _nodes(graph: CallGraph) -> Nodes:
    heights = _heights(graph)
    children: dict[tuple[int, int], list[tuple[int, int] | None]] = {}
    pending = [(graph.root, int(heights[graph.root]))]
    while pending:
        node = pending.pop()
        if node not in children:
            below = node[1] - 1
            children[node] = [
                (callee, min(below, int(heights[callee]))) if graph.reaches[below, callee].any() else None
                for callee in graph.calls[node[0]]
            ]
            pending += [child for child in children[node] if child is not None]
    # A callee has fewer levels than its caller, so this order puts callers first; the root has most of all.
    ordered = sorted(children, key=lambda node: -node[1])
    place = {node: i for i, node in enumerate(ordered)}
    table = np.full((len(ordered), graph.children.shape[1]), -1, dtype=np.int64)
    blocks: dict[tuple[int, tuple[bool, ...]], int] = {}
    block = []
    for i, node in enumerate(ordered):
        callees = children[node]
        table[i, : len(callees)] = [-1 if child is None else place[child] for child in callees]
        key = (node[0], tuple(child is None for child in callees))
        block.append(blocks.setdefault(key, len(blocks)))
    procedure, level = np.array(ordered, dtype=np.int64).T
    return Nodes(procedure.copy(), level.copy(), table, np.array(block))


def _distinct(traces: Traces) -> tuple[Int[np.ndarray, "times"], Int[np.ndarray, "distinct"]]:
    """A number for each observation, equal for equal ones, and where each number stands first."""
    flat = np.ascontiguousarray(traces.observations.reshape(len(traces.observations), -1))
    if flat.shape[1] == 0:
        return np.zeros(len(flat), dtype=np.int64), np.zeros(1, dtype=np.int64)
    raw = flat.view(np.uint8).reshape(len(flat), -1)
    _, first, inverse = np.unique(
        raw.view(np.dtype((np.void, raw.shape[1]))).ravel(), return_index=True, return_inverse=True
    )
    return inverse.ravel(), first


def _with_rows(
    graph: CallGraph,
    nodes: Nodes,
    traces: Traces,
    seen: Int[np.ndarray, "times"],
    first_seen: Int[np.ndarray, "distinct"],
    limits: Limits,
    cost: Cost,
) -> StepTable:
    _, representative = np.unique(nodes.block, return_index=True)
    procedures = nodes.procedure[representative]
    width = np.array([1 + len(graph.calls[procedure]) for procedure in procedures])
    enters, calls = _reach_of_blocks(graph, nodes)
    only_root = np.bincount(nodes.block[1:], minlength=len(width)) == 0
    longest = int(min(limits.longest_span or traces.lengths.max(), traces.lengths.max()))
    largest = int(min(limits.largest_counter or traces.lengths.max(), traces.lengths.max()))
    radix, last_count = largest + 1, graph.step_count + 1
    acts = graph.can_act[nodes.procedure]
    all_actions, all_keys = [], []
    for i, steps in enumerate(traces.lengths):
        actions = traces.actions[traces.offsets[i] : traces.offsets[i + 1]].astype(np.int64)
        start, counters = traces.row_offsets[i], min(largest, int(steps))
        keys = np.empty((steps + 1) * (counters + 1) * width.sum(), dtype=np.int64)
        row_keys(
            actions, seen[start : start + steps + 1], enters, graph.can_act[procedures], calls, width, only_root,
            np.arange(len(width)) == nodes.block[0], counters, longest, radix, last_count, len(first_seen), keys,
        )  # fmt: skip
        all_actions.append(actions)
        all_keys.append(keys)
    rows, places = _numbered(all_keys, len(width) * radix * last_count * len(first_seen))
    lattices = []
    for actions, index in zip(all_actions, places, strict=True):
        counters = min(largest, len(actions))
        base = np.append(0, np.cumsum((len(actions) + 1) * (counters + 1) * width)[:-1])
        lattices.append(Lattice(nodes.children, acts, nodes.block, width, base, index, actions, counters, longest))
    rest, observation = np.divmod(rows, len(first_seen))
    rest, last = np.divmod(rest, last_count)
    block, counter = np.divmod(rest, radix)
    depth = graph.max_depth - nodes.level[representative] + 1
    return StepTable(
        graph,
        nodes,
        first_seen[observation],
        procedures[block],
        counter,
        last - 1,
        depth[block],
        lattices,
        cost,
        limits.longest_span is not None or limits.largest_counter is not None,
    )


def _reach_of_blocks(
    graph: CallGraph, nodes: Nodes
) -> tuple[Bool[np.ndarray, "blocks A"], Bool[np.ndarray, "blocks C A"]]:
    """Actions that some node of a block can emit at all, and through each of its calls."""
    reach = graph.reaches[nodes.level, nodes.procedure]
    enters = np.zeros((nodes.block.max() + 1, reach.shape[1]), dtype=bool)
    calls = np.zeros((len(enters), nodes.children.shape[1], reach.shape[1]), dtype=bool)
    for node, block in enumerate(nodes.block):
        enters[block] |= reach[node]
        calls[block] |= reach[nodes.children[node]] & (nodes.children[node] >= 0)[:, None]
    return enters, calls


def _numbered(
    parts: Sequence[Int[np.ndarray, "_"]], bound: int
) -> tuple[Int[np.ndarray, "rows"], list[Int[np.ndarray, "_"]]]:
    """The distinct keys in order, and each key's place among them (-1 for -1)."""
    if bound <= 4 * sum(map(len, parts)) + 1_000_000:
        used = np.zeros(bound + 1, dtype=bool)
        for keys in parts:
            used[keys] = True
        used[bound] = False  # where the keys -1 went
        distinct = np.flatnonzero(used)
        place = np.full(bound + 1, -1, dtype=np.int32)
        place[distinct] = np.arange(len(distinct))
        return distinct, [place[keys] for keys in parts]
    distinct = np.unique(np.concatenate([np.unique(keys) for keys in parts]))
    distinct = distinct[distinct >= 0]
    return distinct, [np.where(keys < 0, -1, np.searchsorted(distinct, keys)).astype(np.int32) for keys in parts]
