"""A sweep of 20 cells whose driver, or a worker, is killed: 20 records in the end, none lost, none doubled."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sweep_processes import descendants, environment, ray_cluster, wait_for

CELLS = 20
DRIVER = f"""
import sys
from pathlib import Path
from hvil.experiments.experiment import Experiment
from hvil.gate.engine.local import run_jobs
from hvil.gate.engine.ray import ray_engine
from hvil.experiments.engine import sweep

table = Experiment("killed", "", {{"p": "bubblesort"}}, {{"m": {{"clip": 0.4}}}}, (3,), runs={CELLS})
engine = ray_engine(sys.argv[2]) if len(sys.argv) > 2 else run_jobs
sweep.sweep(list(table.cells().values()), Path(sys.argv[1]), 2, work="sweep_work:work", engine=engine)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[tuple[list[str], dict[str, str], list[int]]]:
    log = tmp_path_factory.mktemp("log") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWEEP_LOG", str(log))
        with ray_cluster(tmp_path_factory.mktemp("ray")) as (address, settings, processes):
            yield [address], settings, processes


@pytest.fixture(params=["local", "ray"])
def engine(request, tmp_path):
    """Arguments of the driver, its environment, and the processes below which workers are besides the driver."""
    if request.param == "ray":
        return request.getfixturevalue("cluster")
    return [], environment(SWEEP_LOG=str(tmp_path / "log")), []


def start(out: Path, engine) -> subprocess.Popen[bytes]:
    arguments, settings, _ = engine
    return subprocess.Popen([sys.executable, "-c", DRIVER, str(out), *arguments], env=settings)


def records(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in out.glob("cells/[!.]*.json")}


def workers(processes: list[int]) -> list[int]:
    """Those that have a cell, or could have."""
    names = ("ray::run_task", "hvil.gate.engine.worker")
    return [process for process, command in descendants(processes).items() if any(name in command for name in names)]


def check(out: Path, before: dict[str, int]) -> None:
    after = records(out)
    assert len(after) == CELLS
    assert {json.loads((out / "cells" / name).read_text())["error"] for name in after} == {i / 10 for i in range(CELLS)}
    assert all(after[name] == then for name, then in before.items()), "a finished cell was run again"


@pytest.mark.slow
def test_a_killed_driver_loses_and_doubles_nothing(tmp_path, engine):
    driver = start(tmp_path, engine)
    wait_for(lambda: len(records(tmp_path)) >= 4)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    before = records(tmp_path)
    assert 4 <= len(before) < CELLS, "killed too late to tell"
    assert start(tmp_path, engine).wait(timeout=300) == 0
    check(tmp_path, before)


@pytest.mark.slow
def test_a_killed_worker_loses_and_doubles_nothing(tmp_path, engine):
    driver = start(tmp_path, engine)
    wait_for(lambda: len(records(tmp_path)) >= 4)
    before = records(tmp_path)
    assert len(before) < CELLS, "killed too late to tell"
    killed = workers([driver.pid, *engine[2]])
    assert killed, "no worker found"
    os.kill(killed[0], signal.SIGKILL)
    assert driver.wait(timeout=300) == 0
    check(tmp_path, before)
    assert start(tmp_path, engine).wait(timeout=300) == 0
    check(tmp_path, records(tmp_path))
