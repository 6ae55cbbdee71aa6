"""Every cell of every notebook runs, in order, in one process and an empty directory; training is shortened."""

import json
import re
from pathlib import Path

import pytest

from hvil.learners import LEARNERS

NOTEBOOKS = sorted((Path(__file__).parent.parent / "docs" / "notebooks").glob("*.ipynb"))
UPDATES = 3
SHORT = {"restarts": 1, "exact_start": 0, "hidden": 8, "context": 4, "units": 8}


def cells(path: Path) -> list[str]:
    """The code of a notebook, with few updates."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    shortened = [re.sub(r"^UPDATES = \d+$", f"UPDATES = {UPDATES}", text, flags=re.MULTILINE) for text in code]
    assert shortened != code, "a notebook says how many updates it makes"
    return shortened


def test_there_are_four() -> None:
    assert len(NOTEBOOKS) >= 4


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hvil.training import fit as fit_module
    from hvil.training.run import Run

    prepare, explain = fit_module.prepare, Run.explain

    def short(source: object, given: dict[str, object], *arguments: object, **options: object) -> object:
        from hvil.gate.settings import setting_names
        from hvil.learners.settings import TrainingSettings

        names = setting_names(LEARNERS[given.get("model", "hvil")], TrainingSettings)
        return prepare(
            source,
            {**{name: value for name, value in SHORT.items() if name in names}, **given},
            *arguments,
            **options,
        )

    monkeypatch.setattr(fit_module, "prepare", short)
    monkeypatch.setattr(Run, "explain", lambda run, **options: explain(run, **{"episodes": 30, "fresh": 20, **options}))
    monkeypatch.setattr(LEARNERS, "_registered", dict(LEARNERS._registered))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "notebook"}
    for cell in cells(path):
        exec(cell, names)
