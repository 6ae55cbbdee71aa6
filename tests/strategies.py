"""Random call graphs and traces for the property tests."""

import numpy as np
from hypothesis import strategies as st

from hvil.callgraph import CallGraph

ACTIONS = ("a", "b", "c")


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
    try:
        return CallGraph(names, ACTIONS, calls, tuple(acts), root, depth)
    except ValueError:
        acts[root] = (draw(st.integers(0, len(ACTIONS) - 1)),)
        return CallGraph(names, ACTIONS, calls, tuple(acts), root, depth)


@st.composite
def graphs_and_actions(draw: st.DrawFn, max_length: int = 5, **limits: int) -> tuple[CallGraph, list[int]]:
    """A call graph and a sequence of actions that it can emit."""
    graph = draw(call_graphs(**limits))
    possible = np.flatnonzero(graph.reaches[graph.max_depth, graph.root]).tolist()
    return graph, draw(st.lists(st.sampled_from(possible), min_size=1, max_size=max_length))
