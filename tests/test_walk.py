"""The walks of the posterior: compiled and batched, equal to the reference machine step for step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import GRAPHS, make_learner, make_traces, random_sequences
from strategies import graphs_and_actions

from hvil.data.traces import Traces
from hvil.learners.hvil import HvilLearner
from hvil.learners.naive import naive_walk
from hvil.learners.networks.php import prepare
from hvil.machine import reference
from hvil.machine.arrays import Steps, most_steps
from hvil.machine.callgraph import CallGraph


def walks(learner: HvilLearner, traces: Traces, seed: int, greedy: bool) -> tuple[Steps, Steps, Steps]:
    """The compiled walk, the batched one, and the reference machine's."""
    batch = prepare(traces, learner.config, learner.device)
    context = learner.posterior.context(batch)
    compiled = learner.posterior.walk(batch, context, np.random.default_rng(seed), greedy)
    offsets = np.concatenate([[0], np.cumsum(most_steps(learner.config.graph, traces.lengths))])
    uniforms = np.random.default_rng(seed).random(int(offsets[-1]))
    batched = learner.posterior.walk_batched(batch, context.detach(), uniforms, offsets, greedy)
    return compiled, batched, reference_walk(learner, traces, uniforms, offsets, greedy)


def reference_walk(
    learner: HvilLearner, traces: Traces, uniforms: np.ndarray, offsets: np.ndarray, greedy: bool
) -> Steps:
    parts = [
        naive_walk(learner, trace, uniforms[first:], greedy) for trace, first in zip(traces, offsets[:-1], strict=True)
    ]
    flat = [(i, step) for i, steps in enumerate(parts) for step in steps]
    graph, rows = learner.config.graph, traces.row_offsets
    tops = [step.stack[-1] for _, step in flat]
    return Steps(
        np.array([rows[i] + step.time for i, step in flat]),
        np.array([frame.procedure for frame in tops]),
        np.array([frame.counter for frame in tops]),
        np.array([frame.last for frame in tops]),
        np.array([len(step.stack) for _, step in flat]),
        np.array([step.choice for _, step in flat]),
        np.array([step.known for _, step in flat]),
        np.stack([np.isfinite(step.log_q.detach().numpy()) for _, step in flat]),
        np.stack([np.isin(np.arange(graph.step_count), reference.policy_steps(graph, s.stack)) for _, s in flat]),
        np.concatenate([[0], np.cumsum([len(steps) for steps in parts])]),
    )


def assert_same(learner: HvilLearner, traces: Traces, seed: int, greedy: bool) -> Steps:
    compiled, batched, plain = walks(learner, traces, seed, greedy)
    for name, a, b, c in zip(Steps._fields, compiled, batched, plain, strict=True):
        np.testing.assert_array_equal(a, c, err_msg=f"{name}: compiled walk and reference machine")
        np.testing.assert_array_equal(b, c, err_msg=f"{name}: batched walk and reference machine")
    return compiled


@settings(max_examples=60, deadline=None, derandomize=True)
@given(graphs_and_actions(), st.integers(0, 10**6), st.booleans(), st.sampled_from([0, 0.5, 1]))
def test_compiled_and_batched_walks_equal_the_reference_machine(
    graph_and_actions: tuple[CallGraph, list[int]], seed: int, greedy: bool, annotated: float
) -> None:
    graph, actions = graph_and_actions
    sequences = [actions, actions[:1], *random_sequences(graph, [3], seed)]
    traces = make_traces(graph, sequences, seed, annotated=annotated)
    learner = make_learner(graph, seed=seed, annotations="use")
    steps = assert_same(learner, traces, seed, greedy)
    assert steps.posterior_possible.any(axis=1).all(), "the posterior reached a dead end"
    assert not (steps.posterior_possible & ~steps.policy_possible).any(), "a step is possible for q and not for p"
    assert steps.posterior_possible[np.arange(len(steps.choice)), steps.choice].all()


@pytest.mark.parametrize("frame_inputs", ["both", "counter", "last", "none"])
@pytest.mark.parametrize("counter_limit", [0, 2])
@pytest.mark.parametrize("greedy", [False, True])
def test_walks_agree_whatever_a_frame_shows(frame_inputs: str, counter_limit: int, greedy: bool) -> None:
    graph = GRAPHS["recursive"]
    learner = make_learner(graph, frame_inputs=frame_inputs, counter_limit=counter_limit)
    assert_same(learner, make_traces(graph, random_sequences(graph, [5, 1, 4, 20])), seed=3, greedy=greedy)


def test_the_walk_emits_the_trace_and_ends_with_an_empty_stack() -> None:
    graph = GRAPHS["restricted"]
    learner = make_learner(graph)
    traces = make_traces(graph, random_sequences(graph, [7, 2, 11]))
    steps, _ = learner.terms(traces, np.random.default_rng(0))
    for i, trace in enumerate(traces):
        taken = steps.choice[steps.offsets[i] : steps.offsets[i + 1]].tolist()
        reference.replay(graph, trace.actions.tolist(), taken)


def test_the_bound_on_steps_is_reached_and_never_exceeded() -> None:
    graph = GRAPHS["chain"]
    deepest = [*[graph.terminate + 1] * 2, 0]
    back = [graph.terminate] * 2
    structure = [*deepest, *back, *deepest, *back, graph.terminate]
    assert len(reference.replay(graph, [0, 0], structure)) <= most_steps(graph, np.array([2]))[0]
    longest = max(len(structure) for structure in reference.structures(graph, [0, 0]))
    assert longest <= most_steps(graph, np.array([2]))[0]


def test_the_same_random_state_gives_the_same_walk() -> None:
    graph = GRAPHS["tree"]
    learner = make_learner(graph)
    traces = make_traces(graph, random_sequences(graph, [5, 3]))
    first, again, other = (learner.infer(traces, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.choice, again.choice)
    assert len(first.choice) != len(other.choice) or (first.choice != other.choice).any()
