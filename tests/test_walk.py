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
from hvil.learners.networks.batch import prepare
from hvil.machine import reference
from hvil.machine.callgraph import CallGraph
from hvil.machine.steps import Steps, Walk, joined, most_steps


def walks(learner: HvilLearner, traces: Traces, seed: int, greedy: bool, samples: int = 1) -> tuple[Walk, Walk, Walk]:
    """The compiled walk, the batched one, and the reference machine's."""
    batch = prepare(traces, learner.config, learner.device)
    context = learner.posterior.context(batch).detach()
    uniforms = learner.posterior.uniforms(batch, np.random.default_rng(seed), samples)
    compiled, _ = learner.posterior.walk_compiled(batch, context, uniforms, greedy)
    batched = learner.posterior.walk_batched(batch, context, uniforms, greedy)
    return compiled, batched, reference_walk(learner, traces, uniforms.numbers, greedy, samples)


def reference_walk(learner: HvilLearner, traces: Traces, uniforms: np.ndarray, greedy: bool, samples: int = 1) -> Walk:
    traces = traces[np.repeat(np.arange(len(traces)), samples)]
    offsets = np.concatenate([[0], np.cumsum(most_steps(learner.config.graph, traces.lengths))])
    parts = [
        naive_walk(learner, trace, uniforms[first:], greedy) for trace, first in zip(traces, offsets[:-1], strict=True)
    ]
    flat = [(i, step) for i, steps in enumerate(parts) for step in steps]
    graph = learner.config.graph
    row_offsets = np.repeat(traces[::samples].row_offsets[:-1], samples)
    tops = [step.stack[-1] for _, step in flat]
    steps = Steps(
        row=np.array([row_offsets[i] + step.time for i, step in flat]),
        procedure=np.array([frame.procedure for frame in tops]),
        counter=np.array([frame.counter for frame in tops]),
        last=np.array([frame.last for frame in tops]),
        depth=np.array([len(step.stack) for _, step in flat]),
        choice=np.array([step.choice for _, step in flat]),
        offsets=np.concatenate([[0], np.cumsum([len(steps) for steps in parts])]),
    )
    np.testing.assert_array_equal(steps.trace, [i for i, _ in flat])
    np.testing.assert_array_equal(steps.time(row_offsets), [step.time for _, step in flat])
    return Walk(
        steps=steps,
        annotated=np.array([step.annotated for _, step in flat]),
        posterior_possible=np.stack([np.isfinite(step.log_q.detach().numpy()) for _, step in flat]),
        policy_possible=np.stack(
            [np.isin(np.arange(graph.step_count), reference.policy_steps(graph, s.stack)) for _, s in flat]
        ),
    )


def assert_equal(walk: Walk, expected: Walk, which: str) -> None:
    for names, ours, theirs in [
        (Steps._fields, walk.steps, expected.steps),
        (Walk._fields[1:], walk[1:], expected[1:]),
    ]:
        for name, a, b in zip(names, ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=f"{name}: {which} walk and reference machine")


def assert_same(learner: HvilLearner, traces: Traces, seed: int, greedy: bool, samples: int = 1) -> Walk:
    compiled, batched, plain = walks(learner, traces, seed, greedy, samples)
    assert_equal(compiled, plain, "compiled")
    assert_equal(batched, plain, "batched")
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
    walk = assert_same(learner, traces, seed, greedy)
    choice = walk.steps.choice
    assert walk.posterior_possible.any(axis=1).all(), "the posterior reached a dead end"
    assert not (walk.posterior_possible & ~walk.policy_possible).any(), "a step is possible for q and not for p"
    assert walk.posterior_possible[np.arange(len(choice)), choice].all()


@pytest.mark.parametrize("frame_inputs", ["both", "counter", "last", "none"])
@pytest.mark.parametrize("counter", ["raw", "raw+hot2", "3/2+step2", "hot1"])
@pytest.mark.parametrize("greedy", [False, True])
def test_walks_agree_whatever_a_frame_shows(frame_inputs: str, counter: str, greedy: bool) -> None:
    graph = GRAPHS["recursive"]
    learner = make_learner(graph, frame_inputs=frame_inputs, counter=counter)
    assert_same(learner, make_traces(graph, random_sequences(graph, [5, 1, 4, 20])), seed=3, greedy=greedy)


def test_the_walk_emits_the_trace_and_ends_with_an_empty_stack() -> None:
    graph = GRAPHS["restricted"]
    learner = make_learner(graph)
    traces = make_traces(graph, random_sequences(graph, [7, 2, 11]))
    steps, _ = learner.terms(traces, np.random.default_rng(0))
    for i, trace in enumerate(traces):
        taken = steps.choice[steps.offsets[i] : steps.offsets[i + 1]].tolist()
        reference.replay(graph, trace.actions.tolist(), taken)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_bound_on_steps_is_the_longest_structure_and_the_returns_that_the_first_action_lacks(length: int) -> None:
    graph = GRAPHS["chain"]
    longest = max(len(structure) for structure in reference.structures(graph, [0] * length))
    assert most_steps(graph, np.array([length]))[0] == longest + graph.max_depth - 1


def test_the_steps_of_parts_join_to_those_of_the_whole() -> None:
    graph = GRAPHS["recursive"]
    learner = make_learner(graph)
    traces = make_traces(graph, random_sequences(graph, [4, 1, 3, 2]))
    whole = learner.infer(traces).steps
    parts = joined([learner.infer(traces[part]).steps for part in (slice(2), slice(2, 3), slice(3, 4))])
    for name, ours, theirs in zip(Steps._fields, parts, whole, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=name)


def test_the_same_random_state_gives_the_same_walk() -> None:
    graph = GRAPHS["tree"]
    learner = make_learner(graph)
    traces = make_traces(graph, random_sequences(graph, [5, 3]))
    first, again, other = (learner.infer(traces, np.random.default_rng(seed)).steps for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.choice, again.choice)
    assert len(first.choice) != len(other.choice) or (first.choice != other.choice).any()
