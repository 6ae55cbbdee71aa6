"""A run that is killed again and again ends with the same bits as one that is not."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

KILLS = 20
RUN = "--demos 12 --test-traces 10 --batch-size 5 --updates 100 --checkpoint-every 6 --evaluate-every 25"
SMALL = {
    "hvil": "--hidden 8 --context 4 --call-graph tree:2x2 --average 0.9 --clip 10 --restarts 1 --exact-start 10",
    "feedforward": "--units 8",
}


def lines_without_time(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("model", list(SMALL))
def test_twenty_kills_at_random_moments_leave_no_trace_in_the_weights(tmp_path: Path, model: str) -> None:
    script = Path(__file__).parent / "helpers" / "kill_and_resume.py"
    source = Path(__file__).parents[1] / "src"
    arguments = ["karel:A", "--model", model, *RUN.split(), *SMALL[model].split()]
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(KILLS), *arguments],
        env=os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > KILLS // 2, "most kills must hit a run that is under way"
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    assert (undisturbed / "model.safetensors").read_bytes() == (disturbed / "model.safetensors").read_bytes()
    assert lines_without_time(undisturbed / "metrics.jsonl") == lines_without_time(disturbed / "metrics.jsonl")
    assert sorted(os.listdir(undisturbed)) == sorted(os.listdir(disturbed)), "no leftovers"
    assert sorted(os.listdir(undisturbed / "checkpoint")) == sorted(os.listdir(disturbed / "checkpoint"))
