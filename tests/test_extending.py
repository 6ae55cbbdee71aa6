"""The recipes of docs/extending.md, installed as a package of their own, work from the command line and from Python."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]
PAGE = (HOME / "docs" / "extending.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the page's Python as `my_hvil.py`, and the entry points that its TOML declares."""
    directory = tmp_path_factory.mktemp("site")
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (directory / "my_hvil.py").write_text("\n\n".join(blocks), encoding="utf-8")
    (toml,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    groups = tomllib.loads(toml)["project"]["entry-points"]
    facts = directory / "my_hvil-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: my_hvil\nVersion: 1.0\n", encoding="utf-8")
    lines = [f"[{group}]\n" + "".join(f"{n} = {v}\n" for n, v in names.items()) for group, names in groups.items()]
    (facts / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    return directory


def run(installed: Path, *words: str) -> dict[str, object]:
    paths = os.pathsep.join([str(installed), str(HOME / "src")])
    done = subprocess.run(
        [sys.executable, "-m", "hvil", *words, "--json"],
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        cwd=installed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.slow
def test_the_recipes_work_from_the_command_line(installed: Path) -> None:
    learned = run(installed, "fit", "corridor", "--model", "bigram", "--smoothing", "0.001", "--out", "bigram")
    assert learned["error"] is not None
    assert run(installed, "evaluate", "bigram")["rollout_success"] is not None
    run(installed, "fit", "corridor", "--estimator", "centred", "--out", "centred")
    run(installed, "fit", "corridor", "--network", "waves", "--updates", "3", "--out", "waves")
    assert run(installed, "report", "centred", "--episodes", "2")["episodes"] == 2


def test_an_unknown_name_is_refused_with_all_names(installed: Path) -> None:
    paths = os.pathsep.join([str(installed), str(HOME / "src")])
    done = subprocess.run(
        [sys.executable, "-m", "hvil", "fit", "corridor", "--model", "trigram"],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "expected hvil, exact, lstm, feedforward, stackrnn, bigram" in done.stderr
