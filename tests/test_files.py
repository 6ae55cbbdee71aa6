"""Files: written whole or not at all, read without trust."""

import io
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hvil.gate.errors import InputError
from hvil.gate.files import (
    Locked,
    cache_directory,
    lock,
    read_json,
    read_npz,
    write_atomically,
    write_json,
    write_npz,
    write_text,
)


def npz_with(path: Path, **members: bytes) -> Path:
    """A zip file with these contents under `NAME.npy`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy(array: np.ndarray, **options: bool) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


class TestWriting:
    def test_a_failure_leaves_the_old_file_and_nothing_else(self, tmp_path: Path) -> None:
        target = tmp_path / "file.txt"
        write_text(target, "old")

        def write(temporary: Path) -> None:
            temporary.write_text("half")
            raise RuntimeError

        with pytest.raises(RuntimeError):
            write_atomically(target, write)
        assert target.read_text() == "old"
        assert list(tmp_path.iterdir()) == [target]

    def test_the_new_file_has_the_usual_permissions(self, tmp_path: Path) -> None:
        (tmp_path / "usual").touch()
        write_text(tmp_path / "ours", "text")
        modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "ours")]
        assert modes[0] == modes[1]

    def test_only_regular_files_are_replaced(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="is a directory"):
            write_text(tmp_path, "text")
        with pytest.raises(InputError, match="is not a regular file"):
            write_text(os.devnull, "text")
        with pytest.raises(InputError, match=r"the directory .*nowhere does not exist"):
            write_text(tmp_path / "nowhere" / "file", "text")
        with pytest.raises(InputError, match="cannot write there"):
            write_text(tmp_path / ("x" * 300), "text")

    def test_json_is_readable_and_strict(self, tmp_path: Path) -> None:
        write_json(tmp_path / "file.json", {"b": "é", "a": [1, 2.5, None]})
        assert read_json(tmp_path / "file.json") == {"b": "é", "a": [1, 2.5, None]}
        with pytest.raises(ValueError, match="not JSON compliant"):
            write_json(tmp_path / "nan.json", float("nan"))
        assert not (tmp_path / "nan.json").exists()


class TestPlacesAndLocks:
    def test_the_cache_can_be_moved(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_directory() == tmp_path / "hvil"
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert cache_directory().name == "hvil"

    def test_a_lock_is_held_by_one_at_a_time(self, tmp_path: Path) -> None:
        path = tmp_path / ".lock"
        with lock(path), pytest.raises(Locked, match="another process holds this lock"), lock(path, wait=0):
            pytest.fail("two hold the same lock")
        with lock(path, wait=0):
            pass

    def test_a_killed_process_gives_up_its_lock(self, tmp_path: Path) -> None:
        path = tmp_path / ".lock"
        code = f"import os; from hvil.gate.files import lock\nwith lock({str(path)!r}): os._exit(9)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
        with lock(path, wait=0):
            pass


class TestReadingJson:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"{", r"not JSON \(line 1, column 2"),
            (b"\xff\xfe", "cannot be read as text"),
            (b"[" * 100_000, "nested too deeply"),
            (b"9" * 5000, "a number too long: 5000 digits"),
            (b'{"seed": 1, "seed": 2}', "the key 'seed' stands twice in an object"),
            (b"[NaN]", "NaN is not a number that JSON allows"),
            (b"[-Infinity]", "-Infinity is not a number that JSON allows"),
            (b"[1e999]", "the number 1e999 is too large"),
        ],
    )
    def test_what_is_not_json_is_refused(self, tmp_path: Path, content: bytes, message: str) -> None:
        (tmp_path / "file.json").write_bytes(content)
        with pytest.raises(InputError, match=f"^{tmp_path}/file.json: .*{message}"):
            read_json(tmp_path / "file.json")

    def test_no_file_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such file"):
            read_json(tmp_path / "file.json")
        with pytest.raises(InputError, match="cannot be read"):
            read_json(tmp_path)


class TestArrays:
    def test_arrays_of_every_shape_come_back(self, tmp_path: Path) -> None:
        arrays = {
            "none": np.zeros((0, 3), dtype=np.float32),
            "single": np.array("text"),
            "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
            "strided": np.arange(10)[::3],
        }
        write_npz(tmp_path / "a.npz", arrays)
        found = read_npz(tmp_path / "a.npz")
        assert list(found) == list(arrays)
        for name, array in arrays.items():
            assert found[name].shape == array.shape
            assert np.array_equal(found[name], array)

    def test_the_same_arrays_give_the_same_bytes(self, tmp_path: Path) -> None:
        for name in "ab":
            write_npz(tmp_path / name, {"x": np.arange(1000)})
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

    def test_objects_are_neither_written_nor_read(self, tmp_path: Path) -> None:
        objects = np.array([{}, []], dtype=object)
        with pytest.raises(ValueError, match="allow_pickle"):
            write_npz(tmp_path / "a.npz", {"x": objects})
        assert not list(tmp_path.iterdir())
        with pytest.raises(InputError, match="damaged or not made of plain arrays"):
            read_npz(npz_with(tmp_path / "b.npz", x=npy(objects, allow_pickle=True)))

    def test_a_false_claim_of_size_is_found_before_memory_is_taken(self, tmp_path: Path) -> None:
        stream = io.BytesIO()
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
        np.lib.format.write_array_header_1_0(stream, header)
        with pytest.raises(InputError, match="claims to be larger than the file"):
            read_npz(npz_with(tmp_path / "a.npz", x=stream.getvalue()))

    @pytest.mark.parametrize("content", [b"", b"text", b"\x93NUMPY\x07\x00v\x00", npy(np.zeros(3))[:-4]])
    def test_what_is_not_an_array_is_refused(self, tmp_path: Path, content: bytes) -> None:
        with pytest.raises(InputError, match="damaged or not made of plain arrays"):
            read_npz(npz_with(tmp_path / "a.npz", x=content))

    def test_other_contents_are_refused(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("readme.txt", "text")
        with pytest.raises(InputError, match=r"'readme\.txt' is not an array"):
            read_npz(tmp_path / "a.npz")
        with pytest.raises(InputError, match="no such file"):
            read_npz(tmp_path / "b.npz")
