"""Random call graphs and traces for the property tests."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from hypothesis import strategies as st

from hvil.data.annotations import Annotations
from hvil.data.arrays import OBSERVATION_DTYPES
from hvil.data.traces import Traces
from hvil.machine.callgraph import CallGraph

ACTIONS = ("a", "b", "c")
OBSERVATION_SHAPES = [(), (1,), (4,), (70,), (2, 3), (3, 5, 5)]
METADATA_DTYPES = ["bool", "int8", "uint16", "int64", "float32", "float64", "<U5"]


@contextmanager
def without_random() -> Iterator[None]:
    """The type checks of the tests look at random entries of long tuples; hypothesis wants its own randomness only."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)


@st.composite
def call_graphs(draw: st.DrawFn, max_procedures: int = 4, max_depth: int = 4) -> CallGraph:
    """Any directed graph, cycles and self-calls included, whose root can take some action."""
    count = draw(st.integers(1, max_procedures))
    indices = st.integers(0, count - 1)
    calls = tuple(tuple(draw(st.lists(indices, unique=True, max_size=3))) for _ in range(count))
    subsets = st.lists(st.integers(0, len(ACTIONS) - 1), unique=True, max_size=len(ACTIONS))
    acts = [tuple(sorted(draw(subsets))) for _ in range(count)]
    root = draw(indices)
    names = tuple(f"p{i}" for i in range(count))
    depth = draw(st.integers(1, max_depth))
    fallback = draw(st.integers(0, len(ACTIONS) - 1))
    with without_random():
        try:
            return CallGraph(names, ACTIONS, calls, tuple(acts), root, depth)
        except ValueError:
            acts[root] = (fallback,)
            return CallGraph(names, ACTIONS, calls, tuple(acts), root, depth)


@st.composite
def graphs_and_actions(draw: st.DrawFn, max_length: int = 5, **limits: int) -> tuple[CallGraph, list[int]]:
    """A call graph and a sequence of actions that it can emit."""
    graph = draw(call_graphs(**limits))
    possible = np.flatnonzero(graph.reaches[graph.max_depth, graph.root]).tolist()
    return graph, draw(st.lists(st.sampled_from(possible), min_size=1, max_size=max_length))


@st.composite
def trace_sets(draw: st.DrawFn, max_traces: int = 5, max_length: int = 5) -> Traces:
    """Sets with observations of every type and shape, some with names, annotations, metadata and attributes."""
    lengths = draw(st.lists(st.integers(1, max_length), min_size=1, max_size=max_traces))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    steps, rows = sum(lengths), sum(lengths) + len(lengths)
    shape = draw(st.sampled_from(OBSERVATION_SHAPES))
    columns = int(np.prod(shape))
    metadata = {
        name: rng.integers(0, 2, (len(lengths), *draw(st.sampled_from([(), (2,), (2, 2), (0,)])))).astype(dtype)
        for name, dtype in draw(st.dictionaries(st.sampled_from("xyz"), st.sampled_from(METADATA_DTYPES))).items()
    }
    dtype = draw(st.sampled_from(sorted(OBSERVATION_DTYPES)))
    names = tuple(f"o{i}" for i in range(columns)) if draw(st.booleans()) else ()
    known = draw(st.booleans())
    attributes = draw(st.dictionaries(st.sampled_from(["task", "teacher"]), st.text("aé: ", max_size=3)))
    observations = rng.integers(0, 100, (rows, *shape)).astype(dtype)
    actions = rng.integers(0, len(ACTIONS), steps)
    with without_random():
        structure = random_annotations(lengths, rng) if known else None
        return Traces(observations, actions, np.cumsum([0, *lengths]), ACTIONS, names, structure, metadata, attributes)


def random_annotations(lengths: list[int], rng: np.random.Generator, depth: int = 3) -> Annotations:
    """Call structure for traces of these lengths, with steps of which it is not known, fully or in part."""
    stacks, kept = [], []
    for length in lengths:
        stack = [0]
        for time in range(length):
            keep = 1 if time == 0 else int(rng.integers(1, len(stack) + 1))
            stack = stack[:keep] + rng.integers(0, 3, rng.integers(0, depth - keep + 1)).tolist()
            known = rng.choice(["all", "stack", "nothing"])
            stacks.append([-1] * depth if known == "nothing" else stack + [-1] * (depth - len(stack)))
            kept.append(keep if known == "all" else -1)
    return Annotations(("main", "left", "right"), np.array(stacks), np.array(kept))
