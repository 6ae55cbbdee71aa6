"""The tree walk: trees have one description, the teacher is the recursion as it is written, the environment agrees."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from hvil.data.tasks import Task, find_task
from hvil.data.traces import Traces
from hvil.domains.treewalk import TreeWalkEnv, TreeWalkTask
from hvil.domains.treewalk.teacher import ACTIONS, teach
from hvil.domains.treewalk.trees import HAS_BOTH, HAS_LEFT, HAS_RIGHT, family, random_trees
from hvil.gate.errors import InputError
from hvil.machine.callgraph import call_graph
from hvil.machine.reference import replay, structure_from_stacks

MARK, LEFT, RIGHT, UP, TERMINATE = range(5)
Nested = tuple[Any, Any]
"""A tree as Python says it: its left and its right part, None where there is none."""


def nested_trees(most: int) -> st.SearchStrategy[Nested]:
    part = st.none() | st.deferred(lambda: pairs)
    pairs: st.SearchStrategy[Nested] = st.tuples(part, part)
    return pairs.filter(lambda tree: size(tree) <= most)


def size(tree: Nested | None) -> int:
    return 0 if tree is None else 1 + size(tree[0]) + size(tree[1])


def described(tree: Nested | None) -> list[int]:
    """One number for each node, depth first."""
    if tree is None:
        return []
    left, right = tree
    own = HAS_LEFT * (left is not None) + HAS_RIGHT * (right is not None)
    return [own, *described(left), *described(right)]


def recursion(tree: Nested, height: int = 1) -> list[tuple[str, tuple[float, float], int]]:
    """Each action with what is seen at it and the number of invocations: the teacher as it is written."""
    left, right = tree
    here = (float(left is not None), float(right is not None))
    steps = [("mark", here, height)]
    for name, child in (("left", left), ("right", right)):
        if child is not None:
            there = (float(child[0] is not None), float(child[1] is not None))
            steps += [(name, here, height), *recursion(child, height + 1), ("up", there, height)]
    return steps


def taught(tree: Nested) -> Traces:
    return teach(np.array([described(tree)], np.int8))


TREES = nested_trees(20)


@given(TREES)
def test_teacher_is_the_recursive_procedure(tree: Nested) -> None:
    traces = taught(tree)
    assert traces.annotations is not None
    names = [ACTIONS[action] for action in traces.actions]
    seen = [tuple(row) for row in traces.observations.tolist()]
    steps = recursion(tree)
    assert list(zip(names, seen[:-1], traces.annotations.depths.tolist(), strict=True)) == steps
    assert seen[-1] == steps[0][1], "the walk ends at the root"
    assert len(steps) == 3 * size(tree) - 2


@given(TREES)
def test_annotations_replay_on_the_default_call_graph(tree: Nested) -> None:
    traces = taught(tree)
    graph = call_graph(TreeWalkTask((1, size(tree))).default_call_graph, ACTIONS)
    assert traces.annotations is not None
    assert graph.procedures == traces.annotations.procedures == ("walk",)
    actions, stacks, kept = (a.tolist() for a in (traces.actions, traces.annotations.stacks, traces.annotations.kept))
    assert replay(graph, actions, structure_from_stacks(graph, actions, stacks, kept))


def test_call_structure_of_three_nodes() -> None:
    traces = taught(((None, None), (None, None)))
    assert [ACTIONS[action] for action in traces.actions] == ["mark", "left", "mark", "up", "right", "mark", "up"]
    assert traces.annotations is not None
    assert traces.annotations.depths.tolist() == [1, 1, 2, 1, 1, 2, 1]
    assert traces.annotations.kept.tolist() == [1, 1, 1, 1, 1, 1, 1]


@given(TREES)
def test_environment_follows_the_teacher_and_sees_the_same(tree: Nested) -> None:
    traces = taught(tree)
    env = TreeWalkEnv()
    observation, _ = env.reset(options={"tree": described(tree)})
    assert np.array_equal(observation, traces.observations[0])
    for action, expected in zip(traces.actions, traces.observations[1:], strict=True):
        observation, reward, terminated, truncated, info = env.step(int(action))
        assert np.array_equal(observation, expected)
        assert (reward, terminated, truncated, info) == (0.0, False, False, {})
    _, reward, terminated, _, info = env.step(TERMINATE)
    assert (reward, terminated, info) == (1.0, True, {"success": True})


@given(TREES)
def test_a_description_says_who_is_whose_child(tree: Nested) -> None:
    parent, left, right = family(described(tree))

    def same(node: int, part: Nested | None) -> bool:
        if part is None or node < 0:
            return part is None and node < 0
        children = [child for child in (left[node], right[node]) if child >= 0]
        return (
            all(parent[child] == node for child in children)
            and same(left[node], part[0])
            and same(right[node], part[1])
        )

    assert same(0, tree)
    assert parent[0] == -1


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), st.integers(0, 10**6))
def test_random_trees_are_trees_of_the_sizes_asked_for(sizes: list[int], seed: int) -> None:
    trees = random_trees(np.array(sizes), np.random.default_rng(seed).random((len(sizes), 12)))
    for expected, tree in zip(sizes, trees, strict=True):
        assert (tree >= 0).sum() == expected
        family(tree[tree >= 0].tolist())
        assert (tree[expected:] == -1).all()


def test_the_nodes_below_the_root_are_split_uniformly() -> None:
    trees = random_trees(np.full(4_000, 4), np.random.default_rng(0).random((4_000, 4)))

    def below_left(tree: list[int]) -> int:
        right = family(tree).right[0]
        return right - 1 if right > 0 else len(tree) - 1

    counts = np.bincount([below_left(tree.tolist()) for tree in trees], minlength=4)
    assert 900 < counts.min() <= counts.max() < 1_100
    assert len(np.unique(trees, axis=0)) == 14, "every tree of four nodes comes"


def test_nodes_are_uniform_in_their_range() -> None:
    counts = np.bincount((TreeWalkTask().demonstrations(6_000, seed=0).metadata["tree"] >= 0).sum(axis=1))
    assert len(counts) == 7
    assert counts[0] == 0
    assert 850 < counts[1:].min() <= counts.max() < 1_150
    larger = find_task("treewalk:7-30").demonstrations(500, seed=0)
    sizes = (larger.metadata["tree"] >= 0).sum(axis=1)
    assert (sizes.min(), sizes.max()) == (7, 30)
    assert larger.lengths.tolist() == (3 * sizes - 2).tolist()


@pytest.mark.parametrize(
    ("actions", "crash"),
    [
        ([UP], "up where there is no node"),
        ([MARK, RIGHT], "right where there is no node"),
        ([LEFT, LEFT], "left where there is no node"),
        ([MARK, MARK], "mark where there is a mark"),
        ([MARK, LEFT, UP, MARK], "mark where there is a mark"),
    ],
)
def test_what_is_impossible_is_a_crash(actions: list[int], crash: str) -> None:
    env = TreeWalkEnv()
    env.reset(options={"tree": [1, 0]})
    *before, (_, reward, terminated, truncated, info) = [env.step(action) for action in actions]
    assert not any(result[2] for result in before)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info == {"success": False, "crash": crash}


@pytest.mark.parametrize("actions", [[], [MARK], [MARK, LEFT, MARK], [LEFT, MARK, UP]])
def test_an_end_before_all_is_done_is_no_success(actions: list[int]) -> None:
    env = TreeWalkEnv()
    env.reset(options={"tree": [1, 0]})
    *_, (_, reward, terminated, _, info) = [env.step(action) for action in (*actions, TERMINATE)]
    assert (reward, terminated, info) == (0.0, True, {"success": False})


def test_check_env_passes() -> None:
    for mode in (None, "ansi", "rgb_array"):
        check_env(gymnasium.make("hvil/TreeWalk-v0", render_mode=mode).unwrapped)
        check_env(gymnasium.make("hvil/TreeWalk-v0", render_mode=mode, nodes=(7, 30)).unwrapped)


def test_same_seed_same_traces_and_a_smaller_count_is_a_prefix() -> None:
    one, two = (TreeWalkTask().demonstrations(50, seed=3) for _ in range(2))
    assert one == two
    assert one[:20] == TreeWalkTask().demonstrations(20, seed=3)
    assert one != TreeWalkTask().test_demonstrations(50, seed=3)


def test_reset_options_restore_the_initial_state() -> None:
    task = find_task("treewalk:7-30")
    traces = task.demonstrations(5, seed=1)
    env = task.environment()
    for index in range(5):
        env.reset(options=task.reset_options(traces, index))
        results = [env.step(int(action)) for action in (*traces[index].actions, TERMINATE)]
        assert results[-1][4] == {"success": True}


@pytest.mark.parametrize("spec", ["treewalk", "treewalk:7-30", "treewalk:1-1", "treewalk:300-300"])
def test_task_strings_name_their_task(spec: str) -> None:
    task = find_task(spec)
    traces = task.demonstrations(3, seed=0)
    assert task.name == spec == traces.attributes["task"]
    assert isinstance(task, Task)
    assert call_graph(task.default_call_graph, ACTIONS).max_depth == task.nodes[1] + 2
    for column, quantity in enumerate(task.quantities):
        assert quantity.of(traces.observations).tolist() == traces.observations[:, column].tolist()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("treewalk:", "no such task"),
        ("treewalk:7", "expected a range of nodes such as 6-30"),
        ("treewalk:0-5", "nodes 0 to 5: expected a range from at least 1 up to at most 300"),
        ("treewalk:6-5", "nodes 6 to 5"),
        ("treewalk:1-301", "up to at most 300"),
    ],
)
def test_wrong_task_strings_are_refused(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_task(spec)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ([], "a tree of 0 nodes: expected 1 to 300"),
        ([0] * 301, "a tree of 301 nodes"),
        ([0, 0], "complete after 1 nodes, but 2 are given"),
        ([HAS_BOTH, 0], "ends after 2 nodes, but 1 children are still missing"),
        ([4], r"node 0 of the tree is 4: expected 0, 1 \(left\), 2 \(right\) or 3 \(both\)"),
        ([1, -1], "node 1 of the tree is -1"),
        ([1, 0.0], "node 1 of the tree is 0.0"),
    ],
)
@pytest.mark.usefixtures("no_type_checks")
def test_wrong_trees_are_refused(tree: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TreeWalkEnv().reset(options={"tree": tree})


def test_pictures_show_tree_marks_and_walker() -> None:
    env = TreeWalkEnv(render_mode="ansi")
    env.reset(options={"tree": [HAS_BOTH, 0, HAS_LEFT, 0]})
    for action in (MARK, RIGHT):
        env.step(action)
    assert env.render() == "[x] root\n    [ ] left\n    [ ] right <-\n        [ ] left"
    env = TreeWalkEnv(render_mode="rgb_array")
    env.reset(options={"tree": [HAS_BOTH, 0, HAS_LEFT, 0]})
    before = env.render()
    env.step(MARK)
    assert before.shape == env.render().shape
    assert (before != env.render()).any()
