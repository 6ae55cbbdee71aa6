"""There and back: the teacher's traces have a closed form, its annotations replay, its environment agrees."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from hvil.data.tasks import Task, find_task
from hvil.data.traces import Traces
from hvil.domains.thereandback import ThereAndBackEnv, ThereAndBackTask
from hvil.domains.thereandback.teacher import ACTIONS, teach
from hvil.gate.errors import InputError
from hvil.machine.callgraph import call_graph
from hvil.machine.reference import replay, structure_from_stacks

CELLS = st.integers(0, 40)
MOVE, TURN, TERMINATE = range(3)


def taught(cells: int) -> Traces:
    return teach(np.array([cells]), cells)


def played(actions: list[int], cells: int) -> list[Any]:
    """The results of all steps of an episode."""
    env = ThereAndBackEnv()
    env.reset(options={"cells": cells})
    return [env.step(action) for action in actions]


def heights_of_recursion(cells: int) -> list[tuple[str, int]]:
    """Each action with the number of invocations at it, by running the teacher's procedure as it is written."""
    steps: list[tuple[str, int]] = []

    def walk(ahead: int, height: int) -> None:
        if ahead:
            steps.append(("move", height))
            walk(ahead - 1, height + 1)
            steps.append(("move", height))
        else:
            steps.extend([("turn", height)] * 2)

    walk(cells, 1)
    return steps


@given(CELLS)
def test_teacher_goes_to_the_wall_turns_twice_and_comes_back(cells: int) -> None:
    traces = taught(cells)
    assert traces.actions.tolist() == [MOVE] * cells + [TURN] * 2 + [MOVE] * cells
    assert traces.observations[:, 0].tolist() == [1.0] * cells + [0.0] * 2 + [1.0] * (cells + 1)
    assert traces.observation_names == ("front_is_clear",)


@given(CELLS)
def test_stacks_are_those_of_the_recursive_procedure(cells: int) -> None:
    annotations = taught(cells).annotations
    assert annotations is not None
    named = [ACTIONS[action] for action in taught(cells).actions]
    assert list(zip(named, annotations.depths.tolist(), strict=True)) == heights_of_recursion(cells)


@given(CELLS)
def test_annotations_replay_on_the_default_call_graph(cells: int) -> None:
    traces = taught(cells)
    graph = call_graph(ThereAndBackTask((0, max(cells, 1))).default_call_graph, ACTIONS)
    assert traces.annotations is not None
    assert graph.procedures == traces.annotations.procedures == ("walk",)
    actions, stacks, kept = (a.tolist() for a in (traces.actions, traces.annotations.stacks, traces.annotations.kept))
    assert replay(graph, actions, structure_from_stacks(graph, actions, stacks, kept))


def test_call_structure_of_two_cells() -> None:
    annotations = taught(2).annotations
    assert annotations is not None
    assert annotations.depths.tolist() == [1, 2, 3, 3, 2, 1]
    assert annotations.kept.tolist() == [1, 1, 2, 3, 2, 1]


@given(CELLS)
def test_environment_follows_the_teacher_and_sees_the_same(cells: int) -> None:
    traces = taught(cells)
    env = ThereAndBackEnv()
    observation, _ = env.reset(options={"cells": cells})
    assert np.array_equal(observation, traces.observations[0])
    for action, expected in zip(traces.actions, traces.observations[1:], strict=True):
        observation, reward, terminated, truncated, info = env.step(int(action))
        assert np.array_equal(observation, expected)
        assert (reward, terminated, truncated, info) == (0.0, False, False, {})
    _, reward, terminated, _, info = env.step(TERMINATE)
    assert (reward, terminated, info) == (1.0, True, {"success": True})


@pytest.mark.parametrize(
    ("actions", "cells"),
    [
        ([TERMINATE], 0),
        ([TURN, TURN, TERMINATE], 2),
        ([MOVE, TURN, TURN, MOVE, TERMINATE], 2),
        ([MOVE, MOVE, TURN, TURN, MOVE, TERMINATE], 2),
        ([MOVE, MOVE, TURN, TURN, MOVE, MOVE, MOVE, TERMINATE], 2),
        ([MOVE, TURN, TURN, MOVE, TURN, TURN, TERMINATE], 1),
    ],
    ids=["not turned", "never left", "not at the wall", "too short", "too far", "facing the wall"],
)
def test_an_end_elsewhere_is_no_success(actions: list[int], cells: int) -> None:
    *_, (_, reward, terminated, _, info) = played(actions, cells)
    assert (reward, terminated, info) == (0.0, True, {"success": False})


