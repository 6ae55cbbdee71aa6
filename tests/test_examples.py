"""The scripts in `examples/` that nothing else runs."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture(scope="module")
def future() -> ModuleType:
    path = Path(__file__).parents[1] / "examples" / "future.py"
    spec = importlib.util.spec_from_file_location("future_example", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


def test_the_long_bubble_sort_is_two_cells_of_the_papers_figure() -> None:
    from hvil.experiments.experiment_files import find_experiment

    path = Path(__file__).parents[1] / "examples" / "bubblesort_long.toml"
    cells = find_experiment(str(path)).cells().values()
    paper = find_experiment("bubblesort").preset("paper").cells()
    assert {cell.key for cell in cells} == {paper["bubble sort", "HVIL", 30, run].key for run in (0, 1)}
