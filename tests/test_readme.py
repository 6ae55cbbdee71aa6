"""The README keeps its promises: its five lines run as they are printed, and its program is one."""

import ast
import re
from pathlib import Path

import pandas as pd
import pytest

import hvil
from hvil.training import own_data

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def rows() -> list[dict[str, object]]:
    """A lift that goes up to a floor and opens."""
    found: list[dict[str, object]] = []
    for trace in range(20):
        floor = 1 + trace % 4
        actions = ["up"] * floor + ["open", None]
        for step, action in enumerate(actions):
            at = min(step, floor)
            seen = {"observation.below": float(at < floor), "observation.door": float(step > floor)}
            found.append({"trace": trace, "step": step, "action": action, **seen})
    return found


def test_the_five_lines_run_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(own_data, "OWN_UPDATES", 20)
    pd.DataFrame(rows()).to_parquet("my_traces.parquet")
    names: dict[str, object] = {}
    exec(BLOCKS[0], names)
    printed = capsys.readouterr().out
    assert "error" in printed
    assert "def " in printed
    assert names["action"] in (0, 1, 2)
    assert isinstance(names["run"], hvil.Run)


def test_its_program_is_a_program() -> None:
    functions = {node.name for node in ast.parse(BLOCKS[1]).body if isinstance(node, ast.FunctionDef)}
    assert functions == {"bubble_sort", "bubble", "bstep", "reset", "lshift"}


def test_its_table_is_short() -> None:
    table = re.findall(r"^\|.*\|$", README, re.MULTILINE)
    assert len(table) <= 2 + 8