def test_a_detour_that_ends_at_the_start_is_a_success() -> None:
    detour = [MOVE, TURN, TURN, MOVE, MOVE, TURN, TURN, TURN, TURN, TURN, TURN, MOVE, TURN, TURN, TERMINATE]
    *_, (_, reward, _, _, info) = played(detour, 1)
    assert (reward, info) == (1.0, {"success": True})


@pytest.mark.parametrize(
    ("actions", "cells"), [([MOVE], 0), ([MOVE, MOVE], 1), ([TURN, MOVE], 3), ([TURN, TURN, TURN, MOVE], 3)]
)
def test_moving_into_a_wall_is_a_crash(actions: list[int], cells: int) -> None:
    *before, (_, reward, terminated, truncated, info) = played(actions, cells)
    assert not any(result[2] for result in before)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info == {"success": False, "crash": "move into a wall"}


def test_check_env_passes() -> None:
    for mode in (None, "ansi", "rgb_array"):
        check_env(gymnasium.make("hvil/ThereAndBack-v0", render_mode=mode).unwrapped)
        check_env(gymnasium.make("hvil/ThereAndBack-v0", render_mode=mode, cells=(6, 30)).unwrapped)


def test_cells_are_uniform_in_their_range() -> None:
    counts = np.bincount(ThereAndBackTask().demonstrations(6_000, seed=0).metadata["cells"])
    assert len(counts) == 6
    assert 850 < counts.min() <= counts.max() < 1_150
    longer = find_task("thereandback:6-30").demonstrations(1_000, seed=0)
    assert set(longer.metadata["cells"].tolist()) == set(range(6, 31))
    assert longer.lengths.tolist() == (2 * longer.metadata["cells"] + 2).tolist()


def test_same_seed_same_traces_and_a_smaller_count_is_a_prefix() -> None:
    one, two = (ThereAndBackTask().demonstrations(50, seed=3) for _ in range(2))
    assert one == two
    assert one[:20] == ThereAndBackTask().demonstrations(20, seed=3)
    assert one != ThereAndBackTask().test_demonstrations(50, seed=3)


def test_reset_options_restore_the_initial_state() -> None:
    task = find_task("thereandback:6-30")
    traces = task.demonstrations(5, seed=1)
    env = task.environment()
    for index in range(5):
        env.reset(options=task.reset_options(traces, index))
        results = [env.step(int(action)) for action in (*traces[index].actions, TERMINATE)]
        assert results[-1][4] == {"success": True}


@pytest.mark.parametrize("spec", ["thereandback", "thereandback:6-30", "thereandback:0-0", "thereandback:400-400"])
def test_task_strings_name_their_task(spec: str) -> None:
    task = find_task(spec)
    traces = task.demonstrations(3, seed=0)
    assert task.name == spec == traces.attributes["task"]
    assert isinstance(task, Task)
    assert call_graph(task.default_call_graph, ACTIONS).max_depth == task.cells[1] + 3
    assert task.quantities[0].of(traces.observations).tolist() == traces.observations[:, 0].tolist()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("thereandback:", "no such task"),
        ("thereandback:x", "expected a range of cells such as 6-30"),
        ("thereandback:6", "expected a range of cells such as 6-30"),
        ("thereandback:-3", "expected a range of cells such as 6-30"),
        ("thereandback:" + "9" * 5_000 + "-1", "expected a range of cells such as 6-30"),
        ("thereandback:5-4", "cells 5 to 4: expected a range from at least 0 up to at most 400"),
        ("thereandback:0-401", "up to at most 400"),
    ],
)
def test_wrong_task_strings_are_refused(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_task(spec)


@pytest.mark.parametrize("cells", [-1, 401, 1.5, "3", True, None])
def test_wrong_cells_are_refused(cells: object) -> None:
    with pytest.raises(InputError, match="expected a whole number from 0 to 400"):
        ThereAndBackEnv().reset(options={"cells": cells})


def test_pictures_show_corridor_and_robot() -> None:
    env = ThereAndBackEnv(render_mode="ansi")
    env.reset(options={"cells": 2})
    assert env.render() == ". . . > . . #\n      s"
    for action in [MOVE, TURN, TURN, *[MOVE] * 9]:
        env.step(action)
    assert env.render() == "< . . . . . #\n      s"
    env = ThereAndBackEnv(render_mode="rgb_array")
    env.reset(options={"cells": 2})
    before = env.render()
    env.step(TURN)
    assert before.shape == env.render().shape
    assert (before != env.render()).any()
