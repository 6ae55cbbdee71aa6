"""Running a policy: equal to the reference machine with the same networks, alone or in a batch, compiled or not."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import GRAPHS, WIDTH, as_modules, make_learner, make_traces
from strategies import call_graphs

import hvil
from hvil.data.traces import Traces
from hvil.learners.hvil import HvilLearner
from hvil.learners.learner import Policy
from hvil.learners.naive import choose, log_probs
from hvil.learners.networks.runner import NamedFrame, ProcedurePolicy
from hvil.machine import reference
from hvil.machine.callgraph import CallGraph
from hvil.machine.reference import Stack


class Ran(NamedTuple):
    """The reference machine, run until it acts or ends."""

    action: int
    stack: Stack
    taken: int
    """PHP steps"""
    called: list[int]


def reference_act(
    learner: HvilLearner, stack: Stack, observation: np.ndarray, uniforms: np.ndarray | None = None
) -> Ran:
    """Greedy, or sampled with one uniform number a step."""
    graph, taken, called = learner.config.graph, 0, list[int]()
    while stack:
        possible = reference.policy_steps(graph, stack)
        with torch.no_grad():
            features = learner.policy_network.encode(torch.tensor(observation)[None])[0]
            scores = log_probs(learner.policy_network.bank, learner, features, stack[-1], possible)
        choice = choose(scores, possible, 0.0 if uniforms is None else float(uniforms[taken]), uniforms is None)
        stack = reference.step(graph, stack, choice)
        taken += 1
        if choice < graph.terminate:
            return Ran(choice, stack, taken, called)
        if choice > graph.terminate:
            called.append(stack[-1].procedure)
    return Ran(graph.terminate, (), taken, called)


def uniforms_of(graph: CallGraph, rng: np.random.Generator, count: int) -> np.ndarray:
    """The numbers that a policy draws for one `act`: as many as PHP steps could come before an action."""
    return rng.random((count, 2 * graph.max_depth))


def named(graph: CallGraph, stack: Stack) -> tuple[NamedFrame, ...]:
    """The stack in the words of a policy."""
    words = (*graph.action_names, "∅", *graph.procedures)
    return tuple(
        NamedFrame(
            procedure=graph.procedures[frame.procedure],
            counter=frame.counter,
            last=None if frame.last is None or frame.last < 0 else words[frame.last],
        )
        for frame in stack
    )


def not_compiled(learner: HvilLearner) -> ProcedurePolicy:
    """The same policy through torch, as on a device."""
    network = make_learner(learner.config.graph).policy_network
    network.bank = as_modules(learner.policy_network.bank)
    return ProcedurePolicy(network)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(call_graphs(), st.integers(0, 10**6), st.booleans())
def test_acting_equals_the_reference_machine(graph: CallGraph, seed: int, greedy: bool) -> None:
    learner = make_learner(graph, seed=seed)
    count, rng = 3, np.random.default_rng(seed)
    numbers = np.random.default_rng(seed)
    policies = [learner.policy(), not_compiled(learner)]
    for policy in policies:
        policy.reset(count, seed)
        assert policy.stack == [named(graph, reference.start(graph))] * count
    stacks = [reference.start(graph)] * count
    steps = np.zeros(count, dtype=np.int64)
    for _ in range(5):
        observations = rng.normal(size=(count, WIDTH)).astype(np.float32)
        drawn = uniforms_of(graph, numbers, count)
        ran = [
            reference_act(learner, *given, None if greedy else own)
            for *given, own in zip(stacks, observations, drawn, strict=True)
        ]
        actions, stacks = [each.action for each in ran], [each.stack for each in ran]
        steps += [each.taken for each in ran]
        for policy in policies:
            np.testing.assert_array_equal(policy.act(observations, greedy), actions)
            assert policy.stack == [named(graph, stack) for stack in stacks]
            np.testing.assert_array_equal(policy.php_steps, steps)


@pytest.mark.parametrize("greedy", [True, False])
def test_one_environment_takes_single_observations(greedy: bool) -> None:
    learner = make_learner(GRAPHS["recursive"])
    single, batch = learner.policy(), learner.policy()
    assert isinstance(single, Policy)
    single.reset(seed=4)
    batch.reset(1, seed=4)
    for observation in np.random.default_rng(0).normal(size=(6, WIDTH)).astype(np.float32):
        action = single.act(observation, greedy)
        assert type(action) is int
        assert [action] == batch.act(observation[None], greedy).tolist()
        assert [single.stack] == batch.stack


def test_a_program_that_has_ended_stays_ended() -> None:
    learner = make_learner(GRAPHS["tree"])
    with torch.no_grad():
        learner.policy_network.bank.bias2[:, 2] += 100
    policy = learner.policy()
    observation = np.zeros(WIDTH, dtype=np.float32)
    assert policy.act(observation) < 2, "no program ends before its first action"
    assert [policy.act(observation) for _ in range(3)] == [2, 2, 2]
    assert policy.stack == ()
    policy.reset()
    assert policy.stack == named(GRAPHS["tree"], reference.start(GRAPHS["tree"]))


@pytest.mark.parametrize("name", GRAPHS)
def test_wrong_equals_acting_along_the_trace(name: str) -> None:
    graph = GRAPHS[name]
    learner = make_learner(graph, seed=2)
    with torch.no_grad():
        learner.policy_network.bank.bias2[:, graph.terminate] += 1
    traces = own_traces(learner, 12)
    changed = traces.actions.copy()
    changed[traces.offsets[:4] + np.minimum(1, traces.lengths[:4] - 1)] ^= 1
    traces = replace(traces, actions=changed)
    ran = [reference_follow(learner, trace) for trace in traces]
    expected = [wrong for wrong, _, _ in ran]
    called = np.concatenate([called for _, _, called in ran])
    assert set(expected) == {False, True}
    policy = learner.policy()
    for trace, wrong in zip(traces, expected, strict=True):
        policy.reset()
        emitted = [*trace.actions.tolist(), graph.terminate]
        assert wrong != all(policy.act(o) == a for o, a in zip(trace.observations, emitted, strict=True))
    for each in (policy, not_compiled(learner)):
        wrong, taken, visits = each.follow(traces)
        np.testing.assert_array_equal(wrong, expected)
        np.testing.assert_array_equal(each.wrong(traces), expected)
        np.testing.assert_array_equal(taken, [steps for _, steps, _ in ran])
        np.testing.assert_array_equal(visits, np.bincount(called, minlength=len(graph.procedures)))


def reference_follow(learner: HvilLearner, trace: Traces) -> tuple[bool, int, list[int]]:
    """Up to the first error: whether there is one, the PHP steps, the procedures called (the root first)."""
    graph = learner.config.graph
    stack, taken, called = reference.start(graph), 0, [graph.root]
    for observation, action in zip(trace.observations, [*trace.actions.tolist(), graph.terminate], strict=True):
        ran = reference_act(learner, stack, observation)
        stack, taken, called = ran.stack, taken + ran.taken, called + ran.called
        if ran.action != action:
            return True, taken, called
    return False, taken, called


def own_traces(learner: HvilLearner, count: int) -> Traces:
    """Traces of the greedy policy itself on random observations, cut where it ends or after ten actions."""
    rng, policy = np.random.default_rng(0), learner.policy()
    episodes: list[tuple[np.ndarray, np.ndarray]] = []
    while len(episodes) < count:
        observations = rng.normal(size=(11, WIDTH)).astype(np.float32)
        policy.reset()
        actions = [policy.act(o) for o in observations]
        length = min(sum(action < 2 for action in actions), 10)
        episodes.append((observations[: length + 1], np.array(actions[:length])))
    return Traces.from_episodes(*map(list, zip(*episodes, strict=True)), action_names=learner.config.action_names)


@pytest.mark.parametrize("encoder", ["separate", "shared"])
def test_images_run_through_torch(encoder: str) -> None:
    graph, shape = GRAPHS["tree"], (16, 16)
    learner = make_learner(graph, shape, network="convnet", encoder=encoder)
    policy = learner.policy()
    policy.reset(2)
    images = np.random.default_rng(0).integers(0, 256, (2, *shape)).astype(np.uint8)
    actions = policy.act(images)
    for i in range(2):
        rows = images[i].reshape(-1).astype(np.float32) / np.float32(255)
        ran = reference_act(learner, reference.start(graph), rows)
        assert (ran.action, named(graph, ran.stack)) == (actions[i], policy.stack[i])
    traces = Traces.from_episodes([images], [np.array([actions[0]])], graph.action_names)
    assert policy.wrong(traces).shape == (1,)


def test_observations_that_do_not_fit_are_refused() -> None:
    learner = make_learner(GRAPHS["tree"])
    policy = learner.policy()
    with pytest.raises(hvil.InputError, match="3 numbers each"):
        policy.act(np.zeros(WIDTH + 1, dtype=np.float32))
    policy.reset(2)
    for shape in [(WIDTH,), (2, WIDTH + 1), (3, WIDTH), (WIDTH, 2), ()]:
        with pytest.raises(hvil.InputError, match="do not fit: 2 environment"):
            policy.act(np.zeros(shape, dtype=np.float32))
    with pytest.raises(hvil.InputError, match="at least one environment"):
        policy.reset(0)


def test_traces_that_do_not_fit_are_refused() -> None:
    graph = GRAPHS["tree"]
    learner = make_learner(graph)
    wide = make_traces(graph, [[0]], shape=(WIDTH + 1,))
    other = Traces.from_episodes([np.zeros((2, WIDTH), dtype=np.float32)], [np.array([0])], ("go", "stop", "turn"))
    for policy in (learner.policy(), not_compiled(learner)):
        with pytest.raises(hvil.InputError, match="the policy takes 3 numbers"):
            policy.wrong(wide)
        with pytest.raises(hvil.InputError, match="go, stop, turn"):
            policy.wrong(other)
    for method in (lambda t: learner.loss(t, np.random.default_rng(0), 0), learner.infer):
        with pytest.raises(hvil.InputError, match="the model expects"):
            method(wide)
        with pytest.raises(hvil.InputError, match="go, stop, turn"):
            method(other)


def test_an_action_that_the_graph_cannot_emit_is_refused_by_name() -> None:
    graph = CallGraph(("root",), ("a", "b"), calls=((),), acts=((0,),))
    traces = make_traces(GRAPHS["tree"], [[0, 1]])
    with pytest.raises(hvil.InputError, match="can emit 'b'"):
        make_learner(graph).loss(traces, np.random.default_rng(0), 0)
