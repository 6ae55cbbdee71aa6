"""A program that calls itself runs deeper than it was trained: the same weights, a higher stack."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from toy_learner import toy_traces
from walkers import walker, write_there_and_back

import hvil
from hvil.analysis.episodes import record
from hvil.analysis.explain import explain
from hvil.cli.main import main
from hvil.data.tasks import find_task
from hvil.gate.errors import InputError
from hvil.learners import LEARNERS, build
from hvil.learners.config import Config
from hvil.machine.callgraph import call_graph
from hvil.training.run_files import MODEL
from hvil.training.weights import save_weights

Capture = pytest.CaptureFixture[str]
LONGER = find_task("thereandback:6-30").test_demonstrations(40, seed=0)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of there and back whose policy is the teacher's recursive procedure, with a stack of at most 8."""
    out = tmp_path_factory.mktemp("depth") / "run"
    run = hvil.fit("thereandback", out=out, demos=5, updates=1, context=4, test_traces=20)
    write_there_and_back(run.learner.policy_network.bank)
    save_weights(out / MODEL, run.learner, run.updates)
    return out


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.mark.parametrize(("name", "needed"), [("thereandback:2-30", 31), ("treewalk:2-20", 20)])
def test_a_recursive_program_solves_any_size_for_which_its_stack_is_high_enough(name: str, needed: int) -> None:
    task = find_task(name)
    traces = task.test_demonstrations(60, seed=0)
    assert record(walker(name, needed), traces, task).success.all()
    assert traces.annotations is not None
    heights = np.maximum.reduceat(traces.annotations.depths, traces.offsets[:-1])
    short = record(walker(name, 8), traces, task).success
    assert 0 < short.mean() < 1
    assert np.array_equal(short, heights <= 8)


@pytest.mark.parametrize("name", ["thereandback", pytest.param("treewalk", marks=pytest.mark.slow)])
def test_a_recursive_policy_is_printed_as_a_recursive_program(name: str) -> None:
    explanation = explain(walker(name), find_task(name), episodes=100, fresh=100)
    assert explanation.policy_agreement == explanation.teacher_agreement == 1
    assert "    walk()\n" in explanation.source


def test_a_run_does_longer_walks_only_with_a_higher_stack(finished: Path) -> None:
    run = hvil.load(finished)
    assert run.config.graph.max_depth == 8
    own = run.evaluate()
    assert own.error.value == 0
    assert own.rollout_success is not None
    assert own.rollout_success.value == 1
    shallow, deep = run.evaluate(LONGER), run.evaluate(LONGER, depth=31)
    # Seven cells are as far as a stack of eight goes.
    far = float((LONGER.metadata["cells"] > 7).mean())
    assert 0.5 < far == shallow.error.value
    assert deep.error.value == 0
    assert deep.rollout_success is not None
    assert deep.rollout_success.value == 1
    assert run.config.graph.max_depth == 8, "the run itself is as it was"


def test_a_deeper_run_has_the_same_weights_and_traces(finished: Path) -> None:
    traces = find_task("thereandback").demonstrations(6, seed=0)
    run = hvil.fit(traces, "complete:1", test=LONGER[:2], updates=1, hidden=16, context=4)
    deeper = run.at_depth(20)
    assert (run.policy.graph.max_depth, deeper.policy.graph.max_depth) == (8, 20)
    assert deeper.data is run.data
    for one, other in zip(run.learner.state_dict().values(), deeper.learner.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    assert deeper.at_depth(8).config == run.config


@pytest.mark.parametrize("learner", ["hvil", "exact"])
@pytest.mark.parametrize("encoder", ["mlp", "shared"])
def test_no_weight_depends_on_the_maximum_depth(learner: str, encoder: str) -> None:
    images = find_task("mnist-parity:0.7").demonstrations(2, seed=0)
    traces = images if encoder == "shared" else find_task("treewalk").demonstrations(2, seed=0)
    settings = {"network": "convnet", "encoder": "shared"} if encoder == "shared" else {}
    shapes = []
    for depth in (3, 50):
        graph = call_graph("complete:2", traces.action_names).at_depth(depth)
        made = build(Config.of(traces, graph, LEARNERS[learner](**settings)))
        shapes.append({name: tuple(value.shape) for name, value in made.state_dict().items()})
    assert shapes[0] == shapes[1]


def test_evaluate_with_a_depth_writes_beside_the_runs_own_result(copied: Path, capsys: Capture) -> None:
    assert main(["evaluate", str(copied), "--json"]) == 0
    own = json.loads(capsys.readouterr().out)
    assert own["depth"] is None
    assert main(["evaluate", str(copied), "thereandback:6-30", "--traces", "20", "--depth", "31", "--json"]) == 0
    deep = json.loads(capsys.readouterr().out)
    assert (deep["error"], deep["rollout_success"], deep["depth"]) == (0, 1, 31)
    assert json.loads((copied / "evaluation-thereandback-6-30-depth31.json").read_text()) == deep
    assert json.loads((copied / "evaluation.json").read_text()) == own
    assert main(["evaluate", str(copied), "--depth", "31"]) == 0
    assert "stack of at most 31" in " ".join(capsys.readouterr().out.split())
    assert (copied / "evaluation-depth31.json").is_file()


def test_explain_with_a_depth_plays_the_policy_of_that_depth(copied: Path, capsys: Capture) -> None:
    """The printed program has no limit: with a stack too small for the task, it is the policy that differs from it."""
    agreements = []
    for depth in ("3", "9"):
        assert main(["explain", str(copied), "--rollouts", "60", "--fresh", "40", "--depth", depth, "--json"]) == 0
        agreements.append(json.loads(capsys.readouterr().out)["policy_agreement"])
    assert agreements[0] < 1 == agreements[1]


@pytest.mark.parametrize("command", ["evaluate", "explain"])
@pytest.mark.parametrize(
    ("depth", "message"),
    [("0", "depth 0: expected 1 to 1000"), ("-3", "depth -3: expected"), ("1001", "depth 1001: expected 1 to 1000")],
)
def test_a_depth_that_cannot_be_is_one_line(
    finished: Path, capsys: Capture, command: str, depth: str, message: str
) -> None:
    before = sorted(finished.iterdir())
    assert main([command, str(finished), "--depth", depth]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert sorted(finished.iterdir()) == before


def test_a_depth_is_refused_where_it_means_nothing(tmp_path: Path) -> None:
    traces = toy_traces(6)
    tree = hvil.fit(traces, "tree:2x2", updates=1, hidden=8, context=4)
    assert tree.at_depth(2).config == tree.config
    with pytest.raises(
        InputError, match="depth 3: nothing in the call graph calls itself, so the stack is never higher"
    ):
        tree.at_depth(3)
    flat = hvil.fit(traces, model="feedforward", units=8, updates=1)
    with pytest.raises(InputError, match="depth 9: a run of feedforward has no call stack"):
        flat.evaluate(traces, depth=9)
