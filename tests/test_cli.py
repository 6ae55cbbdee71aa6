"""The command line: help, exit codes, one line an error, JSON for machines."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_traces import two_traces

import hvil
from hvil.cli.main import COMMANDS, main
from hvil.data.trace_files import save

GOOD: dict[str, Any] = {
    "observations": np.zeros((6, 1)),
    "actions": np.array([0, 1, 1, 0]),
    "offsets": np.array([0, 3, 4]),
}


class Result:
    """What a call of the command line gave."""

    def __init__(self, code: int, captured: Any) -> None:
        self.code, self.out, self.err = code, captured.out, captured.err


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: Result(main(arguments), capsys.readouterr())


class TestHelp:
    def test_version(self, cli: Any) -> None:
        result = cli("--version")
        assert (result.code, result.out) == (0, f"hvil {hvil.__version__}\n")

    def test_the_commands_are_listed(self, cli: Any) -> None:
        result = cli("--help")
        assert result.code == 0
        for name, summary in COMMANDS.items():
            assert name in result.out
            assert summary.split()[0] in result.out

    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_has_help_with_examples(self, cli: Any, command: str) -> None:
        result = cli(command, "--help")
        assert result.code == 0
        assert "--json" in result.out
        for example in import_module(f"hvil.cli.commands.{command.replace('-', '_')}").EXAMPLES:
            assert f"  {example}\n" in result.out
            assert example.startswith(f"hvil {command}")

    def test_it_starts_without_the_heavy_libraries(self) -> None:
        code = "import sys; from hvil.cli.main import main; main(['graph', 'tree:2x2']); print(sorted(sys.modules))"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for heavy in ("torch", "pyarrow", "pandas", "matplotlib", "gymnasium", "numba"):
            assert f"'{heavy}'" not in run.stdout

    def test_python_m_hvil_is_the_command(self) -> None:
        run = subprocess.run(
            [sys.executable, "-m", "hvil", "graph", "tre:2"], capture_output=True, text=True, check=False
        )
        assert (run.returncode, run.stdout) == (2, "")
        assert run.stderr.startswith("hvil graph: error: call graph 'tre:2' is not known")


@pytest.mark.parametrize(
    "arguments", [(), ("grph",), ("graph",), ("graph", "tree:2x2", "--dto"), ("demos", "--count", "x")]
)
def test_wrong_usage_is_one_line_and_exit_code_2(cli: Any, arguments: tuple[str, ...]) -> None:
    result = cli(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert "error:" in result.err
    assert "--help" in result.err


class TestGraph:
    def test_text_dot_and_json(self, cli: Any) -> None:
        assert cli("graph", "binary:2").out == "root\n`-- p1\n"
        assert cli("graph", "binary:2", "--dot").out.startswith("digraph call_graph {\n")
        shown = json.loads(cli("graph", "binary:2", "--json").out)
        assert shown == {"root": "root", "max_depth": 2, "procedures": {"root": {"calls": ["p1"]}, "p1": {"calls": []}}}

    def test_what_json_prints_is_a_call_graph_file(self, cli: Any, tmp_path: Path) -> None:
        graph = {"root": "r", "max_depth": 1, "procedures": {"r": {"calls": [], "actions": ["left"]}}}
        (tmp_path / "mine.json").write_text(json.dumps(graph))
        assert json.loads(cli("graph", "mine.json", "--actions", "left,right", "--json").out) == graph
        assert cli("graph", "mine.json").out == "r\n"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("tree:5", "--json"), "call graph 'tree:5' is not known; expected tree:KxD"),
            (("nothing.json",), "nothing.json: no such file"),
            (("broken.json",), "broken.json: not JSON (line 1, column 2"),
            (("callee.json",), "callee.json: procedure 'main' calls 'sbu', an unknown procedure; there are main, sub"),
            (("tree:2x2", "--actions", ","), "call graph: there are no actions"),
        ],
    )
    def test_bad_input(self, cli: Any, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
        (tmp_path / "broken.json").write_text("{")
        (tmp_path / "callee.json").write_text('{"procedures": {"main": {"calls": ["sbu"]}, "sub": {}}}')
        result = cli("graph", *arguments)
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith(f"hvil graph: error: {message}")
        assert result.err.count("\n") == 1


BAD_TRACES: dict[str, tuple[dict[str, Any], str]] = {
    "empty trace": ({"offsets": [0, 4, 4]}, "trace 1 is empty"),
    "action out of range": ({"action_names": ["a"]}, "trace 0, step 1: action 1 is out of range, expected 0..0"),
    "not a number": ({"observations": np.full((6, 1), np.nan)}, "trace 0, step 0: the observation has a value"),
    "offsets that do not fit": ({"offsets": [0, 3, 5]}, "offsets do not fit: they run from 0 to 5, expected 0 to 4"),
}


class TestBadTraces:
    """Whatever is wrong with the data: exit code 2, one line that names the file, and no run directory."""

    def refused(self, cli: Any, tmp_path: Path, *arguments: str) -> str:
        before = sorted(tmp_path.rglob("*"))
        result = cli("fit", *arguments, "--out", "run", "--updates", "1")
        assert (result.code, result.out) == (2, "")
        assert result.err.count("\n") == 1
        assert sorted(tmp_path.rglob("*")) == before
        return str(result.err)

    @pytest.mark.usefixtures("no_type_checks")
    @pytest.mark.parametrize(("changed", "message"), BAD_TRACES.values(), ids=BAD_TRACES)
    def test_wrong_arrays(self, cli: Any, tmp_path: Path, changed: dict[str, Any], message: str) -> None:
        np.savez(tmp_path / "traces.npz", **GOOD | changed)
        assert f"hvil fit: error: traces.npz: {message}" in self.refused(cli, tmp_path, "traces.npz")

    @pytest.mark.parametrize("form", ["npz", "parquet"])
    def test_truncated_and_foreign_files(self, cli: Any, tmp_path: Path, form: str) -> None:
        path = tmp_path / f"traces.{form}"
        save(two_traces(), path)
        path.write_bytes(path.read_bytes()[:-20])
        assert f"hvil fit: error: traces.{form}: not a" in self.refused(cli, tmp_path, path.name)
        path.write_text("trace,step\n0,0\n")
        assert f"hvil fit: error: traces.{form}: not a" in self.refused(cli, tmp_path, path.name)
        assert "nothing.npz: no such file" in self.refused(cli, tmp_path, "nothing.npz")

    def test_a_call_graph_that_does_not_fit(self, cli: Any, tmp_path: Path) -> None:
        save(two_traces(), tmp_path / "traces.npz")
        (tmp_path / "graph.json").write_text('{"procedures": {"main": {"actions": ["left"]}}}')
        message = self.refused(cli, tmp_path, "traces.npz", "--call-graph", "graph.json")
        assert "no path from the root 'main' of the call graph can emit 'right'" in message
        (tmp_path / "graph.json").write_text('{"root": "man", "procedures": {"main": {}}}')
        message = self.refused(cli, tmp_path, "traces.npz", "--call-graph", "graph.json")
        assert "graph.json: the root 'man' is not among the procedures main" in message
        assert "'tre:5x2' is not known" in self.refused(cli, tmp_path, "traces.npz", "--call-graph", "tre:5x2")

    def test_demonstrations_that_cannot_be_written_leave_nothing(self, cli: Any, tmp_path: Path) -> None:
        for out in ("nowhere/file.npz", "file.csv", "."):
            result = cli("demos", "bubblesort", "--count", "2", "--out", out)
            assert (result.code, result.err.count("\n")) == (2, 1)
        assert list(tmp_path.iterdir()) == []


class TestFailure:
    """Commands that do not end well, by a command made for the purpose."""

    @pytest.fixture
    def failing(self, cli: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
        def call(error: BaseException) -> Result:
            def run(_: Any) -> dict[str, Any]:
                raise error

            monkeypatch.setattr("hvil.cli.commands.graph.run", run)
            return cli("graph", "tree:2x2")

        return call

    def test_a_full_disk_is_exit_code_1(self, failing: Any) -> None:
        result = failing(OSError(28, "No space left on device"))
        assert (result.code, result.err) == (1, "hvil graph: error: [Errno 28] No space left on device\n")

    def test_an_interrupt_is_said(self, failing: Any) -> None:
        result = failing(KeyboardInterrupt())
        assert (result.code, result.err) == (130, "hvil graph: error: interrupted\n")

    def test_a_message_of_several_lines_becomes_one(self, failing: Any) -> None:
        assert failing(hvil.InputError("one\n  two")).err == "hvil graph: error: one two\n"

    def test_numbers_that_json_lacks_are_null(self, cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            "hvil.cli.commands.graph.run", lambda _: {"a": [float("nan"), 1.5], "b": {"c": float("inf")}}
        )
        assert json.loads(cli("graph", "tree:2x2", "--json").out) == {"a": [None, 1.5], "b": {"c": None}}
