"""What an explanation says of itself: how sure its numbers are, where it differs, and when not to believe it."""

import json
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from scripted_run import without_task
from table_policy import flat_teacher, lamp_policy, lamp_traces, program_f, table_run

from hvil.analysis.explain import Explanation, explain, python_file
from hvil.analysis.explain.program import Program, Step
from hvil.analysis.statistics import proportion_interval
from hvil.data.reading import ObservationReader
from hvil.data.tasks import find_task
from hvil.gate.errors import InputError
from hvil.machine.batched import Tops
from hvil.machine.callgraph import call_graph

KAREL_F = find_task("karel:F")
NEW_FIELDS = (
    "subject",
    "warning",
    "policy_agreement_interval",
    "teacher_agreement_interval",
    "disagreement_count",
    "disagreements",
    "training_explained",
    "training_traces",
    "no_hierarchy",
    "listed",
    "inlined",
)


@pytest.fixture(scope="module")
def explained() -> Explanation:
    return explain(program_f(), KAREL_F, episodes=300, fresh=200, training=KAREL_F.demonstrations(30, 0))


def test_agreements_come_with_their_intervals(explained: Explanation) -> None:
    assert explained.policy_interval == proportion_interval(200, 200)
    summary = explained.summary()
    assert summary["policy_agreement_interval"] == list(proportion_interval(200, 200))
    assert explained.fidelity == (
        "agrees with the policy on 100.0% [98.1, 100.0] and with the teacher on 100.0% [98.1, 100.0] of 200 fresh "
        "roll-outs"
    )
    half = replace(explained, teacher_agreement=0.5)
    assert half.teacher_interval == proportion_interval(100, 200)


def test_training_traces_that_the_program_explains_are_counted(explained: Explanation) -> None:
    assert (explained.training_explained, explained.training_traces) == (30, 30)
    assert "explains 30 of 30 training traces" in explained.notes
    others = find_task("karel:D").demonstrations(40, 1)
    found = explain(program_f(), KAREL_F, episodes=300, fresh=20, training=others)
    right = int((~found.policy(ObservationReader(4)).wrong(others)).sum())
    assert 0 < right < 40
    assert f"explains {right} of 40 training traces" in found.notes
    unknown = explain(program_f(), KAREL_F, episodes=300, fresh=20)
    assert unknown.training_explained is unknown.training_traces is None
    assert not any("training traces" in note for note in unknown.notes)


def test_a_run_counts_its_own_training_traces_where_it_has_them() -> None:
    traces = lamp_traces(40)
    run = table_run(lamp_policy(traces), traces[:25], traces[25:])
    assert "explains 25 of 25 training traces" in run.explain().notes
    changed = table_run(lamp_policy(traces), traces[:25], traces[25:])
    changed.data = changed.data._replace(training=without_task(KAREL_F.demonstrations(5, 0)))
    assert changed.explain(traces=traces).training_traces is None, "the traces are no longer the configuration's"


def test_the_episodes_on_which_program_and_policy_differ_are_named(explained: Explanation) -> None:
    """The policy waits where the noise is high, which it never is in the traces that the program is made from."""
    traces = lamp_traces(80)
    study, measure = traces[:40], traces[40:]
    noisy = list(range(1, 37, 3))
    observations = measure.observations.copy()
    observations[measure.row_offsets[noisy], 1] = 9
    measure = replace(measure, observations=observations)

    class Startled:
        graph = lamp_policy(traces).graph

        def choices(self, features: np.ndarray, tops: Tops) -> np.ndarray:
            return np.where(features[:, 1] > 5, 1, lamp_policy(traces).choices(features, tops))

    found = explain(Startled(), traces=study, measure=measure)
    assert found.disagreements == tuple(noisy[:10])
    assert found.disagreement_count == len(noisy) == 12
    first = ", ".join(map(str, noisy[:10]))
    assert f"differs from the policy on 12 of 40 traces (counted from 0: {first}, …)" in found.notes
    assert (found.policy_agreement, found.teacher_agreement) == (0.7, 1.0)
    assert explained.disagreements == ()
    assert explained.disagreement_count == 0
    assert not any("differs" in note for note in explained.notes)


def test_a_program_that_is_not_the_policy_is_never_shown_without_a_warning(explained: Explanation) -> None:
    assert explained.warning is None
    assert explained.source == explained.text
    unfaithful = replace(explained, policy_agreement=0.94)
    assert unfaithful.warning == (
        "this policy is too tangled to explain well: the program agrees with it on only 94.0% [89.8, 96.5] of 200 "
        "fresh roll-outs"
    )
    assert unfaithful.source == f"# {unfaithful.warning}\n{unfaithful.text}"
    assert unfaithful.procedure("step").startswith(f"# {unfaithful.warning}\ndef step():")
    assert unfaithful.summary()["warning"] == unfaithful.warning
    assert unfaithful.lines == explained.lines
    assert unfaithful.source in python_file(unfaithful)
    assert not unfaithful.policy(ObservationReader(4)).wrong(KAREL_F.demonstrations(5, 0)).any(), (
        "a comment changes nothing"
    )
    assert replace(explained, policy_agreement=0.95).warning is None


