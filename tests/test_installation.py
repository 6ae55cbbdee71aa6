"""What a stranger meets first: the wheel, the tour, the check-up, the shell's completion."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hvil.cli import main as command_line
from hvil.cli.commands import demo, doctor
from hvil.cli.main import COMMANDS, command_parser, main

HOME = Path(__file__).parent.parent


def test_the_wheel_has_every_file_of_the_package(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=HOME, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    package = HOME / "src" / "hvil"
    files = {path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {f"hvil/{path.relative_to(package).as_posix()}" for path in files} <= set(zipfile.ZipFile(wheel).namelist())


def test_the_tour_consists_of_commands_that_one_could_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed: list[list[str]] = []

    def type_in(arguments: list[str]) -> int:
        command_parser([arguments[0]]).parse_args(arguments)  # a flag that does not exist would end the test
        typed.append(arguments)
        print('{"error": 0.5}')
        return 0

    monkeypatch.setattr(command_line, "main", type_in)
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["lstm"] == {"error": 0.5}
    assert [arguments[0] for arguments in typed] == ["fit", "fit", "fit", "explain", "report"]
    assert [arguments[:-1] for arguments in typed] == [command for _, _, command in demo.steps("demo")]


def test_the_tour_stops_where_a_command_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_line, "main", lambda arguments: 2)
    assert main(["demo", "--out", str(tmp_path / "tour")]) == 1
    assert "the step `hvil fit karel:F" in capsys.readouterr().err
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err


class TestDoctor:
    def test_it_finds_this_installation_well(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["doctor", "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert result["failures"] == []
        assert {"hvil", "Python", "torch", "cache", "device", "threads", "browser"} <= result["checks"].keys()
        assert all(not check["remedy"] for name, check in result["checks"].items() if not name.startswith("extra"))

    def test_an_unwritable_cache_is_a_failure_with_a_remedy(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
        monkeypatch.setenv("COLUMNS", "200")
        assert main(["doctor"]) == 1
        captured = capsys.readouterr()
        assert "set XDG_CACHE_HOME" in captured.out
        assert captured.err == "hvil doctor: error: 1 of the checks failed; the table says what to do\n"

    def test_a_missing_browser_and_a_missing_extra_are_no_failures(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        known = doctor._version
        monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
        monkeypatch.setattr(doctor, "_version", lambda name: None if name == "ray" else known(name))
        assert main(["doctor", "--json"]) == 0
        checks = json.loads(capsys.readouterr().out)["checks"]
        assert "copy report.html" in checks["browser"]["remedy"]
        assert checks["extra ray"] == {"found": "not installed", "remedy": "if you need it: pip install 'hvil[ray]'"}

    def test_a_library_that_is_too_old_is_a_failure(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        known = doctor._version
        monkeypatch.setattr(doctor, "_version", lambda name: "0.0.1" if name == "numba" else known(name))
        assert main(["doctor", "--json"]) == 1
        result = json.loads(capsys.readouterr().out)
        assert result["failures"] == ["numba"]
        assert result["checks"]["numba"]["remedy"].startswith("pip install 'numba>=")


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in script] == []
    assert "entropy" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_bash_completes_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    ask = 'COMP_WORDS=(hvil fit --call-g); COMP_CWORD=2; _shtab_hvil; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", f"{script}\n{ask}"], text=True, capture_output=True, check=True)
    assert done.stdout.split() == ["--call-graph"]
