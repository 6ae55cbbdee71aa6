"""Programs as policies: they act like any policy, one or many at once, and are evaluated like a network."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from table_policy import lamp_policy, lamp_traces, program_f, table_run

import hvil
from hvil.analysis.episodes import record
from hvil.analysis.evaluation import evaluate
from hvil.analysis.explain import Explanation, ProgramPolicy, explain
from hvil.analysis.explain.vocabulary import Vocabulary
from hvil.cli.main import main
from hvil.data.reading import ObservationReader
from hvil.data.tasks import Quantity, find_task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.learner import Learner, Policy

Capture = pytest.CaptureFixture[str]
KAREL_F = find_task("karel:F")
LAMP = Vocabulary((Quantity("lit", "observation[..., 0] > 0.5", "truth"),), ("push", "wait"), ("root",))
PUSH, WAIT, TERMINATE = range(3)


@pytest.fixture(scope="module")
def explained() -> Explanation:
    return explain(program_f(), KAREL_F, episodes=300, fresh=100)


def lamp_program(source: str) -> ProgramPolicy:
    return ProgramPolicy(source, LAMP, ("push <it>", "wait"), ObservationReader(2))


def test_a_program_is_a_policy_and_no_learner(explained: Explanation) -> None:
    policy = explained.policy(ObservationReader(4))
    assert isinstance(policy, Policy)
    assert not isinstance(policy, Learner)
    assert policy.action_names == KAREL_F.action_names
    assert policy.source == explained.source


def test_a_program_acts_one_observation_after_another() -> None:
    policy = lamp_program("def root():\n    while not lit:\n        push()\n    wait()\n")
    dark, lit = np.array([0.0, 0.3]), np.array([1.0, 0.3])
    for _ in range(2):
        assert [policy.act(each) for each in (dark, dark, lit, lit, dark)] == [PUSH, PUSH, WAIT, TERMINATE, TERMINATE]
        policy.reset()
    assert type(policy.act(dark)) is int


def test_the_environments_of_a_batch_do_not_meddle_with_each_other() -> None:
    policy = lamp_program("def root():\n    while not lit:\n        push()\n    wait()\n")
    policy.reset(3)
    columns = np.array([[0, 0, 1, 1], [1, 0, 0, 0], [0, 1, 0, 0]])
    done = [policy.act(np.column_stack([column, column])).tolist() for column in columns.T]
    assert np.array(done).T.tolist() == [
        [PUSH, PUSH, WAIT, TERMINATE],
        [WAIT, TERMINATE, TERMINATE, TERMINATE],
        [PUSH, WAIT, TERMINATE, TERMINATE],
    ]


def test_what_does_not_fit_is_refused(explained: Explanation) -> None:
    policy = explained.policy(ObservationReader(4))
    with pytest.raises(InputError, match=r"shape \(5,\) do not fit: 1 environment\(s\), 4 numbers each"):
        policy.act(np.zeros(5))
    policy.reset(2)
    with pytest.raises(InputError, match="2 environment"):
        policy.act(np.zeros((1, 8)))
    with pytest.raises(InputError, match="at least one environment"):
        policy.reset(0)
    with pytest.raises(InputError, match="the program has move"):
        policy.wrong(lamp_traces(2))
    with pytest.raises(InputError, match="the program takes 5 numbers"):
        explained.policy(ObservationReader(5)).wrong(KAREL_F.demonstrations(2, 0))


def test_errors_along_traces_and_in_roll_outs_are_those_of_the_policy(explained: Explanation) -> None:
    policy, other = explained.policy(ObservationReader(4)), find_task("karel:D")
    traces = other.test_demonstrations(60, 3)
    network, program = record(program_f(), traces, other), record(policy, traces, other)
    np.testing.assert_array_equal(program.emitted, network.emitted)
    assert program.results == network.results
    assert program.steps is None
    along = record(policy, traces).wrong
    assert 0 < along.mean() < 1
    np.testing.assert_array_equal(policy.wrong(traces), along)
    evaluation = evaluate(policy, traces, task=other)
    assert evaluation.error.value == along.mean()
    assert evaluation.rollout_success is not None
    assert evaluation.rollout_success.value == network.success.mean()
    assert (evaluation.log_likelihood, evaluation.php_steps_per_action) == (None, None)


def test_a_program_that_is_stuck_says_that_it_has_ended_and_is_wrong_all_the_same() -> None:
    """It goes idle where the teacher ends: what it says there is what the teacher says."""
    traces = lamp_traces(20)
    good = lamp_program("def root():\n    while not lit:\n        push()\n")
    idle = lamp_program("def root():\n    while not lit:\n        push()\n    while lit:\n        pass\n")
    for policy, stuck in [(good, False), (idle, True)]:
        policy.reset()
        assert policy.act(np.array([1.0, 0.0])) == TERMINATE
        assert policy.stuck.tolist() == [stuck]
        assert policy.wrong(traces).tolist() == [stuck] * len(traces)
        played = record(policy, traces)
        np.testing.assert_array_equal(played.emitted, traces.emitted())
        assert played.wrong.tolist() == [stuck] * len(traces)
        assert played.success.tolist() == [not stuck] * len(traces)


def test_the_program_of_a_run_acts_and_remembers(tmp_path: Path) -> None:
    traces = lamp_traces(40)
    run = table_run(lamp_policy(traces), traces[:20], traces[20:])
    dark, lit = np.array([0.0, 0.3]), np.array([1.0, 0.3])
    run.program.reset()
    assert [run.program.act(each) for each in (dark, dark, lit, dark)] == [PUSH, PUSH, TERMINATE, TERMINATE]
    evaluation = run.evaluate(program=True)
    assert (evaluation.policy, evaluation.error.value, evaluation.error.count) == ("program", 0.0, 20)
    assert repr(evaluation).startswith("Evaluation of the program:\n")


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "run"
    traces, test = (find_task("karel:B").demonstrations(count, count) for count in (5, 8))
    hvil.fit(traces, "tree:2x2", out=path, test=test, updates=2, hidden=8, context=4, batch_size=5)
    hvil.load(path).explain(episodes=20, fresh=10)
    return path


@pytest.mark.parametrize("subject", ["0" * 32, None])
def test_the_program_is_the_one_that_is_kept_whatever_its_options_but_not_of_other_weights(
    subject: str | None, tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shutil.copytree(tiny_run, tmp_path / "run")
    mapping = json.loads((path / "explanation.json").read_text(encoding="utf-8"))
    (path / "explanation.json").write_text(json.dumps(mapping | {"subject": subject}), encoding="utf-8")

    class FoundAnew(Exception):
        pass

    def explain(run: hvil.Run) -> Explanation:
        raise FoundAnew

    monkeypatch.setattr("hvil.training.run.Run.explain", explain)
    assert hvil.load(tiny_run).program.source == mapping["source"]
    with pytest.raises(FoundAnew):
        _ = hvil.load(path).program


def test_the_command_evaluates_the_program_beside_the_network(tiny_run: Path, tmp_path: Path, capsys: Capture) -> None:
    path = shutil.copytree(tiny_run, tmp_path / "run")

    def evaluated(*arguments: str) -> dict[str, object]:
        assert main(["evaluate", str(path), *arguments, "--json"]) == 0
        result: dict[str, object] = json.loads(capsys.readouterr().out)
        return result

    network = evaluated()
    program = evaluated("--program")
    assert list(program) == list(network)
    assert (network["policy"], program["policy"]) == ("network", "program")
    assert json.loads((path / "evaluation.json").read_text()) == network, "the network's result stays"
    assert json.loads((path / "evaluation-program.json").read_text()) == program
    run = hvil.load(path)
    assert run.data.test is not None
    assert program["traces"] == 8
    assert program["error"] == run.program.wrong(run.data.test).mean()
    assert program["training_error"] == run.program.wrong(run.data.training).mean()
    assert program["failure"] is None
    other = evaluated("karel:B", "--traces", "7", "--program")
    assert other["traces"] == 7
    assert isinstance(other["rollout_success_interval"], list)
    assert (path / "evaluation-karel-B-program.json").is_file()
    assert main(["evaluate", str(path), "--program"]) == 0
    assert "its program" in capsys.readouterr().out


def test_what_has_no_program_is_refused_in_one_line(tiny_run: Path, tmp_path: Path, capsys: Capture) -> None:
    traces = find_task("karel:B").demonstrations(5, 0)
    hvil.fit(traces, out=tmp_path / "lstm", test=traces, model="lstm", updates=1, units=4, layers=1)
    for arguments, message in [
        ([str(tmp_path / "lstm"), "--program"], "this policy has no procedures to explain"),
        ([str(tiny_run), "--program", "--exact"], "which a program does not have"),
    ]:
        capsys.readouterr()
        assert main(["evaluate", *arguments]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    assert not (tmp_path / "lstm" / "evaluation-program.json").exists()


def test_a_program_is_wrong_on_a_trace_that_ends_too_early(explained: Explanation) -> None:
    traces = KAREL_F.demonstrations(1, 0)
    cut = Traces.from_episodes([traces.observations[:-1]], [traces.actions[:-1]], traces.action_names)
    assert explained.policy(ObservationReader(4)).wrong(traces).tolist() == [False]
    assert explained.policy(ObservationReader(4)).wrong(cut).tolist() == [True]
