"""What the robot senses and does, how runs end, and agreement with an independent implementation."""

import contextlib
import io
import random
import warnings
from collections import Counter

import numpy as np
import pytest
from karel_programs import random_program, random_worlds

from hvil.domains.karel import ACTIONS, Form, Outcome, World, execute, parse, print_program
from hvil.domains.karel.compiler import Worlds, compile_program, record, run
from hvil.domains.karel.syntax import coverage_points
from hvil.domains.karel.world import MAX_MARKERS, WALL, Crash, world_from_arrays
from hvil.gate.errors import InputError


def single(world):
    robot = np.array([[world.row, world.column, world.orientation]], dtype=np.int16)
    return Worlds(world.cells[None].copy(), robot)


# Hand-computed. The package `karel` has no crashes and no limit on markers: there a robot that cannot act just goes on.
# Columns: program body, world, our outcome, our actions, our final world, the package's final world.
DIFFERENCES = [
    ("move();", ">", Outcome.CRASHED, [], ">", ">"),
    ("move(); turnLeft();", ">", Outcome.CRASHED, [], ">", "^"),
    ("move(); move();", "> .", Outcome.CRASHED, ["move"], ". >", ". >"),
    ("move();", "> #", Outcome.CRASHED, [], "> #", "> #"),
    ("pickMarker();", ">", Outcome.CRASHED, [], ">", ">"),
    ("pickMarker(); pickMarker(); turnLeft();", ">1", Outcome.CRASHED, ["pickMarker"], ">", "^"),
    ("putMarker(); turnLeft();", "v10", Outcome.CRASHED, [], "v10", 11),
    ("putMarker(); putMarker();", "<9", Outcome.CRASHED, ["putMarker"], "<10", 11),
]
# The same semantics in both, but the run is stopped; the package has a limit of its own kind (nested calls), off here.
LIMITS = [
    ("repeat(999) { turnLeft(); }", Outcome.FINISHED, 999, 999),
    ("repeat(1000) { turnLeft(); }", Outcome.UNFINISHED, 1000, 1000),
    ("repeat(1001) { turnLeft(); }", Outcome.UNFINISHED, 1000, 1000),
    ("while (frontIsClear()) { turnLeft(); }", Outcome.UNFINISHED, 500, 1000),
    ("while (noMarkersPresent()) { if (markersPresent()) { move(); } }", Outcome.UNFINISHED, 0, 1000),
    ("repeat(499) { if (frontIsClear()) { turnLeft(); } } turnLeft();", Outcome.FINISHED, 500, 999),
    ("repeat(500) { if (frontIsClear()) { turnLeft(); } }", Outcome.UNFINISHED, 500, 1000),
    ("repeat(999999999) { repeat(999999999) { repeat(0) { move(); } } }", Outcome.FINISHED, 0, 0),
    ("repeat(999999999) { turnLeft(); }", Outcome.UNFINISHED, 1000, 1000),
    ("repeat(999) { turnLeft(); } repeat(3) { repeat(0) { move(); } }", Outcome.FINISHED, 999, 999),
]
OPEN = ". . .\n. ^ .\n. . ."


@pytest.fixture(scope="module")
def package():
    """The parser of the PyPI package for the token form, with its own limit out of the way."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        from karel import KarelForSynthesisParser

        return KarelForSynthesisParser(max_int=999, max_func_call=10**9)


def package_run(package, program, world):
    """Final (cells, robot) of the package's run from `world`, and its actions."""
    rows, columns = world.cells.shape
    state = np.zeros((rows, columns, 16), dtype=np.int8)
    state[:, :, 4] = world.cells == WALL
    for row, column in np.argwhere(world.cells >= 0):
        state[row, column, 5 + world.cells[row, column]] = 1
    # The package counts north, south, west, east.
    state[world.row, world.column, [0, 3, 1, 2][world.orientation]] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package.new_game(state=state)
    performed = []
    for name in ACTIONS:
        original = getattr(package.karel, name)

        def noted(original=original, name=name):
            performed.append(name)
            return original()

        setattr(package.karel, name, noted)
    package.run(print_program(program, Form.TOKENS))
    end = package.karel
    cells = np.where(world.cells == WALL, WALL, 0).astype(np.int64)
    for (column, row), count in Counter(end.markers).items():
        cells[row, column] = count
    x, y = end.hero.position
    return cells, (int(y), int(x), [0, 2, 3, 1][end.facing_idx]), performed


