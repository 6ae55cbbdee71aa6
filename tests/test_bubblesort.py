"""Bubble sort: the teacher sorts, its length has a closed form, its annotations replay, its environment agrees."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from hvil.data.tasks import Task, find_task
from hvil.data.traces import Traces
from hvil.domains.bubblesort import BubbleSortEnv, BubbleSortTask
from hvil.domains.bubblesort.teacher import ACTIONS, PROCEDURES, VALUE2, teach, teacher_length
from hvil.gate.errors import InputError
from hvil.machine.callgraph import call_graph
from hvil.machine.reference import replay, structure_from_stacks

LISTS = st.lists(st.integers(0, 9), min_size=2, max_size=10)


@pytest.fixture(scope="module")
def many() -> Traces:
    return BubbleSortTask().demonstrations(10_000, seed=0)


def taught(numbers: list[int]) -> Traces:
    return teach(np.array([numbers], np.int8), np.array([len(numbers)]))


def plain_teacher(numbers: list[int]) -> list[str]:
    """The teacher's actions, written down as the algorithm is described."""
    numbers, n, p1, p2, actions = list(numbers), len(numbers), 0, 0, []
    for _ in range(n - 1):
        actions.append("ptr2_right")
        p2 = min(p2 + 1, n - 1)
        while not (p1 == n - 1 and p2 == n - 1):
            if numbers[p1] > numbers[p2]:
                actions.append("swap")
                numbers[p1], numbers[p2] = numbers[p2], numbers[p1]
            actions += ["ptr1_right", "ptr2_right"]
            p1, p2 = min(p1 + 1, n - 1), min(p2 + 1, n - 1)
        while not (p1 == 0 and p2 == 0):
            actions += ["ptr1_left", "ptr2_left"]
            p1, p2 = max(p1 - 1, 0), max(p2 - 1, 0)
    return actions


def test_ten_thousand_teacher_traces_match_the_closed_form_and_its_bound(many: Traces) -> None:
    swap = ACTIONS.index("swap")
    for length, actions, padded in zip(
        many.lengths, np.split(many.actions, many.offsets[1:-1]), many.metadata["list"], strict=True
    ):
        numbers = padded[padded >= 0].tolist()
        form = teacher_length(numbers)
        swaps = int((actions == swap).sum())
        assert (length, swaps, len(numbers) - 1) == (form.actions, form.swaps, form.passes)
        assert length - swaps == form.moves
    assert many.lengths.max() <= 400


def test_ten_thousand_teacher_traces_sort_their_lists(many: Traces) -> None:
    swap, ptr1, ptr2 = ACTIONS.index("swap"), (0, 1), (2, 3)
    for actions, padded in zip(np.split(many.actions, many.offsets[1:-1]), many.metadata["list"], strict=True):
        numbers = padded[padded >= 0].tolist()
        ordered, last, p1, p2 = sorted(numbers), len(numbers) - 1, 0, 0
        for action in actions.tolist():
            if action == swap:
                numbers[p1], numbers[p2] = numbers[p2], numbers[p1]
            elif action in ptr1:
                p1 = min(max(p1 + (1 if action == 1 else -1), 0), last)
            elif action in ptr2:
                p2 = min(max(p2 + (1 if action == 3 else -1), 0), last)
        assert numbers == ordered
        assert (p1, p2) == (0, 0)


def test_lists_are_as_specified(many: Traces) -> None:
    lists = many.metadata["list"]
    lengths = (lists >= 0).sum(axis=1)
    assert np.bincount(lengths, minlength=11)[2:].min() > 1_000
    assert np.bincount(lists[lists >= 0], minlength=10).min() > 5_500
    assert lists.shape == (10_000, 10)


@given(LISTS)
@settings(deadline=None, max_examples=100)
def test_teacher_takes_the_actions_of_the_algorithm(numbers: list[int]) -> None:
    traces = taught(numbers)
    assert [ACTIONS[action] for action in traces.actions] == plain_teacher(numbers)


@given(LISTS, st.booleans())
@settings(deadline=None, max_examples=50)
def test_environment_follows_the_teacher_and_sees_the_same(numbers: list[int], length_argument: bool) -> None:
    traces = teach(np.array([numbers], np.int8), np.array([len(numbers)]), length_argument)
    env = BubbleSortEnv(length_argument=length_argument)
    observation, _ = env.reset(options={"list": numbers})
    assert np.array_equal(observation, traces.observations[0])
    for action, expected in zip(traces.actions, traces.observations[1:], strict=True):
        observation, reward, terminated, truncated, _ = env.step(int(action))
        assert np.array_equal(observation, expected)
        assert (reward, terminated, truncated) == (0.0, False, False)
    _, reward, terminated, _, info = env.step(len(ACTIONS))
    assert (reward, terminated, info["success"]) == (1.0, True, True)


@given(LISTS)
@settings(deadline=None, max_examples=50)
def test_annotations_replay_on_the_default_call_graph(numbers: list[int]) -> None:
    traces = taught(numbers)
    graph = call_graph(BubbleSortTask().default_call_graph, ACTIONS)
    assert traces.annotations is not None
    assert graph.procedures == traces.annotations.procedures
    actions, stacks, kept = (a.tolist() for a in (traces.actions, traces.annotations.stacks, traces.annotations.kept))
    assert replay(graph, actions, structure_from_stacks(graph, actions, stacks, kept))


