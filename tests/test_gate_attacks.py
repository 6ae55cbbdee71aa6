"""What a file or a directory from somebody else must not be able to do: delete, overwrite, read elsewhere, run code."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from toy_learner import toy_traces

import hvil
from hvil.cli.main import main
from hvil.data.sources import task_of
from hvil.gate.errors import InputError
from hvil.gate.files import lock, remove_leftovers

SETTINGS = {"model": "feedforward", "units": 4, "updates": 2}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run whose traces are in it."""
    path = tmp_path_factory.mktemp("runs") / "run"
    hvil.fit(toy_traces(6), "tree:2x2", out=path, **SETTINGS)
    return path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of it to spoil."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A directory of the user's, with hidden directories and a file."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".00000001.part").mkdir()
    (home / ".ssh" / "id").write_text("secret")
    (home / "thesis.txt").write_text("years of work")
    return home


def contents(directory: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(directory)): p.read_bytes() if p.is_file() else None for p in directory.rglob("*")}


def resume(run: Path) -> None:
    hvil.fit(toy_traces(6), "tree:2x2", out=run, resume=True, **(SETTINGS | {"updates": 4}))


class TestDirectories:
    def test_links_in_a_run_directory_are_refused_before_anything_happens(self, run: Path, precious: Path) -> None:
        shutil.rmtree(run / "checkpoint")
        (run / "checkpoint").symlink_to(precious)
        before = contents(precious)
        for use in (resume, hvil.load):
            with pytest.raises(InputError, match="is a link"):
                use(run)
        assert contents(precious) == before

    @pytest.mark.parametrize("name", [".lock", "config.json", "metrics.jsonl", "source.json", "tensorboard", "evil"])
    def test_no_file_of_a_run_may_be_a_link(self, run: Path, precious: Path, name: str) -> None:
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(precious / "thesis.txt")
        with pytest.raises(InputError, match=r"is a link|is not a regular file"):
            resume(run)
        assert (precious / "thesis.txt").read_text() == "years of work"

    def test_pipes_in_a_run_directory_do_not_block(self, run: Path) -> None:
        os.mkfifo(run / "evaluation.json")
        with pytest.raises(InputError, match="not a regular file"):
            hvil.load(run)

    def test_only_own_names_are_deleted(self, run: Path) -> None:
        others = [run / ".thesis.part", run / "checkpoint" / ".config", run / "checkpoint" / ".abcdefgh.part"]
        (run / ".model.x.abcd1234.part").write_text("half")
        others[0].write_text("mine")
        for other in others[1:]:
            other.mkdir()
        resume(run)
        assert all(other.exists() for other in others)
        assert not (run / ".model.x.abcd1234.part").exists()

    def test_leftovers_are_files(self, tmp_path: Path) -> None:
        (tmp_path / ".name.abcd1234.part").mkdir()
        remove_leftovers(tmp_path)
        assert (tmp_path / ".name.abcd1234.part").is_dir()

    def test_a_lock_is_not_opened_through_a_link(self, tmp_path: Path, precious: Path) -> None:
        (tmp_path / ".lock").symlink_to(precious / "thesis.txt")
        with pytest.raises(InputError, match="not a regular file"), lock(tmp_path / ".lock"):
            pytest.fail("locked")
        assert (precious / "thesis.txt").read_text() == "years of work"

    def test_a_sweep_takes_no_lock_through_a_link(self, tmp_path: Path, precious: Path) -> None:
        out = tmp_path / "sweep"
        out.mkdir()
        (out / ".lock").symlink_to(precious / "thesis.txt")
        assert main(["compare", "bubblesort", "--demos", "2", "--runs", "1", "--out", str(out)]) == 2
        assert (precious / "thesis.txt").read_text() == "years of work"


