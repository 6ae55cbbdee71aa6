"""Evaluation: hand-made policies with known numbers, and roll-outs that agree with teacher-forced errors."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from hvil.analysis.boundaries import annotated_boundaries, boundary_score, inferred_boundaries, score
from hvil.analysis.episodes import CUT, record
from hvil.analysis.evaluation import Evaluation, Share, contained, evaluate, search_failure
from hvil.data.tasks import find_task
from hvil.data.traces import Annotations, Traces
from hvil.gate.errors import InputError
from hvil.learners import build, settings_for
from hvil.learners.config import Config
from hvil.learners.learner import Loss
from hvil.learners.settings import HvilSettings, TrainingSettings
from hvil.machine.callgraph import call_graph
from hvil.machine.reference import replay, structure_from_stacks
from hvil.machine.steps import Steps
from hvil.training.loop import seeded, train

ACTIONS = ("a", "b")


class Always:
    """Takes the actions of a list, whatever it sees, then ends."""

    def __init__(self, actions: list[int], action_names: tuple[str, ...] = ACTIONS) -> None:
        self.actions, self.action_names = actions, action_names
        self.time, self.count = 0, 1

    def reset(self, count: int | None = None, seed: int = 0) -> None:
        self.time, self.count = 0, count or 1

    def act(self, observation: np.ndarray, greedy: bool = True) -> np.ndarray:
        action = self.actions[self.time] if self.time < len(self.actions) else len(self.action_names)
        self.time += 1
        return np.full(self.count, action)

    def wrong(self, traces: Traces) -> np.ndarray:
        return np.array([trace.actions.tolist() != self.actions for trace in traces])

    def loss(self, traces: Traces, rng: np.random.Generator, update: int) -> Loss:
        raise NotImplementedError

    def policy(self) -> "Always":
        return self


def traces_of(*actions: list[int]) -> Traces:
    observations = [np.zeros((len(a) + 1, 1), dtype=np.float32) for a in actions]
    return Traces.from_episodes(observations, [np.array(a) for a in actions], ACTIONS)


def test_error_counts_traces_with_a_wrong_action_all_and_unseen():
    test = traces_of([0, 1], [0, 0], [1], [0, 1], [1, 1, 1])
    evaluation = evaluate(Always([0, 1]), test, training=traces_of([0, 1], [1]))
    assert (evaluation.error.value, evaluation.error.count) == (3 / 5, 5)
    assert evaluation.error_unseen is not None
    assert (evaluation.error_unseen.value, evaluation.error_unseen.count) == (1.0, 2)
    low, high = evaluation.error.interval
    assert 0 < low < 0.6 < high < 1
    assert evaluation.rollout_success is None
    assert evaluation.error_actions == 5 / 15, "1 wrong in the second trace, 2 in the third, 2 in the last"


def test_traces_are_the_same_only_with_the_same_observations():
    one, other = traces_of([0, 1]), traces_of([0, 1])
    changed = Traces(other.observations + 1, other.actions, other.offsets, ACTIONS)
    assert contained(one, other).tolist() == [True]
    assert contained(one, changed).tolist() == [False]
    assert evaluate(Always([0]), one, training=other).error_unseen is None


def test_json_and_table_have_the_keys_that_others_rely_on():
    evaluation = evaluate(Always([0]), traces_of([0], [1]))
    mapping = json.loads(json.dumps(evaluation.to_mapping(), allow_nan=False))
    assert mapping["error"] == mapping["error_unseen"] == 0.5
    assert mapping["error_interval"] == pytest.approx([0.0945, 0.9055], abs=1e-4)
    assert mapping["rollout_success"] is mapping["php_steps_per_action"] is None
    console = Console(file=io.StringIO(), width=100)
    console.print(evaluation.table("lstm"))
    assert "50.0%  [9.5%, 90.5%]  of 2" in console.file.getvalue()
    assert "error: traces with at least one wrong action" in console.file.getvalue()
    assert mapping["error_actions"] == 1 / 4
    assert repr(evaluation).splitlines()[1].split(maxsplit=1) == ["error", "50.0%  [9.5%, 90.5%]  of 2"]


@pytest.mark.parametrize(
    ("shares", "in_use"), [((1.0, 0.0, 0.0), 1.0), ((0.5, 0.0, 0.5), 2.0), ((1 / 3, 1 / 3, 1 / 3), 3.0), ((), None)]
)
def test_procedures_in_use_shows_a_collapsed_latent(shares, in_use):
    error = Share.of(np.array([True]))
    assert error is not None
    evaluation = Evaluation(error, None, procedures={f"p{i}": share for i, share in enumerate(shares)})
    assert evaluation.procedures_in_use == pytest.approx(in_use)
    assert evaluation.to_mapping()["procedures_in_use"] == pytest.approx(in_use)
    assert ("procedures in use (perplexity)" in repr(evaluation)) is (in_use is not None)


@pytest.mark.parametrize(
    ("calls", "warning"),
    [
        (
            {"root": 0.0, "one": 1.0, "two": 0.0},
            "hardly more than one procedure is called: 100% of all calls go to one",
        ),
        (
            {"root": 0.0, "one": 0.0, "two": 0.0},
            "no procedure is called: the root does all the work",
        ),
        ({"root": 0.0, "one": 0.5, "two": 0.5}, None),
        ({"root": 0.0, "one": 1.0}, None),
        ({"root": 0.0}, None),
        ({}, None),
    ],
)
def test_a_call_structure_that_is_not_used_is_said(calls, warning):
    error = Share.of(np.array([True]))
    assert error is not None
    evaluation = Evaluation(error, None, procedures=dict.fromkeys(calls, 0.3), calls=calls)
    assert evaluation.to_mapping()["collapse"] == warning


def test_without_a_task_a_policy_is_run_along_the_traces_up_to_the_first_error():
    traces = traces_of([0, 1], [0, 0], [1], [0, 1, 1])
    episodes = record(Always([0, 1]), traces)
    assert episodes.success.tolist() == [True, False, False, False]
    assert episodes.wrong.tolist() == [False, True, True, True]
    assert [result.ending for result in episodes.results] == ["returned", "left", "left", "left"]
    assert np.split(episodes.emitted, episodes.row_offsets[1:-1])[1].tolist() == [0, 1]
    assert episodes.emitted[-1] == len(ACTIONS)


def test_other_actions_than_the_policys_are_refused():
    with pytest.raises(InputError, match="not the policy's"):
        evaluate(Always([0], ("x", "y")), traces_of([0]))


def test_roll_outs_know_success_from_repeating_the_teacher():
    bubblesort = find_task("bubblesort:2-3")
    test = bubblesort.demonstrations(300, 0)
    lists = test.metadata["list"]
    pairs = test[np.flatnonzero(lists[:, 2] < 0)]
    assert len(pairs) > 64
    numbers = pairs.metadata["list"][:, :2]
    ptr2_right, swap = test.action_names.index("ptr2_right"), test.action_names.index("swap")
    swapped = record(Always([ptr2_right, swap], bubblesort.action_names), pairs, bubblesort)
    np.testing.assert_array_equal(swapped.success, numbers[:, 0] >= numbers[:, 1])
    assert swapped.wrong.all()
    assert (np.diff(swapped.row_offsets) == 3).all()
    assert swapped.steps is None
    teacher = pairs[0].actions.tolist()
    repeated = record(Always(teacher, bubblesort.action_names), pairs, bubblesort, details=False)
    assert repeated.wrong.tolist() == [trace.actions.tolist() != teacher for trace in pairs]
    assert not repeated.success[~repeated.success & ~repeated.wrong].any()


def test_a_roll_out_without_end_is_cut_and_counts_as_wrong():
    bubblesort = find_task("bubblesort:2-3")
    policy = Always([0] * 10_000, bubblesort.action_names)
    endless = record(policy, bubblesort.demonstrations(3, 0), bubblesort, limit=20)
    assert endless.truncated.all()
    assert endless.wrong.all()
    assert not endless.success.any()
    assert endless.emitted.tolist() == [*[0] * 20, CUT] * 3
    assert np.diff(endless.row_offsets).tolist() == [21] * 3


def steps_of(traces: Traces, graph, structures: list[tuple[int, ...]]) -> Steps:
    columns = []
    for i, (trace, steps) in enumerate(zip(traces, structures, strict=True)):
        for moment, choice in zip(replay(graph, trace.actions.tolist(), steps), steps, strict=True):
            top = moment.stack[-1]
            columns.append((traces.row_offsets[i] + moment.time, *top, len(moment.stack), choice))
    offsets = np.cumsum([0, *map(len, structures)])
    return Steps(*(np.array(column) for column in zip(*columns, strict=True)), offsets)


def test_boundaries_of_a_structure_are_those_of_its_annotations():
    bubblesort = find_task("bubblesort")
    traces = bubblesort.demonstrations(6, 1)
    graph = call_graph(bubblesort.default_call_graph, traces.action_names)
    index = [graph.procedures.index(name) for name in traces.annotations.procedures]
    structures = []
    for trace in traces:
        stacks = np.where(trace.annotations.stacks < 0, -1, np.array(index)[trace.annotations.stacks])
        rows = (trace.actions.tolist(), stacks.tolist(), trace.annotations.kept.tolist())
        structures.append(structure_from_stacks(graph, *rows))
    inferred = steps_of(traces, graph, structures)
    true, known = annotated_boundaries(traces)
    assert known.sum() == len(traces.actions) - len(traces)
    np.testing.assert_array_equal(inferred_boundaries(traces, inferred), true & known)
    assert boundary_score(traces, inferred, 0).f1 == 1.0


def test_boundaries_match_once_and_within_the_tolerance():
    true, found = np.array([3, 10, 20]), np.array([4, 5, 20, 30])
    assert score(found, true, 0) == pytest.approx((1 / 4, 1 / 3, 2 / 7))
    assert score(found, true, 1) == pytest.approx((2 / 4, 2 / 3, 4 / 7))
    assert score(np.array([], dtype=int), true, 1) == (1.0, 0.0, 0.0)
    assert score(true[:0], true[:0], 0) == (1.0, 1.0, 1.0)


def test_steps_that_are_not_annotated_do_not_count():
    stacks = np.array([[0, -1], [0, 1], [-1, -1], [0, -1], [0, 1]])
    annotations = Annotations(("r", "s"), stacks, np.array([1, 1, -1, 1, -1]))
    base = traces_of([0, 1, 0, 1, 1])
    traces = Traces(base.observations, base.actions, base.offsets, ACTIONS, annotations=annotations)
    true, known = annotated_boundaries(traces)
    assert known.tolist() == [False, True, False, False, True]
    assert true[known].tolist() == [True, True]


@pytest.mark.parametrize(
    ("model", "name", "settings"),
    [
        ("lstm", "bubblesort", {"layers": 1}),
        ("lstm", "karel:F", {"layers": 2}),
        ("feedforward", "karel:F", {}),
        ("hvil", "bubblesort", {"hidden": 32, "entropy_weight": 0.0}),
        ("hvil", "karel:F", {"hidden": 32, "entropy_weight": 0.0}),
    ],
)
def test_teacher_forced_error_is_the_roll_out_error(model, name, settings):
    domain = find_task(name)
    # Short lists and few grids are learnt within seconds: some of the test traces come out right, and some wrong.
    training = find_task("bubblesort:2-3" if name == "bubblesort" else name).demonstrations(
        5 if model == "lstm" else 40, 0
    )
    test = domain.test_demonstrations(200, 0)
    config = Config.of(training, domain.default_call_graph, settings_for(model, settings))
    learner = seeded(0, lambda: build(config))
    updates = 200 if name == "bubblesort" else 100
    train(learner, training, TrainingSettings(updates=updates, learning_rate=1e-2))
    policy = learner.policy()
    wrong = policy.wrong(test)
    rolled_out = record(policy, test, domain, details=False)
    np.testing.assert_array_equal(wrong, rolled_out.wrong)
    assert rolled_out.success[~wrong].all()
    assert 0 < wrong.mean() < 1 or model == "feedforward"


def test_a_learner_that_infers_structure_is_scored_on_it():
    domain = find_task("bubblesort")
    training = domain.demonstrations(5, 0)
    config = Config.of(training, domain.default_call_graph, HvilSettings(hidden=8, context=4))
    learner = seeded(0, lambda: build(config))
    evaluation = evaluate(learner, training, task=domain, procedures=config.graph.procedures)
    assert evaluation.php_steps_per_action is not None
    assert evaluation.php_steps_per_action > 1
    assert sum(evaluation.procedures.values()) == pytest.approx(1.0)
    assert set(evaluation.procedures) == set(config.graph.procedures)
    assert 0 < evaluation.boundaries[0].f1 <= evaluation.boundaries[1].f1 <= 1


class Constant:
    """A policy that always takes the same action, and so never ends."""

    action_names = ("go", "wait")

    def __init__(self, action: int) -> None:
        self.action = action

    def reset(self, count: int | None = None, seed: int = 0) -> None:
        self.count = 1 if count is None else count

    def act(self, observation: np.ndarray, greedy: bool = True) -> np.ndarray:
        return np.full(self.count, self.action)

    def wrong(self, traces: Traces) -> np.ndarray:
        return np.ones(len(traces), dtype=bool)


def test_a_failed_search_says_where_it_fails() -> None:
    lengths = (3, 5, 4)
    traces = Traces.from_episodes(
        [np.zeros((n + 1, 2), np.float32) for n in lengths], [np.zeros(n, np.int64) for n in lengths], ("go", "wait")
    )
    at_end, at_start = search_failure(Constant(0), traces), search_failure(Constant(1), traces)
    assert at_end is not None
    assert at_start is not None
    assert "the end of the program was not learned; training error 100%" in at_end
    assert "go wrong in their first 0%" in at_start