def test_call_structure_of_two_numbers_out_of_order() -> None:
    annotations = taught([5, 2]).annotations
    assert annotations is not None
    stacks = ["/".join(PROCEDURES[p] for p in row if p >= 0) for row in annotations.stacks]
    assert list(zip(stacks, annotations.kept.tolist(), strict=True)) == [
        ("bubble_sort/bubble", 1),
        ("bubble_sort/bubble/bstep/compswap", 2),
        ("bubble_sort/bubble/bstep", 3),
        ("bubble_sort/bubble/bstep", 3),
        ("bubble_sort/reset/lshift", 1),
        ("bubble_sort/reset/lshift", 3),
    ]


def test_observation_by_hand() -> None:
    env = BubbleSortEnv()
    env.reset(options={"list": [3, 7, 1]})
    env.step(ACTIONS.index("ptr2_right"))
    observation, *_ = env.step(ACTIONS.index("ptr2_right"))
    env.step(ACTIONS.index("ptr2_right"))
    names = np.array(BubbleSortTask().observation_names)
    assert list(names[observation > 0]) == ["value1=3", "pointer1_at_end", "value2=1", "pointer2_at_end", "length"]
    assert observation[-1] == np.float32(0.3)
    assert names[VALUE2] == "value2=0"


def test_terminating_on_an_unsorted_list_is_no_success() -> None:
    env = BubbleSortEnv()
    env.reset(options={"list": [2, 1]})
    _, reward, terminated, _, info = env.step(len(ACTIONS))
    assert (reward, terminated, info) == (0.0, True, {"success": False})


@pytest.mark.parametrize("options", [{}, {"length_argument": False}, {"lengths": (2, 20)}])
def test_check_env_passes(options: dict) -> None:
    check_env(gymnasium.make("hvil/BubbleSort-v0", **options).unwrapped)
    for mode in ("ansi", "rgb_array"):
        check_env(gymnasium.make("hvil/BubbleSort-v0", render_mode=mode, **options).unwrapped)


def test_episode_is_truncated_at_the_step_limit() -> None:
    env = BubbleSortTask(lengths=(2, 3)).environment()
    env.reset(seed=0)
    results = [env.step(0) for _ in range(400)]
    assert [result[3] for result in results] == [False] * 399 + [True]


def test_same_seed_same_traces_and_a_smaller_count_is_a_prefix() -> None:
    one, two = (BubbleSortTask().demonstrations(50, seed=3) for _ in range(2))
    assert one == two
    assert one[:20] == BubbleSortTask().demonstrations(20, seed=3)
    assert one != BubbleSortTask().test_demonstrations(50, seed=3)


def test_reset_options_restore_the_initial_state() -> None:
    sort = find_task("bubblesort:no-length")
    traces = sort.demonstrations(5, seed=1)
    env = sort.environment()
    for index in range(5):
        observation, _ = env.reset(options=sort.reset_options(traces, index))
        assert np.array_equal(observation, traces[index].observations[0])


@pytest.mark.parametrize("spec", ["bubblesort", "bubblesort:no-length", "bubblesort:3-12", "bubblesort:no-length,2-4"])
def test_task_strings_name_their_task(spec: str) -> None:
    sort = find_task(spec)
    traces = sort.demonstrations(20, seed=0)
    assert sort.name == spec == traces.attributes["task"]
    assert traces.observations.shape[1] == (22 if "no-length" in spec else 23) == len(sort.observation_names)
    assert isinstance(sort, Task)


@pytest.mark.parametrize("spec", ["bubblesort:", "bubblesort:x", "bubblesort:1-5", "bubblesort:5-4", "bubblesort:-3"])
def test_wrong_task_strings_are_refused(spec: str) -> None:
    with pytest.raises(InputError):
        find_task(spec)


@pytest.mark.parametrize("numbers", [[4], [], [1] * 11, [1, 10], [1, -1], [1.5, 2]])
def test_wrong_lists_are_refused(numbers: list) -> None:
    with pytest.raises(InputError, match=r"expected (2 to 10 numbers|integers from 0 to 9)"):
        BubbleSortEnv().reset(options={"list": numbers})


def test_negative_seed_is_refused() -> None:
    with pytest.raises(InputError, match="seed -1"):
        BubbleSortTask().demonstrations(3, seed=-1)


def test_pictures_show_list_and_pointers() -> None:
    env = BubbleSortEnv(render_mode="ansi")
    env.reset(options={"list": [3, 1, 2]})
    env.step(ACTIONS.index("ptr2_right"))
    assert env.render() == " 1\n[3] [1] [2]\n     2"
    env = BubbleSortEnv(render_mode="rgb_array")
    env.reset(options={"list": [3, 1, 2]})
    before = env.render()
    env.step(ACTIONS.index("ptr2_right"))
    assert before.shape == env.render().shape
    assert (before != env.render()).any()