class TestCheckpoints:
    def spoil(self, run: Path, change: dict[str, torch.Tensor]) -> None:
        """Change tensors of the newest checkpoint, and its digest too, as an attacker would."""
        newest = max((run / "checkpoint").iterdir())
        tensors = load_file(newest / "state.safetensors") | change
        save_file(tensors, newest / "state.safetensors")
        state = json.loads((newest / "state.json").read_text())
        data = (newest / "state.safetensors").read_bytes()
        state["digest"] = hashlib.blake2b(data, digest_size=16).hexdigest()
        (newest / "state.json").write_text(json.dumps(state))

    @pytest.mark.parametrize("shape", [(1,), (100_000,)])
    def test_moments_of_another_shape_do_not_reach_the_kernel(self, run: Path, shape: tuple[int, ...]) -> None:
        self.spoil(run, {"adam.0.exp_avg": torch.zeros(shape)})
        with pytest.raises(InputError, match=r"adam\.0\.exp_avg differs in shape or type"):
            resume(run)

    def test_moments_of_another_type_and_unknown_tensors_are_refused(self, run: Path) -> None:
        newest = max((run / "checkpoint").iterdir())
        moment = load_file(newest / "state.safetensors")["adam.0.exp_avg"]
        for change in ({"adam.0.exp_avg": moment.double()}, {"adam.99.step": torch.zeros(())}):
            self.spoil(run, change)
            with pytest.raises(InputError, match="differs in shape or type, or should not be there"):
                resume(run)

    @pytest.mark.parametrize(
        ("name", "value"),
        [("position", 10**400), ("position", -1), ("seconds", "NaN"), ("counted", -3), ("sums", [1]), ("best", [1])],
    )
    def test_odd_facts_are_refused(self, run: Path, name: str, value: object) -> None:
        newest = max((run / "checkpoint").iterdir())
        state = json.loads((newest / "state.json").read_text())
        state["facts"][name] = value
        (newest / "state.json").write_text(json.dumps(state))
        with pytest.raises(InputError):
            resume(run)

    def test_weights_that_become_infinite_are_refused(self, run: Path) -> None:
        tensors = load_file(run / "model.safetensors")
        name = next(iter(tensors))
        tensors[name] = torch.full(tensors[name].shape, 1e300, dtype=torch.float64)
        save_file(tensors, run / "model.safetensors", {"hvil": '{"updates": 2}'})
        with pytest.raises(InputError, match="not finite"):
            hvil.load(run)


