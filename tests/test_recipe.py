"""Recipes: a run writes every setting into one file, and the file gives the same run again."""

from pathlib import Path

import pytest
from small_traces import two_traces

import hvil
from hvil.cli.main import main
from hvil.training.recipe import read_recipe

FIT = ["fit", "thereandback", "--updates", "2", "--restarts", "1", "--hidden", "4", "--context", "4"]
FIT += ["--exact-start", "0", "--test-traces", "10", "--demos", "6", "--seed", "3", "--json"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "first"
    assert main([*FIT, "--out", str(out)]) == 0
    return out


def test_the_recipe_of_a_run_gives_the_same_bits(run: Path, tmp_path: Path) -> None:
    assert main(["fit", "--config", str(run / "run.toml"), "--out", str(tmp_path / "again"), "--json"]) == 0
    for name in ("config.json", "model.safetensors", "run.toml"):
        assert (tmp_path / "again" / name).read_bytes() == (run / name).read_bytes()


def test_a_flag_goes_before_the_recipe(run: Path, tmp_path: Path) -> None:
    arguments = ["fit", "--config", str(run / "run.toml"), "--seed", "4", "--out", str(tmp_path / "other"), "--json"]
    assert main(arguments) == 0
    first, other = hvil.load(run).config, hvil.load(tmp_path / "other").config
    assert (first.training.seed, other.training.seed) == (3, 4)
    assert first.model == other.model


def test_a_recipe_by_hand_may_be_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text('source = "karel:F"\ncall_graph = "chain:2"\nhidden = 7\n')
    assert main(["fit", "--config", str(tmp_path / "mine.toml"), "--plan", "--json"]) == 0
    shown = capsys.readouterr().out
    assert '"hidden": 7' in shown
    assert '"p2"' not in shown


def test_traces_from_python_have_a_recipe_without_a_source(tmp_path: Path) -> None:
    small = {"hidden": 4, "context": 4, "batch_size": 2, "validation": 0, "patience": 0}
    hvil.fit(two_traces(), out=tmp_path / "run", updates=1, **small)
    recipe = read_recipe(tmp_path / "run" / "run.toml")
    assert recipe.source is None
    again = hvil.fit(two_traces(), recipe.call_graph, out=tmp_path / "again", **recipe.settings)
    assert again.config == hvil.load(tmp_path / "run").config


BAD = {
    "not TOML": ("updates = ", "cannot be read as TOML"),
    "an unknown setting": ('source = "karel:F"\nupdate = 3', "unknown setting 'update'"),
    "a wrong value": ('source = "karel:F"\nupdates = "many"', "updates is 'many'; expected a whole number"),
    "no source": ("updates = 3", "no source: name a task or a file, or give --config"),
    "a wrong source": ("source = 3", "source must be text"),
    "a wrong graph": ('source = "karel:F"\ncall_graph = 3', "call_graph must be text or a table"),
}


@pytest.mark.parametrize("problem", BAD)
def test_a_bad_recipe_is_refused_in_one_line(
    problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text, message = BAD[problem]
    Path("run.toml").write_text(text)
    assert main(["fit", "--config", "run.toml"]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not Path("runs").exists()


def test_a_missing_recipe_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--config", "nowhere.toml"]) == 2
    assert capsys.readouterr().err == "hvil fit: error: nowhere.toml: no such file\n"