def test_finished_runs_agree_with_an_independent_implementation(package):
    rng = random.Random(3)
    worlds = random_worlds(3, 200)
    compared, kinds = 0, Counter()
    for _ in range(250):
        program = random_program(rng)
        source, code = print_program(program, Form.TOKENS), compile_program(program)
        for world in rng.sample(worlds, 4):
            if run(code, single(world)).outcomes[0] != Outcome.FINISHED:
                continue
            ours = world.copy()
            execution = execute(program, ours)
            cells, robot, performed = package_run(package, program, world)
            assert np.array_equal(cells, ours.cells), source
            assert robot == (ours.row, ours.column, ours.orientation), source
            assert performed == [ACTIONS[action] for action in execution.actions], source
            compared += 1
            kinds.update(set(source.split()) & {"REPEAT", "WHILE", "IF", "IFELSE", "not", *ACTIONS})
    assert compared > 250
    assert min(kinds.values()) > 25, kinds
    assert len(kinds) == 10


@pytest.mark.parametrize(("body", "text", "outcome", "actions", "ours", "theirs"), DIFFERENCES)
def test_crashes_stop_the_run_where_the_package_goes_on(package, body, text, outcome, actions, ours, theirs):
    program, world = parse(f"def run() {{ {body} }}"), World.from_text(text)
    end = world.copy()
    execution = execute(program, end)
    assert execution.outcome == outcome
    assert [ACTIONS[action] for action in execution.actions] == actions
    assert end == World.from_text(ours)
    cells, robot, _ = package_run(package, program, world)
    if isinstance(theirs, int):  # more markers than a cell of ours can hold
        assert cells[robot[:2]] == theirs
    else:
        expected = World.from_text(theirs)
        assert np.array_equal(cells, expected.cells)
        assert robot == (expected.row, expected.column, expected.orientation)


@pytest.mark.parametrize(("body", "outcome", "actions", "events"), LIMITS)
def test_a_run_is_stopped_at_one_thousand_events(body, outcome, actions, events):
    program, world = parse(f"def run() {{ {body} }}"), World.from_text(OPEN)
    execution = execute(program, world.copy())
    assert (execution.outcome, len(execution.actions), execution.events) == (outcome, actions, events)
    runs = run(compile_program(program), single(world))
    assert (runs.outcomes[0], runs.lengths[0]) == (outcome, actions)


def test_reports_say_where_a_run_ended():
    crash = execute(parse("def run() {\n    turnLeft();\n    move();\n}"), World.from_text("> ."))
    assert (
        crash.report
        == "crashed at line 3, column 5: move into a wall, facing north at row 1, column 1, after 1 actions"
    )
    endless = execute(parse("def run() { while (frontIsClear()) { turnLeft(); } }"), World.from_text(OPEN))
    assert "did not terminate: stopped after 1000 events" in endless.report
    assert "line 1, column 38" in endless.report
    assert "finished after 1 actions" in execute(parse("def run() { move(); }"), World.from_text("> .")).report


def test_coverage_counts_statements_and_both_outcomes():
    program = parse("def run() { while (frontIsClear()) { move(); } if (markersPresent()) { pickMarker(); } }")
    execution = execute(program, World.from_text("> ."))
    assert execution.covered == {
        ((0,), None),
        ((0,), True),
        ((0,), False),
        ((0, 0), None),
        ((1,), None),
        ((1,), False),
    }
    every = {(point.path, point.outcome) for point in coverage_points(program)}
    assert every - execution.covered == {((1,), True), ((1, 0), None)}


