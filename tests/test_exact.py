"""Exact inference against the enumeration of all call structures, on random call graphs, traces and policies."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_policy import RandomPolicy, log_joints, random_traces, shortened
from scipy import stats
from strategies import ACTIONS, graphs_and_actions

from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.exact import inference as exact
from hvil.learners.exact.cost import Limits
from hvil.learners.exact.step_table import StepTable, step_table
from hvil.machine import reference
from hvil.machine.callgraph import CallGraph, call_graph

RECURSIVE = {
    "max_depth": 3,
    "procedures": {"f": {"calls": ["f", "g"], "actions": ["a", "b"]}, "g": {"calls": ["f"], "actions": ["c", "a"]}},
}

SELF_CALLING_ROOT = CallGraph(("p0",), ACTIONS, calls=((0,),), acts=((0,),), root=0, max_depth=3)
"""The root stands at the bottom of the stack, where no limit on spans holds, and above it, where one does."""


def evaluated(policy: RandomPolicy, traces: Traces, limits: Limits | None = None) -> tuple[StepTable, torch.Tensor]:
    table = step_table(policy.graph, traces, limits)
    return table, table.log_probs(policy, torch.tensor(traces.observations))


def structure(structures: exact.Structures, trace: int = 0, sample: int = 0) -> tuple[int, ...]:
    choices = np.split(structures.steps.choice, structures.steps.offsets[1:-1])
    return tuple(choices[trace * structures.log_joint.shape[1] + sample].tolist())


def enumerated_counts(traces: Traces, graph: CallGraph, weights: dict[tuple[int, ...], float]) -> Counter:
    counts: Counter = Counter()
    for taken, weight in weights.items():
        for moment, choice in zip(reference.replay(graph, traces.actions.tolist(), taken), taken, strict=True):
            counts[(traces.observations[moment.time].tobytes(), *moment.stack[-1], choice)] += weight
    return counts


def found_counts(traces: Traces, table: StepTable, step_counts: np.ndarray) -> Counter:
    counts: Counter = Counter()
    for row, choice in zip(*np.nonzero(step_counts), strict=True):
        seen = traces.observations[table.observation[row]].tobytes()
        counts[(seen, table.procedure[row], table.counter[row], table.last[row], choice)] += step_counts[row, choice]
    return counts


def assert_most_likely(likely: exact.Structures, structures: list[tuple[int, ...]], log_joint: torch.Tensor) -> None:
    """The structure of a trace is one of the most likely; there are several when they take the same steps in turn."""
    assert log_joint[structures.index(structure(likely))].item() == pytest.approx(log_joint.max().item(), abs=1e-9)
    np.testing.assert_allclose(likely.log_joint, log_joint.max().item(), rtol=1e-9, atol=1e-9)


@settings(max_examples=200, deadline=None)
@given(graphs_and_actions(max_length=6), st.integers(0, 2**31), st.sampled_from([1.0, 10.0, 200.0]))
def test_everything_equals_enumeration(case: tuple[CallGraph, list[int]], seed: int, scale: float) -> None:
    graph, actions = case[0], shortened(*case)
    policy, traces = RandomPolicy(graph, seed, scale=scale), random_traces(seed, actions)
    structures = list(reference.structures(graph, actions))
    joints = log_joints(policy, traces, structures)
    expected = torch.logsumexp(joints, 0)
    table, log_probs = evaluated(policy, traces)
    result = exact.posterior(table, log_probs)
    np.testing.assert_allclose(result.log_likelihood, [expected.item()], rtol=1e-9, atol=1e-9)

    wanted = torch.autograd.grad(expected, list(policy.parameters()))
    found = torch.autograd.grad(exact.log_likelihood(table, log_probs).sum(), list(policy.parameters()))
    for one, other in zip(wanted, found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)

    weights = dict(zip(structures, (joints - expected).exp().tolist(), strict=True))
    counts = enumerated_counts(traces, graph, weights)
    ours = found_counts(traces, table, result.step_counts)
    assert {key: ours[key] for key in counts} == pytest.approx(dict(counts), rel=1e-6, abs=1e-9)
    assert ours.total() == pytest.approx(counts.total(), rel=1e-6)

    likely = exact.viterbi(table, log_probs)
    assert_most_likely(likely, structures, joints)


@settings(max_examples=50, deadline=None)
@given(graphs_and_actions(max_length=25), st.integers(0, 2**31), st.sampled_from([None, 3]))
def test_sums_of_plain_probabilities_equal_those_in_logarithms(
    case: tuple[CallGraph, list[int]], seed: int, span: int | None
) -> None:
    policy, traces = RandomPolicy(case[0], seed), random_traces(seed, case[1])
    try:
        table, log_probs = evaluated(policy, traces, Limits(longest_span=span))
        plain = exact.posterior(table, log_probs, keep_tables=True)
    except InputError:  # no structure has so short spans
        assert span
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "SMALLEST", np.inf)
        in_logarithms = exact.posterior(table, log_probs, keep_tables=True)
    np.testing.assert_allclose(plain.log_likelihood, in_logarithms.log_likelihood, rtol=1e-10)
    np.testing.assert_allclose(plain.step_counts, in_logarithms.step_counts, rtol=1e-8, atol=1e-12)
    for found, expected in zip(plain.tables[0], in_logarithms.tables[0], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)


def test_a_trace_too_unlikely_for_plain_probabilities_is_summed_in_logarithms() -> None:
    graph = call_graph("tree:2x2", ACTIONS)
    policy, traces = RandomPolicy(graph, 0, scale=60.0), random_traces(0, [0, 2, 1] * 10)
    table, log_probs = evaluated(policy, traces)
    result = exact.posterior(table, log_probs)
    assert np.isfinite(result.log_likelihood).all()
    assert result.log_likelihood[0] < np.log(exact.SMALLEST)
    taken_actions = result.step_counts[:, : len(ACTIONS)].sum()
    assert taken_actions == pytest.approx(len(traces.actions))


@pytest.mark.parametrize("spec", ["tree:2x2", "chain:3", RECURSIVE], ids=str)
def test_samples_pass_a_chi_squared_test_against_the_enumerated_posterior(spec: object) -> None:
    graph, actions = call_graph(spec, ACTIONS), [0, 2, 0, 0]
    policy, traces = RandomPolicy(graph, 1), random_traces(1, actions)
    structures = list(reference.structures(graph, actions))
    probabilities = torch.softmax(log_joints(policy, traces, structures), 0).detach().numpy()
    count = 20_000
    found = exact.sample(*evaluated(policy, traces), count, np.random.default_rng(0))
    drawn = Counter(tuple(part.tolist()) for part in np.split(found.steps.choice, found.steps.offsets[1:-1]))
    assert set(drawn) <= set(structures)
    observed = np.array([drawn[taken] for taken in structures])
    common = probabilities * count >= 5
    cells = (
        np.append(observed[common], observed[~common].sum()),
        np.append(probabilities[common], probabilities[~common].sum()),
    )
    used = cells[1] > 0
    assert stats.chisquare(cells[0][used], count * cells[1][used] / cells[1].sum()).pvalue > 1e-3


@settings(max_examples=30, deadline=None)
@given(graphs_and_actions(max_length=20), st.integers(0, 2**31))
def test_samples_are_structures_of_the_trace_with_the_stated_probability(
    case: tuple[CallGraph, list[int]], seed: int
) -> None:
    graph, actions = case
    policy, traces = RandomPolicy(graph, seed), random_traces(seed, actions)
    table, log_probs = evaluated(policy, traces)
    found = exact.sample(table, log_probs, 3, np.random.default_rng(seed))
    taken = [structure(found, sample=i) for i in range(3)]
    np.testing.assert_allclose(found.log_joint[0], log_joints(policy, traces, taken).detach(), rtol=1e-9, atol=1e-9)
    moments = reference.replay(graph, actions, taken[2])
    steps = found.steps
    of_third = slice(*steps.offsets[2:4])
    assert [moment.time for moment in moments] == steps.row[of_third].tolist()
    assert [len(moment.stack) for moment in moments] == steps.depth[of_third].tolist()
    frames = np.stack([steps.procedure, steps.counter, steps.last], axis=1)[of_third]
    assert [moment.stack[-1] for moment in moments] == [tuple(frame) for frame in frames.tolist()]


def test_traces_of_different_lengths_give_what_each_gives_alone() -> None:
    policy = RandomPolicy(call_graph(RECURSIVE, ACTIONS), 3)
    traces = random_traces(3, [0, 1, 2, 0, 1, 0, 2], [1], [2, 2, 0])
    together = exact.posterior(*evaluated(policy, traces))
    alone = [exact.posterior(*evaluated(policy, trace)) for trace in traces]
    np.testing.assert_allclose(together.log_likelihood, np.concatenate([one.log_likelihood for one in alone]))
    assert together.step_counts.sum() == pytest.approx(sum(one.step_counts.sum() for one in alone))
    # Every trace takes each of its actions once.
    table, log_probs = evaluated(policy, traces)
    assert exact.posterior(table, log_probs).step_counts[:, : len(ACTIONS)].sum() == pytest.approx(len(traces.actions))


def test_gradient_of_a_weighted_sum_passes_gradcheck() -> None:
    policy = RandomPolicy(call_graph(RECURSIVE, ACTIONS), 4)
    traces = random_traces(4, [0, 1, 2, 0], [1, 0])
    table, log_probs = evaluated(policy, traces)
    finite = log_probs.detach().clamp(min=-30).requires_grad_()
    weights = torch.tensor([0.7, -1.3], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: exact.log_likelihood(table, x) @ weights, (finite,))


def test_long_traces_of_a_sharp_policy_do_not_underflow() -> None:
    graph = call_graph("chain:1", ACTIONS)
    actions = np.random.default_rng(0).integers(0, 3, 45).tolist()
    policy, traces = RandomPolicy(graph, 5, scale=50.0), random_traces(5, actions)
    only = (*actions, graph.terminate)
    expected = log_joints(policy, traces, [only])
    assert expected.item() < -800
    result = exact.posterior(*evaluated(policy, traces))
    np.testing.assert_allclose(result.log_likelihood, expected.detach(), rtol=1e-12)
    deeper = RandomPolicy(call_graph("tree:2x3", ACTIONS), 5, scale=50.0)
    table, log_probs = evaluated(deeper, traces)
    best = exact.viterbi(table, log_probs)
    assert best.log_joint[0, 0] < -800
    value = exact.log_likelihood(table, log_probs)
    assert best.log_joint[0, 0] <= value.item() < best.log_joint[0, 0] + 20
    counts = exact.posterior(table, log_probs).step_counts
    assert counts[:, : len(ACTIONS)].sum() == pytest.approx(len(actions))


@settings(max_examples=30, deadline=None)
@given(graphs_and_actions(max_length=5), st.integers(0, 2**31))
def test_posterior_of_the_next_step_equals_enumeration(case: tuple[CallGraph, list[int]], seed: int) -> None:
    graph, actions = case[0], shortened(*case)
    policy, traces = RandomPolicy(graph, seed), random_traces(seed, actions)
    table, log_probs = evaluated(policy, traces)
    structures = list(reference.structures(graph, actions))
    weights = torch.softmax(log_joints(policy, traces, structures), 0).tolist()
    sums: Counter = Counter()
    for taken, weight in zip(structures, weights, strict=True):
        for i in range(len(taken) + 1):
            sums[taken[:i]] += weight
    for taken, found in zip(
        structures[:20], exact.step_posterior(table, log_probs, 0, [np.array(u) for u in structures[:20]]), strict=True
    ):
        for i in range(len(taken)):
            expected = [sums[(*taken[:i], u)] / sums[taken[:i]] for u in range(graph.step_count)]
            np.testing.assert_allclose(np.exp(found[i]), expected, rtol=1e-6, atol=1e-9)


def within(graph: CallGraph, actions: list[int], taken: tuple[int, ...], limits: Limits) -> bool:
    """Whether a structure respects the limits, by replaying it."""
    moments = reference.replay(graph, actions, taken)
    begun: list[int] = []
    for moment, choice in zip(moments, taken, strict=True):
        begun = begun[: len(moment.stack)]
        if len(begun) < len(moment.stack):
            begun.append(moment.time)
        if limits.largest_counter and moment.stack[-1].counter > limits.largest_counter:
            return False
        if choice == graph.terminate and len(moment.stack) > 1 and limits.longest_span:
            if moment.time - begun[-1] > limits.longest_span:
                return False
            begun.pop()
    return True


@settings(max_examples=60, deadline=None)
@given(
    graphs_and_actions(max_length=6),
    st.integers(0, 2**31),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([None, 1, 2, 3]),
)
@example(case=(SELF_CALLING_ROOT, [0, 0]), seed=0, span=1, counter=None)
@example(case=(SELF_CALLING_ROOT, [0, 0, 0]), seed=0, span=2, counter=None)
def test_limits_leave_out_exactly_the_structures_beyond_them(
    case: tuple[CallGraph, list[int]], seed: int, span: int | None, counter: int | None
) -> None:
    graph, actions = case[0], shortened(*case)
    limits = Limits(span, counter)
    policy, traces = RandomPolicy(graph, seed), random_traces(seed, actions)
    within_limits = [taken for taken in reference.structures(graph, actions) if within(graph, actions, taken, limits)]
    table, log_probs = evaluated(policy, traces, limits)
    if not within_limits:
        with pytest.raises(InputError, match=r"trace 0 has no possible call structure .* within the given limits"):
            exact.posterior(table, log_probs)
        return
    joints = log_joints(policy, traces, within_limits)
    value = exact.log_likelihood(table, log_probs)
    torch.testing.assert_close(value[0], torch.logsumexp(joints, 0), rtol=1e-9, atol=1e-9)
    for one, other in zip(
        torch.autograd.grad(torch.logsumexp(joints, 0), list(policy.parameters())),
        torch.autograd.grad(value.sum(), list(policy.parameters())),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)
    likely = exact.viterbi(table, log_probs)
    assert_most_likely(likely, within_limits, joints)
    assert structure(exact.sample(table, log_probs, 1, np.random.default_rng(seed))) in within_limits
    for taken, joint in list(zip(within_limits, joints.tolist(), strict=True))[:60]:
        [conditional] = exact.step_posterior(table, log_probs, 0, [np.array(taken)])
        log_posterior = conditional[np.arange(len(taken)), taken].sum()
        assert log_posterior == pytest.approx(joint - value.item(), rel=1e-6, abs=1e-9)
        np.testing.assert_allclose(np.exp(conditional).sum(axis=1), 1.0, rtol=1e-9)
    full = exact.log_likelihood(*evaluated(policy, traces))
    assert value.item() <= full.item() + 1e-9


def test_a_hopeless_input_is_refused_with_its_estimated_cost() -> None:
    graph = call_graph("tree:5x3", ACTIONS)
    traces = random_traces(0, [0] * 3000)
    with pytest.raises(
        InputError, match=r"3000 actions would need about .* GB and .* s, the limits are 4 GB and 600 s"
    ):
        step_table(graph, traces)
    with pytest.raises(InputError, match=r"the limits are 1e-06 GB"):
        step_table(graph, traces[0:1], Limits(longest_span=2, largest_counter=2, gigabytes=1e-6, seconds=1e9))


def test_limits_below_one_and_impossible_actions_are_refused() -> None:
    graph = call_graph("chain:2", ACTIONS)
    with pytest.raises(InputError, match="longest span must be at least 1, not 0"):
        step_table(graph, random_traces(0, [0]), Limits(longest_span=0))
    mute = call_graph({"procedures": {"f": {"calls": [], "actions": ["a"]}}}, ACTIONS)
    with pytest.raises(InputError, match="can emit 'b'"):
        step_table(mute, random_traces(0, [0, 1]))


def test_a_deep_acyclic_graph_needs_one_node_a_procedure() -> None:
    assert len(step_table(call_graph("tree:3x3", ACTIONS), random_traces(0, [0, 1])).nodes.procedure) == 13
    recursive = step_table(call_graph(RECURSIVE, ACTIONS), random_traces(0, [0, 1])).nodes
    assert sorted(zip(recursive.procedure.tolist(), recursive.level.tolist(), strict=True)) == [
        (0, 1), (0, 2), (0, 3), (1, 1), (1, 2),
    ]  # fmt: skip
    # Two levels of f and of g have the same choices (all calls), the lowest has none.
    assert len(set(recursive.block.tolist())) == 4
