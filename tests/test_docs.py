"""The examples in the documentation run, and say what they print."""

import re
from pathlib import Path

import pandas as pd
import pytest
from scripts import claims_table

from hvil.cli.main import main
from hvil.machine.callgraph import call_graph

PAGE = (Path(__file__).parent.parent / "docs" / "traces.md").read_text(encoding="utf-8")


def test_the_python_examples_of_the_page_on_traces_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    log = {"flight": [1, 1], "t": [0, 1], "lever": ["go", None], "height": [1.0, 2.0], "speed": [0, 1]}
    pd.DataFrame(log).to_parquet("log.parquet")
    names: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(example, names)
    assert capsys.readouterr().out.splitlines() == [
        "Traces(2 traces, 1–2 actions (mean 1.5), 2 kinds of action, observations (1,) float32)",
        "LengthStatistics(shortest=1, mean=1.5, median=1.5, longest=2)",
    ]


def test_the_commands_of_the_page_on_traces_print_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    shown = re.findall(r"^\$ hvil (.*)\n((?:(?!\$|```).*\n)+)", PAGE, re.MULTILINE)
    assert len(shown) == 2
    for command, output in shown:
        assert main(command.split()) == 0
        assert capsys.readouterr().out == output


def test_the_call_graph_file_of_the_page_on_traces_is_one(tmp_path: Path) -> None:
    (file,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "graph.json").write_text(file)
    assert call_graph(str(tmp_path / "graph.json"), ("move", "turnLeft")).max_depth == 4


def test_the_tables_on_the_page_of_claims_are_those_of_the_records() -> None:
    text = claims_table.PAGE.read_text(encoding="utf-8")
    assert claims_table.page(text) == text, "run scripts/claims_table.py"
    assert "**reproduced**" in claims_table.verdicts("acausal")
    for name in claims_table.ERRORS:
        assert f"<!-- errors of {name} -->\n\n{claims_table.errors(name)}\n" in text
