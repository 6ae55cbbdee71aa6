"""Demonstrations of Karel programs: their distribution, their coverage, their call structure."""

import numpy as np
import pytest

from hvil.data.tasks import find_task
from hvil.domains.karel import (
    ACTIONS,
    HIERARCHICAL,
    OBSERVATIONS,
    PROGRAMS,
    KarelTask,
    Outcome,
    execute,
    generate,
    parse,
)
from hvil.domains.karel.compiler import run
from hvil.domains.karel.generator import GROUP, MAX_SIDE, draw_grids
from hvil.domains.karel.programs import named_or_source
from hvil.domains.karel.world import MAX_MARKERS, WALL
from hvil.gate.errors import InputError
from hvil.machine.callgraph import call_graph
from hvil.machine.reference import replay, stacks_from_structure, structure_from_stacks

# Mean number of actions, share of random grids that terminate without a crash.
REFERENCE = {
    "A": (3.7, 0.19),
    "B": (3.7, 0.19),
    "C": (4.0, 0.22),
    "D": (12.3, 0.63),
    "E": (12.4, 0.63),
    "F": (14.5, 0.67),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_lengths_and_shares_match_the_reference_figures(name):
    made = generate(named_or_source(name), 5_000, seed=0)
    lengths = np.diff(made.recording.offsets)
    mean, share = REFERENCE[name]
    noise = lengths.std() / np.sqrt(len(lengths))
    assert abs(lengths.mean() - mean) < 0.03 * mean + 2 * noise
    assert abs(made.terminated / made.drawn - share) < 0.015


@pytest.mark.parametrize("name", [*PROGRAMS, *HIERARCHICAL])
def test_every_group_covers_the_program(name):
    made = generate(named_or_source(name), 1_000, seed=3)
    runs = run(made.code, made.grids.worlds)
    assert (runs.outcomes == Outcome.FINISHED).all()
    assert np.array_equal(runs.lengths, np.diff(made.recording.offsets))
    groups = runs.covered.reshape(-1, GROUP, len(made.code.points))
    assert groups.any(axis=1).all()


def test_random_grids_follow_the_stated_distribution():
    grids = draw_grids(np.random.default_rng(0), 20_000)
    cells, robots, sizes = grids.worlds.cells, grids.worlds.robots, grids.sizes.astype(int)
    assert sorted(np.unique(sizes)) == list(range(2, 17))
    assert np.allclose(sizes.mean(axis=0), 9, atol=0.1)
    side = np.arange(MAX_SIDE)
    inside = (side[:, None] < sizes[:, 0, None, None]) & (side < sizes[:, 1, None, None])
    inner = cells[:, 1:-1, 1:-1]
    assert (inner[~inside] == WALL).all()
    assert (cells[:, [0, -1]] == WALL).all()
    assert (cells[:, :, [0, -1]] == WALL).all()
    # E[ratio]: walls .32 * .02 + .04 * .275 + .64 * .06, markers .25 * .02 + .04 * .375 + .71 * .06. When both
    # want a cell each wins half of the time.
    walls, markers = 0.0558, 0.0626
    assert abs((inner[inside] == WALL).mean() - walls * (1 - markers / 2)) < 0.003
    assert abs((inner[inside] > 0).mean() - markers * (1 - walls / 2)) < 0.003
    counts = inner[inside & (inner > 0)]
    assert counts.max() <= MAX_MARKERS
    assert abs((counts == 1).mean() - 0.6) < 0.01
    assert abs((counts == 2).mean() - 0.24) < 0.01
    rows, columns, orientations = robots.T
    assert (cells[np.arange(len(cells)), rows, columns] != WALL).all()
    assert np.allclose(np.bincount(orientations, minlength=4) / len(robots), 0.25, atol=0.02)
    assert np.allclose(((rows - 0.5) / sizes[:, 0]).mean(), 0.5, atol=0.01)
    assert np.allclose(((columns - 0.5) / sizes[:, 1]).mean(), 0.5, atol=0.01)


def test_the_same_seed_gives_the_same_demonstrations_and_a_longer_set_starts_with_the_shorter():
    first, again, other = (KarelTask("F").demonstrations(50, seed) for seed in (7, 7, 8))
    assert first == again
    assert first != other
    assert KarelTask("F").demonstrations(333, 7)[:50] == first
    assert KarelTask("F").demonstrations(3, 7) == first[:3]


def test_demonstrations_are_the_interpreters_runs_with_their_call_structure():
    karel = find_task("karel:F")
    traces = karel.demonstrations(200, seed=1)
    assert traces.attributes["task"] == karel.name == "karel:F"
    assert (traces.action_names, traces.observation_names) == (ACTIONS, OBSERVATIONS)
    assert traces.annotations.procedures == ("run", "while_1", "if_1", "else_1", "if_2", "else_2")
    for i in range(len(traces)):
        trace = traces[i]
        execution = execute(named_or_source("F"), karel.reset_options(traces, i)["world"])
        assert execution.outcome is Outcome.FINISHED
        assert trace.actions.tolist() == execution.actions
        assert trace.observations.astype(bool).tolist() == [list(row) for row in execution.observations]
        names = trace.annotations.procedures
        assert [tuple(names[p] for p in row if p >= 0) for row in trace.annotations.stacks] == execution.stacks
        assert trace.annotations.kept.tolist() == execution.kept


@pytest.mark.parametrize(
    "source",
    [
        *PROGRAMS.values(),
        "def run() { repeat(3) { if (markersPresent()) { pickMarker(); } if (frontIsClear()) { move(); } } }",
    ],
)
def test_the_call_structure_is_one_a_stack_machine_can_make(tmp_path, source):
    path = tmp_path / "program.karel"
    path.write_text(source)
    karel = KarelTask(str(path))
    graph = call_graph(karel.teacher_call_graph, ACTIONS)
    for trace in karel.demonstrations(30, seed=0):
        given = trace.annotations
        assert graph.procedures == given.procedures
        actions = trace.actions.tolist()
        structure = structure_from_stacks(graph, actions, given.stacks.tolist(), given.kept.tolist())
        assert len(replay(graph, actions, structure)) == len(structure)
        assert stacks_from_structure(graph, actions, structure) == given


def test_test_traces_are_other_draws():
    karel = find_task("karel:A")
    assert karel.test_demonstrations(20, 0) != karel.demonstrations(20, 0)
    assert karel.test_demonstrations(20, 0) == karel.test_demonstrations(20, 0)


def test_progress_rises_to_the_count():
    seen = []
    KarelTask("A").demonstrations(500, 0, seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 500


UNREACHABLE = [
    (
        "if (markersPresent()) { if (noMarkersPresent()) { move(); } turnLeft(); } else { turnLeft(); }",
        "the branch where `if (noMarkersPresent())` at line 1, column 37 is true was never reached (and 1 more)",
    ),
    ("turnLeft(); repeat(0) { turnRight(); }", "the statement `turnRight()` at line 1, column 37 was never reached"),
    (
        "if (frontIsClear()) { turnLeft(); }",
        "the branch where `if (frontIsClear())` at line 1, column 13 is false was never reached",
    ),
    ("while (markersPresent()) { pickMarker(); } pickMarker();", "no run was a demonstration"),
    (
        "turnLeft(); repeat(3) { if (markersPresent()) { pickMarker(); } } "
        "if (markersPresent()) { if (frontIsClear()) { turnLeft(); } }",
        "no 5 runs together cover the program; the ",
    ),
]


@pytest.mark.parametrize(("body", "message"), UNREACHABLE)
def test_the_generator_gives_up_and_names_what_was_never_reached(body, message):
    with pytest.raises(InputError) as caught:
        generate(parse(f"def run() {{ {body} }}"), 10, seed=0, max_draws=5_000)
    assert "gave up after 5," in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_never_covers_is_named(tmp_path):
    path = tmp_path / "never.karel"
    path.write_text("def run() {\n  turnLeft();\n  repeat(0) { move(); }\n}\n")
    with pytest.raises(InputError, match=r"never\.karel: .*`move\(\)` at line 3, column 15 was never reached"):
        KarelTask(str(path), max_draws=2_000).demonstrations(10, 0)


@pytest.mark.parametrize("spec", ["karel:", "karle:A", "bubblesort2", "mnist-parity:", ""])
def test_a_mistyped_task_lists_the_valid_ones(spec):
    with pytest.raises(InputError, match=r"no such task; valid tasks: .*karel:A to karel:F"):
        find_task(spec)


def test_karel_alone_asks_for_a_program():
    with pytest.raises(
        InputError, match=r"karel: which program\? Expected karel:A to karel:F, karel:NAME .*square.*, karel:FILE"
    ):
        find_task("karel")


def test_bad_arguments_are_one_clear_line():
    with pytest.raises(InputError, match="karel:G: no program of that name"):
        find_task("karel:G")
    with pytest.raises(InputError, match="expected at least 1"):
        find_task("karel:A").demonstrations(0, 0)
    with pytest.raises(InputError, match="seed -1"):
        find_task("karel:A").demonstrations(1, -1)
