"""Every code block of the tutorial runs, in order, in one directory; training is shortened."""

import re
from pathlib import Path

import pytest

from hvil.cli.main import main

PAGE = (Path(__file__).parent.parent / "docs" / "own_data.md").read_text(encoding="utf-8")
SHORT = ["--updates", "8", "--hidden", "8", "--context", "4"]
SHORT_BASELINES = ["--units", "8"]
"""Refused where no baselines are trained."""


def test_every_block_of_the_tutorial_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"```(python|console)\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= 6
    for language, block in blocks:
        if language == "python":
            exec(block, names)
            continue
        for line in block.splitlines():
            arguments = line.removeprefix("$ hvil ").split()
            if arguments[0] == "fit":
                arguments += SHORT if "--no-baselines" in arguments else [*SHORT, *SHORT_BASELINES]
            code = main(arguments)
            assert code == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    assert "standardised" in out
    chosen = re.findall(r"```\n(traces: .*?)at most", PAGE, re.DOTALL)
    assert len(chosen) == 1
    assert chosen[0] in out, "what the page shows of a fit's output"
    assert "100% of steps annotated" in out


BROKEN = {
    "not what it claims": ("a.parquet", b"PAR1 nonsense", "not a Parquet file"),
    "cut off": ("a.npz", b"PK\x03\x04", "not an .npz file, or truncated"),
    "a column is missing": ("a.csv", b"trace,observation.x\n0,1\n0,2\n", "name it with --action-column"),
    "not finite": ("a.csv", b"trace,action,observation.x\n0,1,1\n0,,inf\n", "a value that is not finite"),
    "no action": (
        "a.csv",
        b"trace,action,observation.x\n0,,1\n0,1,1\n0,,2\n",
        "no action in the column 'action', and it is not",
    ),
}


@pytest.mark.parametrize("problem", BROKEN)
def test_inspect_names_the_problem_of_a_broken_file(
    problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, data, message = BROKEN[problem]
    (tmp_path / name).write_bytes(data)
    assert main(["inspect", str(tmp_path / name)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
