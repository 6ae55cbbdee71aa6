"""Trace files of both forms: what is saved comes back, what is damaged is refused, a failure leaves nothing behind."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_traces import rich_traces, two_traces
from strategies import trace_sets

from hvil.data.formats import parquet_writer
from hvil.data.trace_files import load, save
from hvil.data.traces import Traces, concatenate
from hvil.gate.errors import InputError

FORMS = ["npz", "parquet"]


@pytest.mark.parametrize("form", FORMS)
class TestRoundTrip:
    @given(traces=trace_sets())
    def test_every_set_comes_back_equal(
        self, tmp_path_factory: pytest.TempPathFactory, form: str, traces: Traces
    ) -> None:
        path = tmp_path_factory.mktemp("traces", numbered=True) / f"set.{form}"
        save(traces, path)
        assert load(path) == traces

    def test_missing_numbers_and_long_text_in_metadata_survive(self, tmp_path: Path, form: str) -> None:
        traces = two_traces(metadata={"score": np.array([np.nan, np.inf]), "text": np.array([["", "a" * 99]] * 2)})
        save(traces, tmp_path / f"set.{form}")
        assert load(tmp_path / f"set.{form}") == traces

    def test_traces_longer_than_a_row_group_survive(
        self, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(parquet_writer, "ROW_GROUP_ROWS", 3)
        traces = concatenate([rich_traces()] * 3)
        save(traces, tmp_path / f"set.{form}")
        assert load(tmp_path / f"set.{form}") == traces

    def test_an_existing_file_is_replaced_and_nothing_else_is_left(self, tmp_path: Path, form: str) -> None:
        path = tmp_path / f"set.{form}"
        path.write_text("old")
        save(rich_traces(), path)
        assert load(path) == rich_traces()
        assert list(tmp_path.iterdir()) == [path]

    def test_the_same_traces_give_the_same_bytes(self, tmp_path: Path, form: str) -> None:
        for name in "ab":
            save(rich_traces(), tmp_path / f"{name}.{form}")
        assert (tmp_path / f"a.{form}").read_bytes() == (tmp_path / f"b.{form}").read_bytes()

    def test_a_failed_save_leaves_the_old_file(
        self, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / f"set.{form}"
        save(rich_traces(), path)
        before = path.read_bytes()

        def fail(*_: Any, **__: Any) -> None:
            raise OSError("no space left")

        monkeypatch.setattr("numpy.lib.format.write_array", fail)
        monkeypatch.setattr("hvil.data.formats.parquet_writer._table", fail)
        with pytest.raises(OSError, match="no space left"):
            save(two_traces(), path)
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]


GOOD: dict[str, Any] = {
    "observations": np.zeros((4, 1)),
    "actions": np.array([0, 2, 1]),
    "offsets": np.array([0, 3]),
}


class TestNpz:
    def test_it_is_plain_arrays_with_the_documented_names(self, tmp_path: Path) -> None:
        save(rich_traces(), tmp_path / "set.npz")
        with np.load(tmp_path / "set.npz", allow_pickle=False) as file:
            arrays = dict(file)
        assert set(arrays) == {
            *("observations", "actions", "offsets", "action_names", "observation_names", "attributes"),
            *("annotation_procedures", "annotation_stacks", "annotation_kept", "metadata.grid", "metadata.name"),
        }
        assert arrays["observations"].shape == (6, 2)
        assert arrays["offsets"].tolist() == [0, 3, 4]
        assert json.loads(str(arrays["attributes"])) == {"task": "toy"}

    def test_numpy_can_write_one(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "set.npz", observations=np.zeros((4, 1)), actions=[0, 2, 1], offsets=[0, 3])
        traces = load(tmp_path / "set.npz")
        assert traces.action_names == ("0", "1", "2")
        assert traces.annotations is None

    @pytest.mark.usefixtures("no_type_checks")
    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"offsets": None}, "the array 'offsets' is missing"),
            ({"actions": [0.5, 1, 2]}, "actions must be whole numbers"),
            ({"actions": [0, 1, 2**20]}, "without action_names, actions are numbers from 0 to 65536"),
            ({"actions": [0, -1, 2]}, "trace 0, step 1: action -1 is out of range"),
            ({"actions": np.zeros(0)}, "actions must be whole numbers"),
            ({"actions": [None, None, None]}, "Object arrays cannot be loaded"),
            ({"observations": np.full((4, 1), np.nan)}, "trace 0, step 0: the observation has a value that is not"),
            ({"action_names": [1, 2, 3]}, "the array 'action_names' must hold text"),
            ({"attributes": "{"}, "the attributes: not JSON"),
            ({"attributes": "[1]"}, "the attributes must be a JSON object"),
            ({"attributes": "[" * 100_000}, "the attributes: JSON nested too deeply"),
            ({"annotation_stacks": np.zeros((3, 1), int)}, "annotations need the arrays annotation_procedures"),
            ({"metadata.n": [1, 2]}, "metadata 'n' must have one entry for each of 1 traces"),
        ],
    )
    def test_wrong_arrays_are_refused_with_the_file_named(
        self, tmp_path: Path, changed: dict[str, Any], message: str
    ) -> None:
        path = tmp_path / "set.npz"
        np.savez(path, **{k: np.asarray(v) for k, v in (GOOD | changed).items() if v is not None})
        with pytest.raises(InputError) as caught:
            load(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", FORMS)
class TestDamage:
    @given(data=st.data())
    def test_damage_is_an_input_error_or_harmless(
        self, tmp_path_factory: pytest.TempPathFactory, form: str, data: st.DataObject
    ) -> None:
        path = tmp_path_factory.mktemp("damage", numbered=True) / f"set.{form}"
        save(rich_traces(), path)
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        message = f"{path}: "
        try:
            load(path)
        except InputError as error:
            message = str(error)
        assert message.startswith(f"{path}: ")
        assert "\n" not in message

    @pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.99])
    def test_a_truncated_file_is_refused(self, tmp_path: Path, form: str, share: float) -> None:
        path = tmp_path / f"set.{form}"
        save(rich_traces(), path)
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])
        with pytest.raises(InputError, match=f"^{path}: not a|^{path}: damaged"):
            load(path)

    def test_a_foreign_file_is_refused(self, tmp_path: Path, form: str) -> None:
        path = tmp_path / f"set.{form}"
        path.write_text("trace,step,action\n1,2,3\n")
        with pytest.raises(InputError, match=f"^{path}: not a"):
            load(path)

    def test_no_file_or_a_directory_is_refused(self, tmp_path: Path, form: str) -> None:
        (tmp_path / f"directory.{form}").mkdir()
        for name in ("directory", "nothing"):
            with pytest.raises(InputError, match=r"no such file|the directory has no file that ends in"):
                load(tmp_path / f"{name}.{form}")
        with pytest.raises(InputError, match="is a directory"):
            save(two_traces(), tmp_path / f"directory.{form}")
        with pytest.raises(InputError, match=r"the directory .* does not exist"):
            save(two_traces(), tmp_path / "nothing" / f"set.{form}")


def test_other_endings_are_refused(tmp_path: Path) -> None:
    for action in (load, lambda path: save(two_traces(), path)):
        with pytest.raises(
            InputError, match=r"trace files end in \.npz( or|,) \.parquet|trace files end in \.npz, \.csv"
        ):
            action(tmp_path / "set.txt")
