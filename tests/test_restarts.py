"""Restarts: successive halving by the training objective alone, resumable, each restart a run that can be had alone."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from toy_learner import toy_traces

import hvil
from hvil.analysis import evaluation
from hvil.cli.main import main
from hvil.data.streams import restart_seed
from hvil.gate.engine.here import run_here
from hvil.gate.engine.local import Failure, Job, run_jobs
from hvil.gate.engine.ray import ray_engine
from hvil.gate.errors import InputError
from hvil.training.fit import prepare
from hvil.training.restarts import Rung, _Judged, _ProgramSize, _standing, fit_restarts, halve, rungs

SMALL: dict[str, Any] = {
    "hidden": 5,
    "context": 3,
    "updates": 16,
    "patience": 0,
    "checkpoint_every": 4,
    "curriculum": 6,
}
SMALL |= {"samples": 2, "baseline": "leave-one-out"}


class Killed(Exception):
    pass


@pytest.fixture
def none_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """No search counts as failed: after a few updates all would, and going on takes time."""
    monkeypatch.setattr(evaluation, "FAILED_SHARE", 2.0)


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "model.safetensors")


def read_record(run: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((run / "restarts.json").read_text(encoding="utf-8"))
    return record


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_the_search_halves_until_one_is_left() -> None:
    assert rungs(4, 1000) == [Rung(500, 2), Rung(750, 1), Rung(1000, 1)]
    assert rungs(2, 1000) == [Rung(500, 1), Rung(1000, 1)]
    assert rungs(3, 10)[0] == Rung(5, 2)
    assert rungs(1, 1000) == [Rung(1000, 1)]


def test_the_first_halving_is_at_the_end_of_an_exact_start() -> None:
    assert rungs(8, 2000, 200) == [Rung(200, 4), Rung(1100, 2), Rung(1550, 1), Rung(2000, 1)]
    assert rungs(2, 2000, 200) == [Rung(200, 1), Rung(2000, 1)]
    assert rungs(4, 150, 200) == rungs(4, 150), "a run that ends within its start is judged as one without"


def test_two_run_to_the_end_if_their_programs_decide() -> None:
    assert rungs(8, 2000, 200, finalists=2) == [Rung(200, 4), Rung(1100, 2), Rung(2000, 1)]
    assert rungs(2, 2000, 200, finalists=2) == [Rung(2000, 1)]
    assert rungs(3, 1000, finalists=2) == [Rung(500, 2), Rung(1000, 1)]


def test_a_program_stands_by_what_it_explains_then_by_its_size_then_by_its_merit() -> None:
    def result(explained: int, length: int, merit: float) -> _Judged:
        return _Judged(updates=9, merit=merit, program=_ProgramSize(explained=explained, length=length))

    ordered = [result(9, 3, 5.0), result(10, 8, 0.0), result(10, 7, -1.0), result(10, 7, 0.0)]
    assert sorted([ordered[3], *ordered[:3]], key=_standing) == ordered
    assert _standing(_Judged(updates=9, merit=2.0)) < _standing(_Judged(updates=9, merit=3.0))


@pytest.mark.slow
@pytest.mark.usefixtures("none_fails")
def test_the_smaller_program_is_kept_with_its_run(tmp_path: Path) -> None:
    data, plan = prepare(toy_traces(), SMALL | {"restarts": 2, "select": "program"})
    run = fit_restarts(plan, data, tmp_path / "run", engine=run_here)
    record = read_record(tmp_path / "run")
    standing = {k: (each["explained"], -each["length"]) for k, each in record["programs"].items()}
    assert set(standing) == {"0", "1"}
    assert standing[str(record["best"])] == max(standing.values())
    assert run.config.training.select == "program"
    assert (tmp_path / "run" / "explanation.json").is_file()
    assert hvil.load(tmp_path / "run").explain().training_explained == standing[str(record["best"])][0]
    with pytest.raises(InputError, match="has no program"):
        hvil.fit(toy_traces(), restarts=2, select="program", model="lstm", updates=2)


def test_restart_zero_is_the_plain_run_and_others_differ() -> None:
    assert restart_seed(7, 0) == 7
    assert len({restart_seed(7, k) for k in range(50)}) == 50
    assert all(0 <= restart_seed(7, k) < 2**63 for k in range(50))


@pytest.mark.slow
@pytest.mark.usefixtures("none_fails")
def test_the_best_restart_is_kept_and_can_be_had_alone(tmp_path: Path) -> None:
    traces = toy_traces()
    run = hvil.fit(traces, out=tmp_path / "run", restarts=3, workers=2, **SMALL)
    record = read_record(tmp_path / "run")
    first = {k: values["8"] for k, values in record["merit"].items()}
    survivors = sorted(first, key=lambda k: first[k], reverse=True)[:2]
    assert set(first) == {"0", "1", "2"}, "all restarts are recorded"
    assert {k for k, values in record["merit"].items() if "12" in values} == set(survivors)
    assert str(record["best"]) in survivors
    assert "16" in record["merit"][str(record["best"])]
    assert run.config.training.restart == record["best"]
    assert run.updates == 16
    alone = hvil.fit(traces, out=tmp_path / "alone", restart=record["best"], **SMALL)
    assert same(weights(tmp_path / "run"), weights(tmp_path / "alone"))
    assert hvil.load(tmp_path / "run").data.training == alone.data.training
    in_memory = hvil.fit(traces, restarts=3, workers=2, **SMALL)
    assert in_memory.path is None
    assert in_memory.config == run.config
    assert in_memory.data.training == alone.data.training
    for one, other in zip(in_memory.learner.parameters(), alone.learner.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow
@pytest.mark.usefixtures("none_fails")
def test_restarts_with_an_exact_start_are_judged_at_its_end(tmp_path: Path) -> None:
    settings = SMALL | {"exact_start": 4, "length_price": 0.2, "restarts": 4}
    data, plan = prepare(toy_traces(), settings)
    run = fit_restarts(plan, data, tmp_path / "run", engine=run_here)
    record = read_record(tmp_path / "run")
    assert all("4" in values for values in record["merit"].values())
    assert len([k for k, values in record["merit"].items() if "10" in values]) == 2
    assert [k for k, values in record["merit"].items() if "16" in values] == [str(record["best"])]
    assert run.updates == 16


@pytest.mark.slow
@pytest.mark.usefixtures("none_fails")
def test_the_restart_that_was_kept_can_be_trained_longer(tmp_path: Path) -> None:
    traces, out = toy_traces(), tmp_path / "run"
    kept = hvil.fit(traces, out=out, restarts=2, workers=2, **SMALL).config.training.restart
    longer = hvil.fit(traces, out=out, resume=True, **SMALL | {"updates": 20})
    alone = hvil.fit(traces, out=tmp_path / "alone", restart=kept, **SMALL | {"updates": 20})
    assert longer.updates == alone.updates == 20
    assert same(weights(out), weights(tmp_path / "alone"))


@pytest.mark.slow
@pytest.mark.usefixtures("none_fails")
def test_restarts_on_ray_are_those_of_this_machine(tmp_path: Path) -> None:
    data, plan = prepare(toy_traces(), SMALL | {"restarts": 2})
    here = fit_restarts(plan, data, tmp_path / "here", engine=run_here)
    there = fit_restarts(plan, data, tmp_path / "there", workers=2, engine=ray_engine(workers=2))
    assert here.config == there.config
    assert same(weights(tmp_path / "here"), weights(tmp_path / "there"))


def test_restarts_refuse_other_traces_than_the_search_has(tmp_path: Path) -> None:
    """The traces are loaded again for each restart: a source that has changed must not go unnoticed."""
    data, plan = prepare("karel:A", SMALL | {"restarts": 2, "demos": 4, "exact_start": 0})
    fit_restarts(plan, data, tmp_path / "same", engine=run_here)
    other = data._replace(training=data.training[:3])
    with pytest.raises(InputError, match="karel:A: gives other traces now than when the search began"):
        fit_restarts(plan, other, tmp_path / "other", engine=run_here)


def test_restarts_refuse_what_only_one_run_can_have(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="log tensorboard: a log is that of one run"):
        hvil.fit(toy_traces(), out=tmp_path / "run", restarts=2, log="tensorboard", **SMALL)
    with pytest.raises(InputError, match="resuming needs a run directory"):
        hvil.fit(toy_traces(), restarts=2, resume=True, **SMALL)


@pytest.mark.slow
@pytest.mark.usefixtures("none_fails")
def test_a_search_that_was_killed_ends_with_the_same_bits(tmp_path: Path) -> None:
    two = SMALL | {"restarts": 2}
    data, plan = prepare(toy_traces(), two)
    whole = fit_restarts(plan, data, tmp_path / "whole", engine=run_here)  # who runs the restarts changes nothing
    stages = []

    def dies(jobs: Sequence[Job], *arguments: Any) -> list[Failure]:
        stages.append(len(jobs))
        failures = run_jobs(jobs, *arguments)
        if len(stages) == 2:
            raise Killed
        return failures

    with pytest.raises(Killed):
        fit_restarts(plan, data, tmp_path / "killed", workers=2, engine=dies)
    with pytest.raises(InputError, match="exists already"):
        fit_restarts(plan, data, tmp_path / "killed")
    again = fit_restarts(plan, data, tmp_path / "killed", workers=2, resume=True)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "killed"))
    whole_record, killed_record = read_record(tmp_path / "whole"), read_record(tmp_path / "killed")
    assert killed_record == whole_record, "what was judged before the end is not judged anew, by later weights"
    assert again.config == whole.config
    other = prepare(toy_traces(), two | {"hidden": 6})[1]
    (tmp_path / "killed" / "config.json").unlink()
    with pytest.raises(InputError, match="another configuration: hidden"):
        fit_restarts(other, data, tmp_path / "killed", resume=True)


@pytest.mark.parametrize(
    ("fitting", "stages", "best"),
    [
        ({3}, [(8, [0, 1, 2, 3]), (12, [3, 2]), (16, [3])], 3),
        ({2}, [(8, [0, 1, 2, 3]), (12, [3, 2]), (16, [3]), (16, [2])], 2),
        ({0}, [(8, [0, 1, 2, 3]), (12, [3, 2]), (16, [3]), (16, [2]), (16, [1, 0])], 0),
        (set(), [(8, [0, 1, 2, 3]), (12, [3, 2]), (16, [3]), (16, [2]), (16, [1, 0])], 3),
    ],
)
def test_a_failed_search_goes_on_with_what_was_dropped_last(fitting: set[int], stages: list[Any], best: int) -> None:
    trained = []

    def train(numbers: Sequence[int], until: int) -> dict[int, _Judged]:
        """Restarts with higher numbers have more merit; those that are not in `fitting` fail."""
        trained.append((until, [*numbers]))
        errors = {k: (0.0 if k in fitting else 0.5) if until == 16 else None for k in numbers}
        return {k: _Judged(updates=until, merit=float(k), training_error=errors[k]) for k in numbers}

    assert next(iter(halve(range(4), rungs(4, 16), train))) == best
    assert trained == stages


@pytest.mark.slow
@pytest.mark.usefixtures("none_fails")
def test_the_command_says_how_restarts_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    out = tmp_path / "run"
    assert (
        main(["fit", "karel:F", "--demos", "5", "--test-traces", "5", "--restarts", "2", "--out", str(out), *flags])
        == 0
    )
    shown = capsys.readouterr().out
    assert "restart 0: merit" in shown
    assert shown.count("(kept)") == 1
    assert main(["fit", "karel:F", "--restarts", "0", "--out", str(tmp_path / "none")]) == 2