def test_a_long_program_comes_with_a_warning(explained: Explanation) -> None:
    for lines, warned in [(80, False), (81, True)]:
        program = Program(0, explained.program.terminate, {0: (Step(0),) * (lines - 1)})
        long = replace(explained, program=program)
        assert long.lines == lines
        assert (long.warning is not None) is warned
    assert long.warning is not None
    assert "the program has 81 lines and agrees with it on 100.0% [98.1, 100.0] of 200 fresh roll-outs" in long.warning


def test_a_procedure_without_structure_is_a_list_of_conditions_and_said_to_be_one() -> None:
    """What comes next depends on the counter by no rule that a loop could follow."""
    order = np.random.default_rng(4).integers(0, 3, 40)

    class Erratic:
        graph = call_graph({"procedures": {"<i>root": {"calls": []}}}, KAREL_F.action_names)

        def choices(self, features: np.ndarray, tops: Tops) -> np.ndarray:
            turn = np.array([1, 2, 1])
            return np.where(tops.counter < 40, turn[order[np.minimum(tops.counter, 39)]], self.graph.terminate)

    found = explain(Erratic(), KAREL_F, episodes=40, fresh=20)
    assert found.listed == ("<i>root",)
    assert found.warning is not None
    assert "falls back on lists of conditions (i_root)" in found.warning
    assert found.source.splitlines()[0] == f"# {found.warning}"
    assert "\n" not in found.warning


def test_one_procedure_that_does_everything_is_no_hierarchy(explained: Explanation) -> None:
    assert explained.no_hierarchy is None
    flat = explain(flat_teacher("B"), find_task("karel:B"), episodes=60, fresh=20)
    assert flat.no_hierarchy == "no hierarchy: one procedure does everything (root)"
    assert flat.no_hierarchy in flat.notes
    assert flat.summary()["no_hierarchy"] == flat.no_hierarchy
    inlined = explain(program_f(), KAREL_F, episodes=300, fresh=20, inline=True)
    assert inlined.procedures == ("root",)
    assert inlined.no_hierarchy is None, "the calls were there, but were to be written out"
    calls_itself = Program(0, explained.program.terminate, {0: (Step(0), Step(explained.program.terminate + 1))})
    assert replace(explained, program=calls_itself).no_hierarchy is None
    root, step = 0, 1
    call, act = Step(explained.program.terminate + 1 + step), Step(0)
    repeats = Program(root, explained.program.terminate, {root: (call, call), step: (act,)})
    assert replace(explained, program=repeats).no_hierarchy == (
        "no hierarchy: one procedure takes every action (step), the others only call it"
    )
    both_act = Program(root, explained.program.terminate, {root: (call, act), step: (act,)})
    assert replace(explained, program=both_act).no_hierarchy is None


def test_a_list_of_conditions_is_no_fault_if_it_has_no_branches() -> None:
    found = explain(lamp_policy(lamp_traces(60)), traces=lamp_traces(60))
    assert found.listed == ()
    assert found.warning is None


def test_what_is_new_comes_back_from_json_and_may_be_missing(explained: Explanation) -> None:
    rich = replace(explained, policy_agreement=0.9, disagreements=(3, 5), listed=("step",), inlined=True)
    mapping = json.loads(json.dumps(rich.to_mapping(), allow_nan=False))
    assert Explanation.from_mapping(mapping, rich.graph, KAREL_F) == rich
    older = {name: value for name, value in mapping.items() if name not in NEW_FIELDS}
    read = Explanation.from_mapping(older, rich.graph, KAREL_F)
    assert (read.training_explained, read.training_traces, read.disagreements, read.listed) == (None, None, None, None)
    assert read.text == rich.text
    assert "only 90.0%" in (read.warning or "")
    assert read.notes == [f"never called: {', '.join(rich.unused)}"]


@pytest.mark.parametrize(
    "changed",
    [{"policy_agreement": 1.5}, {"episodes": 0}, {"disagreements": ["x"]}, {"training_traces": "many"}],
)
def test_numbers_that_cannot_be_are_refused(explained: Explanation, changed: Mapping[str, object]) -> None:
    with pytest.raises(InputError):
        Explanation.from_mapping(explained.to_mapping() | changed, explained.graph, KAREL_F)
