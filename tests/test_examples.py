"""The scripts in `examples/` that nothing else runs."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

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
