"""Karel as a Gymnasium environment."""

import time
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import hvil.domains
from hvil.data.tasks import terminate_action
from hvil.domains.karel import ACTIONS, PROGRAMS, KarelEnv, KarelTask, World, execute
from hvil.gate.errors import InputError

TERMINATE = terminate_action(ACTIONS)
SPIRAL = "def run() { while (frontIsClear()) { move(); } turnLeft(); }"


@pytest.mark.parametrize("render_mode", [None, "ansi", "rgb_array"])
def test_gymnasium_checker_has_no_complaint(render_mode):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make("hvil/Karel-v0", render_mode=render_mode)
        check_env(env.unwrapped)


def test_ids_are_registered_with_a_step_limit():
    assert "hvil/Karel-v0" in hvil.domains.ENVIRONMENT_IDS
    env = gymnasium.make("hvil/Karel-v0")
    env.reset(options={"world": "> ."})
    steps, truncated = 0, False
    while not truncated:
        _, _, terminated, truncated, info = env.step(1)
        assert not terminated
        assert not info["success"]
        steps += 1
    assert steps == 1_000


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_teachers_traces_succeed(name):
    karel = KarelTask(name)
    traces = karel.demonstrations(100, 0)
    env = karel.environment()
    for i in range(len(traces)):
        trace = traces[i]
        observation, _ = env.reset(options=karel.reset_options(traces, i))
        for t, action in enumerate(trace.actions):
            assert np.array_equal(observation, trace.observations[t])
            observation, reward, terminated, _, info = env.step(action)
            assert (reward, terminated, info["success"]) == (0.0, False, False)
        assert np.array_equal(observation, trace.observations[-1])
        _, reward, terminated, _, info = env.step(TERMINATE)
        assert (reward, terminated, info["success"]) == (1.0, True, True)


def test_another_end_is_no_success():
    env = KarelEnv(SPIRAL)
    ends = {
        (0, 0, 1): True,
        (0, 0): False,  # the robot faces the wrong way
        (0, 0, 1, 4): False,  # a marker too many
        (4, 0, 0, 1): False,
        (4, 3, 0, 0, 1): True,  # only the end counts
        (): False,
    }
    for actions, success in ends.items():
        env.reset(options={"world": "> . .\n. . 2"})
        for action in actions:
            assert not env.step(action)[2]
        _, reward, terminated, truncated, info = env.step(TERMINATE)
        assert terminated
        assert not truncated
        assert (info["success"], reward) == (success, float(success))


@pytest.mark.parametrize(("world", "action"), [(">", 0), ("> #", 0), (">", 3), (">10", 4)])
def test_a_crash_ends_the_episode_without_success(world, action):
    env = KarelEnv("F")
    env.reset(options={"world": world})
    _, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated, info["success"]) == (0.0, True, False, False)
    assert ACTIONS[action] in info["crash"]


def test_a_world_on_which_the_teacher_fails_has_no_success():
    env = KarelEnv("def run() { move(); }")
    env.reset(options={"world": ">"})
    assert env.teacher_result() is None
    assert not env.step(TERMINATE)[4]["success"]


def test_resets_are_seeded_and_start_where_the_program_finishes():
    env, twin = KarelEnv("A"), KarelEnv("A")
    env.reset(seed=3)
    twin.reset(seed=3)
    for _ in range(20):
        assert env.world == twin.world
        assert env.teacher_result() is not None
        env.reset()
        twin.reset()
    twin.reset(seed=4)
    assert env.world != twin.world


def test_an_interpreter_can_drive_the_environments_world():
    env = KarelEnv("D")
    env.reset(seed=0)
    execute(env.program, env.world)
    assert env.step(TERMINATE)[4]["success"]


def test_reset_does_not_change_the_world_it_was_given():
    world = World.from_text("> . 1")
    env = KarelEnv("F")
    env.reset(options={"world": world})
    env.step(0)
    assert world == World.from_text("> . 1")


def test_pictures_show_walls_markers_and_robot():
    env = KarelEnv("F", render_mode="rgb_array")
    env.reset(options={"world": "> . #\n. 3 ."})
    before = env.render()
    assert before.dtype == np.uint8
    assert before.shape == (4 * 40, 5 * 40, 3)
    env.step(1)
    turned = env.render()
    changed = np.argwhere((before != turned).any(axis=2)) // 40
    assert {tuple(cell) for cell in changed} <= {(1, 1), (0, 1), (1, 0), (1, 2), (2, 1)}
    assert len(changed)


def test_text_shows_walls_markers_and_robot():
    env = KarelEnv("F", render_mode="ansi")
    env.reset(options={"world": ">2 . #\n. 10 ."})
    assert env.render() == (
        "┌─────────┐\n│▶2  · ███│\n│ ·  10 · │\n└─────────┘\nrobot at row 1, column 1, facing east; markers here: 2"
    )


def test_bad_arguments_are_one_clear_line():
    with pytest.raises(InputError, match="render_mode 'human'"):
        KarelEnv(render_mode="human")
    with pytest.raises(InputError, match="line 1, column 1: expected 'def run"):
        KarelEnv("G")
    env = KarelEnv()
    with pytest.raises(InputError, match="expected a World or its text"):
        env.reset(options={"world": 3})
    env.reset(seed=0)
    with pytest.raises(InputError, match=r"action 6: expected 0\.\.4"):
        env.step(6)


def test_roll_outs_take_a_moment():
    karel = KarelTask("F")
    traces = karel.demonstrations(200, 0)
    env = karel.environment()
    env.reset(seed=0)
    options = [karel.reset_options(traces, i) for i in range(len(traces))]
    bounds = traces.offsets.tolist()
    actions = traces.actions.tolist()
    start = time.perf_counter()
    for i, option in enumerate(options):
        env.reset(options=option)
        for action in actions[bounds[i] : bounds[i + 1]]:
            env.step(action)
        assert env.step(TERMINATE)[4]["success"]
    # 0.07 s without the checks of annotations, which slow it down tenfold; the rest is for a busy machine.
    assert time.perf_counter() - start < 10
