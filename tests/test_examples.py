"""The scripts in `examples/` that nothing else runs."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import hvil


def example(name: str) -> ModuleType:
    """The script of this name as a module."""
    path = Path(__file__).parents[1] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{name}_example", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def future() -> ModuleType:
    return example("future")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cliff", "crossing", "parcels"])
def test_logs_without_hierarchy_are_learned_and_said_to_have_none(name: str) -> None:
    log = example("flat_logs").LOGS[name]
    run = hvil.fit(log(80, 0), updates=600)
    explanation = run.explain()
    assert (explanation.no_hierarchy or "").startswith("no hierarchy: one procedure ")
    assert not run.program.wrong(log(100, 10_000)).any()
    if name == "cliff":
        assert "cell in (11, 23, 35)" in explanation.source


def test_in_the_task_of_intent_only_the_last_action_shows_the_procedure(future: ModuleType) -> None:
    traces, procedure = future.intended(50, 0)
    actions = traces.actions.reshape(50, -1)
    assert (actions[:, :-1] == 0).all()
    np.testing.assert_array_equal(actions[:, -1], procedure)
    later = traces.observations.reshape(50, -1, future.FEATURES + 1)[:, 1:]
    assert (later == later[0, 0]).all()
    annotations = future.annotated(traces, procedure, 0.1, 0).annotations
    assert annotations is not None
    assert annotations.known.sum() == 5 * (future.WAITS + 1)


@pytest.mark.parametrize("study", ["intent", "parity"])
def test_the_future_is_compared_in_pairs(future: ModuleType, study: str) -> None:
    cells = [{**cell, "run": 0, "updates": 20} for cell in getattr(future, study)()[:2]]
    records = [future.run_cell(cell) for cell in cells]
    assert all(0 <= record["error"] <= 1 for record in records)
    assert records[0] == future.run_cell(cells[0])
    lines = future.table(records).splitlines()
    assert len(lines) == 3
    assert f"| {100 * (records[0]['error'] - records[1]['error']):+.1f}" in lines[2]


def test_the_close_up_shows_the_kind_that_decides_the_side() -> None:
    close_up = example("close_up")
    plain, shuffled = (close_up.demonstrations(60, 3, 0.0, shuffled=shuffled) for shuffled in (False, True))
    np.testing.assert_array_equal(plain.observations[0::2], shuffled.observations[0::2])
    kinds = [traces.observations[1::2, close_up.FEATURES :].argmax(axis=1) for traces in (plain, shuffled)]
    np.testing.assert_array_equal(kinds[0] % 2, plain.actions)
    assert (kinds[1] != kinds[0]).any()
    assert sorted(kinds[0]) == sorted(kinds[1])
    records = [{"model": model, "run": run, "error": 0.1 * run} for run in (1, 2) for model in close_up.MODELS]
    assert "| procedures with effects | 15.0%" in close_up.table(records)


def test_a_level_becomes_a_part_of_one_policy_and_its_calls_become_actions() -> None:
    levels = example("level_by_level")
    data = levels.load_data("bubblesort", levels.DataSettings(source="bubblesort", demos=6, test_traces=5), 1000)
    settings = {"hidden": 8, "updates": 3, "seed": 0}
    lower = levels.trained(data, data.training, levels.graph_of(data, ("compswap",), ()), settings)
    traces = levels.abstracted(lower, data.training)
    assert traces.action_names == (*data.task.action_names, "compswap")
    assert (traces.lengths <= data.training.lengths).all()
    steps = lower.learner.infer(data.training).steps
    inside = np.bincount(steps.trace[(steps.depth == 2) & (steps.choice < lower.config.graph.terminate)], minlength=6)
    calls = np.array([(trace.actions == len(data.task.action_names)).sum() for trace in traces])
    np.testing.assert_array_equal(traces.lengths - calls + inside, data.training.lengths)

    upper = levels.trained(data, traces, levels.graph_of(data, ("bstep", "lshift"), ("compswap",)), settings)
    whole = levels.together(data, settings, [lower])
    network, source = whole.learner.policy_network, upper.learner.policy_network
    levels.copy_procedure("bstep", source, network)
    here, there = (graph.procedure_index("bstep") for graph in (network.graph, source.graph))
    words, other_words = levels.choices(network.graph, here), levels.choices(source.graph, there)
    encoded = torch.from_numpy(data.training.observations[:7].astype(np.float32))
    for word in words:
        rows = [
            part.log_probs(encoded, *(np.full(7, value) for value in (number, 2, names[word], depth)))
            for part, number, names, depth in ((network, here, words, 3), (source, there, other_words, 2))
        ]
        chosen = [
            row[:, [names[step] for step in words]] for row, names in zip(rows, (words, other_words), strict=True)
        ]
        torch.testing.assert_close(chosen[0], chosen[1])
    assert words.keys() == other_words.keys()
