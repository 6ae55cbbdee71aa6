"""Traces that come with their call structure: followed exactly where it is told, inferred elsewhere."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from oracle import GRAPHS, make_learner, make_traces, random_sequences

import hvil
from hvil.data.tasks import find_task
from hvil.data.traces import Annotations, Traces
from hvil.learners.config import Config
from hvil.learners.hvil import HvilLearner
from hvil.learners.objective.estimators import ESTIMATORS
from hvil.learners.settings import HvilSettings
from hvil.machine import reference
from hvil.machine.arrays import check_annotations

GRAPH = GRAPHS["restricted"]


def annotated(share: float, seed: int = 0) -> Traces:
    return make_traces(GRAPH, random_sequences(GRAPH, [5, 2, 4], seed), seed, annotated=share)


def told_structures(learner: HvilLearner, traces: Traces) -> list[list[int]]:
    graph, structures = learner.config.graph, []
    for trace in traces:
        assert trace.annotations is not None
        renumber = [graph.procedures.index(name) for name in trace.annotations.procedures] + [-1]
        stacks = np.array(renumber)[trace.annotations.stacks].tolist()
        kept = trace.annotations.kept.tolist()
        structures.append(list(reference.structure_from_stacks(graph, trace.actions.tolist(), stacks, kept)))
    return structures


@pytest.mark.parametrize("estimator", ESTIMATORS.names())
def test_full_annotation_is_plain_likelihood(estimator: str) -> None:
    """The loss is −log p − log q of the told structure: nothing is sampled, nothing is weighed by a cost."""
    learner = make_learner(GRAPH, annotations="use", estimator=estimator)
    traces = annotated(1)
    told = told_structures(learner, traces)
    loss = learner.loss(traces, np.random.default_rng(0), 0).total
    again = learner.loss(traces, np.random.default_rng(1), 7).total
    assert loss.item() == again.item(), "the random state and the entropy weight do not matter"
    steps, terms = learner.terms(traces, np.random.default_rng(2))
    np.testing.assert_array_equal(steps.choice, np.concatenate(told))
    moments = [
        (trace, moment)
        for trace, structure in zip(traces, told, strict=True)
        for moment in reference.replay(GRAPH, trace.actions.tolist(), structure)
    ]
    log_p = learner.policy_network.log_probs(
        torch.from_numpy(np.stack([trace.observations[moment.time] for trace, moment in moments])),
        *(np.array([moment.stack[-1][field] for _, moment in moments]) for field in range(3)),
        np.array([len(moment.stack) for _, moment in moments]),
    )[torch.arange(len(moments)), torch.from_numpy(steps.choice)]
    likelihood = log_p.sum()
    assert loss.item() == pytest.approx(-(likelihood + terms.log_q.sum()).item() / len(traces), rel=1e-5)
    parameters = list(learner.policy_network.parameters())
    for ours, theirs in zip(
        torch.autograd.grad(loss, parameters),
        torch.autograd.grad(-likelihood / len(traces), parameters),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_partial_annotation_is_followed_where_it_is_told() -> None:
    learner = make_learner(GRAPH, annotations="use")
    traces = annotated(0.5, seed=4)
    assert traces.annotations is not None
    known = traces.annotations.known
    assert 0 < known.mean() < 1
    choices = set()
    for seed in range(20):
        steps, terms = learner.terms(traces, np.random.default_rng(seed))
        for i, trace in enumerate(traces):
            part = slice(steps.offsets[i], steps.offsets[i + 1])
            found = reference.stacks_from_structure(GRAPH, trace.actions.tolist(), steps.choice[part].tolist())
            told = trace.annotations
            assert told is not None
            for time in np.flatnonzero(told.known):
                assert [p for p in found.stacks[time] if p >= 0] == [p for p in told.stacks[time] if p >= 0]
                if told.kept[time] >= 0 and told.known[time - 1]:
                    assert found.kept[time] == told.kept[time]
        action = steps.row - steps.trace
        within = steps.time(traces.row_offsets) < traces.lengths[steps.trace]
        np.testing.assert_array_equal(terms.annotated[within], known[action[within]])
        assert not terms.annotated[~within].any(), "the returns at the end are forced, not told"
        choices.add(tuple(steps.choice))
    assert len(choices) > 1, "what is not told is sampled"


def test_ignored_annotations_change_nothing() -> None:
    learner = make_learner(GRAPH, annotations="ignore")
    traces = annotated(1)
    with_, without = (
        learner.loss(given, np.random.default_rng(0), 0).total.item()
        for given in (traces, replace(traces, annotations=None))
    )
    assert with_ == without


def test_procedures_are_matched_by_name() -> None:
    learner = make_learner(GRAPH, annotations="use")
    traces = annotated(1)
    assert traces.annotations is not None
    order = [2, 0, 3, 1]
    names = tuple(GRAPH.procedures[i] for i in order)
    renamed = np.array([*np.argsort(order), -1])[traces.annotations.stacks]
    other = replace(traces, annotations=Annotations(names, renamed, traces.annotations.kept))
    first, second = (learner.loss(given, np.random.default_rng(0), 0).total.item() for given in (traces, other))
    assert first == second


@pytest.mark.parametrize(
    ("stacks", "message"),
    [
        ([[1, -1, -1], [-1, -1, -1]], "trace 1, step 0: .*does not begin with the call graph's root"),
        ([[0, 1, -1], [0, 2, 2]], "trace 1, step 1: .*has a call that the call graph does not allow"),
        ([[0, 1, 2], [0, 3, -1]], "trace 1, step 1: .*may not take the step's action"),
        ([[0, 4, -1], [0, 1, -1]], "the annotations name the procedure 'sort', which the call graph lacks"),
    ],
)
def test_annotations_that_the_call_graph_does_not_allow_are_refused(stacks: list[list[int]], message: str) -> None:
    traces = make_traces(GRAPH, [[0, 0], [0, 0]])
    wrong = Annotations((*GRAPH.procedures, "sort"), np.array([[0, 1, -1], [0, 1, -1], *stacks]), np.full(4, -1))
    traces = replace(traces, annotations=wrong)
    with pytest.raises(hvil.InputError, match=message):
        Config.of(traces, GRAPH, HvilSettings(annotations="use"))


def test_stacks_deeper_than_the_call_graph_allows_are_refused() -> None:
    graph = replace(GRAPHS["recursive"], max_depth=2)
    deep = Annotations(graph.procedures, np.array([[0, 1, 1]]), np.array([-1]))
    traces = replace(make_traces(graph, [[0]]), annotations=deep)
    with pytest.raises(hvil.InputError, match=r"trace 0, step 0: .*deeper than the call graph's maximum of 2"):
        Config.of(traces, graph, HvilSettings(annotations="use"))


def test_annotations_without_a_single_step_leave_all_to_inference() -> None:
    learner = make_learner(GRAPH, annotations="use")
    plain = make_traces(GRAPH, [[0, 0, 1]])
    losses = []
    for depth in (0, 1, 3):
        nothing = Annotations(GRAPH.procedures, np.full((3, depth), -1), np.full(3, -1))
        told = replace(plain, annotations=nothing)
        losses.append(learner.loss(told, np.random.default_rng(0), 0).total.item())
    assert set(losses) == {learner.loss(plain, np.random.default_rng(0), 0).total.item()}


@pytest.fixture(scope="module")
def sorting() -> tuple[HvilLearner, Traces]:
    source = find_task("bubblesort:2-4")
    traces = source.demonstrations(6, seed=0)
    config = Config.of(traces, source.default_call_graph, HvilSettings(hidden=5, context=3, annotations="use"))
    return HvilLearner(config), traces


def test_the_bubble_sort_teacher_is_walked_exactly(sorting: tuple[HvilLearner, Traces]) -> None:
    learner, traces = sorting
    told = told_structures(learner, traces)
    for trace, structure in zip(traces, told, strict=True):
        reference.replay(learner.config.graph, trace.actions.tolist(), structure)
    found = learner.infer(traces).steps
    np.testing.assert_array_equal(found.choice, np.concatenate(told))
    np.testing.assert_array_equal(np.bincount(found.trace), [len(structure) for structure in told])


def test_a_wrong_teacher_is_refused_with_the_step(sorting: tuple[HvilLearner, Traces]) -> None:
    learner, traces = sorting
    assert traces.annotations is not None
    stacks: Any = traces.annotations.stacks.copy()
    stacks[traces.offsets[2] + 3] = [0, 1, 4, -1]
    kept = np.full(len(stacks), -1)
    wrong = replace(traces, annotations=Annotations(traces.annotations.procedures, stacks, kept))
    with pytest.raises(hvil.InputError, match=r"trace 2, step 3: .*has a call that the call graph does not allow"):
        check_annotations(learner.config.graph, wrong)
