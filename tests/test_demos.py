"""`hvil demos`: the same seed gives the same file, and every form of file loads back to equal traces."""

import json
from pathlib import Path

import pytest

from hvil.cli.main import main
from hvil.data.tasks import find_task
from hvil.data.trace_files import load

TASKS = ["bubblesort", "bubblesort:no-length,2-5", "mnist-parity:0.7", "karel:F", "thereandback", "treewalk:7-30"]


@pytest.mark.parametrize("spec", TASKS)
@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_same_seed_same_bytes_and_equal_traces(spec: str, ending: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.{ending}" for name in ("one", "two", "other")]
    for path, seed in zip(paths, (7, 7, 8), strict=True):
        assert main(["demos", spec, "--count", "20", "--seed", str(seed), "--out", str(path)]) == 0
    one, two, other = (path.read_bytes() for path in paths)
    assert one == two
    assert one != other
    assert load(paths[0]) == find_task(spec).demonstrations(20, seed=7)


def test_minari_loads_back_to_equal_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    assert main(["demos", "bubblesort", "--count", "5", "--out", "minari:hvil/sorted-v0"]) == 0
    assert load("minari:hvil/sorted-v0") == find_task("bubblesort").demonstrations(5, seed=0)


def test_test_traces_are_others(tmp_path: Path) -> None:
    path = tmp_path / "test.npz"
    assert main(["demos", "mnist-parity:0.6", "--count", "30", "--test", "--out", str(path)]) == 0
    assert load(path) == find_task("mnist-parity:0.6").test_demonstrations(30, seed=0)


def test_json_says_what_was_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "a.npz")
    assert main(["demos", "bubblesort", "--count", "3", "--seed", "1", "--out", path, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    traces = load(path)
    assert said["mean_actions"] == pytest.approx(traces.lengths.mean())
    assert (said["count"], said["seed"], said["task"], said["out"]) == (3, 1, "bubblesort", path)
    assert said["actions"] == len(traces.actions)
    assert said["annotated"] is True


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["bubblesrt", "--out", "a.npz"], "valid tasks: bubblesort"),
        (["bubblesort:1-1", "--out", "a.npz"], "at least 2"),
        (["bubblesort", "--out", "a.csv"], "end in .npz or .parquet"),
        (["bubblesort", "--out", "nowhere/a.npz"], "does not exist"),
        (["bubblesort", "--out", "minari:x"], "minari:hvil/bubblesort-v0"),
        (["bubblesort", "--count", "0", "--out", "a.npz"], "at least 1"),
        (["bubblesort", "--seed", "-1", "--out", "a.npz"], "seed -1"),
        (["bubblesort", "--count", "many", "--out", "a.npz"], "invalid int"),
        (["bubblesort"], "--out"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    assert main(["demos", *arguments]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("*.npz"))


def test_a_damaged_full_mnist_file_is_one_line_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"\x00\x00\x08\x03 not MNIST")
    monkeypatch.setenv("HVIL_MNIST", str(tmp_path))
    assert main(["demos", "mnist-parity:0.7", "--out", str(tmp_path / "a.npz")]) == 2
    error = capsys.readouterr().err
    assert "train-images-idx3-ubyte: damaged or not MNIST" in error
    assert error.count("\n") == 1