def test_the_compiled_machine_equals_the_interpreter():
    rng = random.Random(5)
    worlds = random_worlds(5, 300)
    ends = Counter()
    for _ in range(200):
        program = random_program(rng)
        code = compile_program(program)
        for world in rng.sample(worlds, 2):
            final = world.copy()
            reference = execute(program, final)
            runs = run(code, single(world))
            ends[reference.outcome] += 1
            assert runs.outcomes[0] == reference.outcome
            assert runs.lengths[0] == len(reference.actions)
            covered = {(p.path, p.outcome) for p, hit in zip(code.points, runs.covered[0], strict=True) if hit}
            assert covered == reference.covered
            assert np.array_equal(runs.final.cells[0], final.cells)
            assert tuple(runs.final.robots[0]) == (final.row, final.column, final.orientation)
            recording = record(code, single(world), runs.lengths)
            assert recording.actions.tolist() == reference.actions
            assert recording.observations.astype(bool).tolist() == [list(o) for o in reference.observations]
            stacks = [tuple(code.procedures[p] for p in row if p >= 0) for row in recording.stacks]
            assert stacks == reference.stacks
            assert recording.kept.tolist() == reference.kept
    assert min(ends[outcome] for outcome in Outcome) > 10, ends


def test_an_invocation_without_an_action_leaves_no_mark():
    program = parse(
        "def run() { repeat(3) { if (markersPresent()) { pickMarker(); } } "
        "while (frontIsClear()) { move(); } turnLeft(); }"
    )
    execution = execute(program, World.from_text(">2 . ."))
    assert execution.stacks == [
        ("run", "repeat_1", "if_1"),
        ("run", "repeat_1", "if_1"),
        ("run", "while_1"),
        ("run", "while_1"),
        ("run",),
    ]
    assert execution.kept == [1, 1, 1, 1, 1]


def test_frames_are_kept_while_their_invocation_lasts():
    program = parse("def run() { repeat(2) { turnLeft(); repeat(2) { move(); turnRight(); } } }")
    execution = execute(program, World.from_text(". . .\n> . ."))
    assert execution.outcome is Outcome.FINISHED
    assert execution.kept == [1, 2, 3, 2, 3, 1, 2, 3, 2, 3]


def test_turning_and_sensing_follow_the_compass():
    world = World.from_text(". # .\n. ^ 2\n. . .")
    assert world.observation() == (False, True, True, False)
    expected = [(True, False, True, False), (True, True, True, False), (True, True, False, False)]
    for observation in expected:
        world.perform(ACTIONS.index("turnRight"))
        assert world.observation() == observation
    for _ in range(2):
        world.perform(ACTIONS.index("turnLeft"))
    assert world.observation() == expected[0]
    world.perform(ACTIONS.index("move"))
    assert (world.row, world.column, world.orientation) == (2, 3, 1)
    assert world.observation() == (False, True, True, True)
    assert world.holds("markersPresent")
    assert not world.holds("noMarkersPresent")


def test_a_crash_leaves_the_world_as_it_was():
    for text, action in [(">", "move"), (">", "pickMarker"), (f">{MAX_MARKERS}", "putMarker")]:
        world = World.from_text(text)
        with pytest.raises(Crash, match=action):
            world.perform(ACTIONS.index(action))
        assert world == World.from_text(text)


def test_worlds_are_read_back_from_their_text():
    for world in random_worlds(7, 100):
        assert World.from_text(world.to_text()) == world


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at least one row"),
        (". .", "needs one robot"),
        ("> <", "needs one robot"),
        ("> .\n.", "row 2: 1 cells, expected 2"),
        ("> 11", "row 1, column 2: '11'"),
        ("> x", "row 1, column 2: 'x'"),
        (">#", "in a wall"),
    ],
)
def test_a_bad_world_is_one_clear_line(text, message):
    with pytest.raises(InputError, match=message):
        World.from_text(text)


def test_bad_world_arrays_are_refused():
    cells = World.from_text("> .").cells
    assert world_from_arrays(cells, (1, 1, 1)) == World.from_text("> .")
    for bad_cells, robot, message in [
        (cells, (0, 0, 0), "in a wall"),
        (cells, (9, 9, 0), "in a wall"),
        (cells, (1, 1, 4), "faces no direction"),
        (cells, (1, 1), "expected \\(row"),
        (cells[0], (1, 1, 0), "rows × columns"),
        (cells.astype(float), (1, 1, 0), "whole numbers"),
        (cells + 12, (1, 1, 0), "0..10 markers"),
        (np.zeros_like(cells), (1, 1, 0), "must be walls"),
    ]:
        with pytest.raises(InputError, match=message):
            world_from_arrays(bad_cells, robot)