class TestOtherPlaces:
    def test_the_name_of_an_experiment_is_no_path(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        given = tmp_path / "a" / "b" / "given"
        shutil.copytree(Path(__file__).parents[1] / "results" / "version-0.1" / "karel-data", given)
        head = json.loads((given / "experiment.json").read_text())
        for name in ("../../escaped", str(tmp_path / "escaped"), ""):
            head["experiment"]["name"] = name
            (given / "experiment.json").write_text(json.dumps(head))
            assert main(["reproduce", "--from-records", str(given)]) == 2
            assert "cannot be a file's" in capsys.readouterr().err
        assert not list(tmp_path.glob("**/escaped*"))

    def test_the_task_of_a_trace_file_names_no_file_elsewhere(self, tmp_path: Path) -> None:
        program = tmp_path / "elsewhere" / "mine.karel"
        program.parent.mkdir()
        program.write_text("def run() { move(); }")
        inside = tmp_path / "data"
        inside.mkdir()
        shutil.copy(program, inside)
        (inside / "link.karel").symlink_to(program)
        assert task_of(f"karel:{inside}/mine.karel", inside) is not None
        assert task_of(f"karel:{program}", inside) is None
        assert task_of(f"karel:{inside}/link.karel", inside) is None
        assert task_of(f"karel:{inside}/../elsewhere/mine.karel", inside) is None
        assert task_of("karel:/dev/zero", inside) is None
        assert task_of("karel:A", inside) is not None

    def test_the_task_of_a_trace_file_starts_no_download(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            pytest.fail("something was fetched")

        monkeypatch.delenv("HVIL_MNIST", raising=False)
        monkeypatch.setattr("urllib.request.urlopen", refuse)
        assert task_of("mnist-parity:0.7,full") is None
        assert task_of("mnist-parity:0.7") is not None

    def test_a_run_of_mine_finds_its_source_and_a_strangers_asks(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        table = tmp_path / "private.csv"
        rows = [f"{t},{s},{'go' if s < 3 else ''},{s}" for t in range(8) for s in range(4)]
        table.write_text("\n".join(["trace,step,action,observation.x", *rows]) + "\n")
        monkeypatch.chdir(tmp_path)
        hvil.fit("private.csv", "tree:2x1", out=tmp_path / "mine", **SETTINGS)
        monkeypatch.chdir("/")  # a signed note has the whole path
        assert len(hvil.load(tmp_path / "mine").data.training) > 0
        assert main(["evaluate", str(tmp_path / "mine")]) == 0
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "somebody else"))
        capsys.readouterr()
        for command in ("evaluate", "report"):
            assert main([command, str(tmp_path / "mine")]) == 2
            assert "name them: --source private.csv" in capsys.readouterr().err
        assert not hvil.load(tmp_path / "mine").knows_data
        assert main(["evaluate", str(tmp_path / "mine"), "--source", "private.csv"]) == 0

    def test_a_forged_note_does_not_count(self, run: Path, tmp_path: Path) -> None:
        table = tmp_path / "private.csv"
        table.write_text("trace,step,action,observation.x\n0,0,go,1\n0,1,,2\n")
        config = json.loads((run / "config.json").read_text())
        config["data"]["source"] = str(table)
        (run / "config.json").write_text(json.dumps(config))
        note = {"source": str(table), "path": str(table), "signature": "0" * 64}
        (run / "source.json").write_text(json.dumps(note))
        with pytest.raises(InputError, match="the traces of this run are elsewhere"):
            _ = hvil.load(run).data

    def test_a_toml_experiment_names_nothing_outside_its_directory(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        outside = tmp_path / "outside.karel"
        outside.write_text("def run() { move(); }")
        (tmp_path / "given").mkdir()
        table = tmp_path / "given" / "table.toml"
        table.write_text(f'sizes = [2]\n[panels]\na = "karel:{outside}"\n[models.lstm]\nmodel = "lstm"\n')
        assert main(["reproduce", str(table), "--out", str(tmp_path / "out")]) == 2
        assert "lies outside" in capsys.readouterr().err
        table.write_text('sizes = [2]\n[panels]\na = "karel:/dev/zero"\n[models.lstm]\nmodel = "lstm"\n')
        assert main(["reproduce", str(table), "--out", str(tmp_path / "out")]) == 2
        assert not (tmp_path / "out").exists()

    def test_a_python_experiment_runs_only_if_it_is_trusted(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "experiment.py"
        path.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
        assert main(["reproduce", str(path)]) == 2
        assert "--trust" in capsys.readouterr().err
        assert not (tmp_path / "ran").exists()
        assert main(["reproduce", str(path), "--trust"]) == 2  # it holds no experiment, but it ran
        assert (tmp_path / "ran").exists()

    def test_hdf5_that_points_elsewhere_is_refused(self, tmp_path: Path) -> None:
        h5py = pytest.importorskip("h5py")
        from hvil.gate.hdf5 import check_hdf5

        secret = tmp_path / "secret"
        secret.write_bytes(b"x" * 64)
        with h5py.File(tmp_path / "other.h5", "w") as file:
            file["x"] = np.zeros(8)
        kinds = {
            "external": lambda f: f.create_dataset("x", (8,), "f8", external=[(str(secret), 0, 64)]),
            "link": lambda f: f.__setitem__("x", h5py.ExternalLink(str(tmp_path / "other.h5"), "/x")),
            "soft": lambda f: f.__setitem__("x", h5py.SoftLink("/x")),
            "large": lambda f: f.create_dataset("x", (1 << 40,), "f8", chunks=(1024,), compression="gzip"),
        }
        layout = h5py.VirtualLayout((8,), "f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (8,))
        kinds["virtual"] = lambda f: f.create_virtual_dataset("x", layout)
        for kind, make in kinds.items():
            with h5py.File(tmp_path / f"{kind}.h5", "w") as file:
                make(file)
            with pytest.raises(InputError, match=r"link|another file|of memory"):
                check_hdf5(tmp_path / f"{kind}.h5")
        check_hdf5(tmp_path / "other.h5")
