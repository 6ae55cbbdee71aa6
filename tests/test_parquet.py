"""Parquet files: other tools read ours by the documented columns, and we read theirs, or say what is wrong."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_traces import annotated, rich_traces, two_traces

from hvil.data.formats import parquet_writer
from hvil.data.formats.parquet_reader import read_parquet
from hvil.data.formats.tables import Columns, traces_from_table
from hvil.data.trace_files import load, save
from hvil.data.traces import Annotations, Traces
from hvil.gate.errors import InputError

COLUMNS = ["trace", "step", "action", "observation.x", "observation.y", "stack", "kept"]


class TestParquet:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        save(rich_traces(), tmp_path / "set.parquet")
        return tmp_path / "set.parquet"

    def test_pyarrow_reads_the_documented_columns(self, path: Path) -> None:
        table = pq.read_table(path)
        assert table.column_names == [*COLUMNS, "metadata.grid", "metadata.name"]
        assert table.column("trace").to_pylist() == [0, 0, 0, 0, 1, 1]
        assert table.column("step").to_pylist() == [0, 1, 2, 3, 0, 1]
        assert table.column("action").to_pylist() == ["left", "right", "right", None, "left", None]
        assert table.column("observation.y").to_pylist() == [1, 3, 5, 7, 9, 11]
        assert table.column("stack").to_pylist() == [["main", "sub"]] * 2 + [None, None, ["main"], None]
        assert table.column("kept").to_pylist() == [1, 2, None, None, 1, None]
        assert table.column("metadata.name").to_pylist() == ["straße", None, None, None, "b", None]
        assert table.column("metadata.grid").to_pylist()[4] == [4, 5, 6, 7]

    def test_pandas_reads_the_documented_columns(self, path: Path) -> None:
        frame = pd.read_parquet(path)
        assert list(frame.columns[:7]) == COLUMNS
        assert frame.groupby("trace").size().tolist() == [4, 2]
        assert frame["action"].isna().tolist() == [False, False, False, True, False, True]
        assert frame["observation.x"].tolist() == [0, 2, 4, 6, 8, 10]

    def test_pandas_can_write_it_back(self, path: Path) -> None:
        frame = pd.read_parquet(path).drop(columns=["metadata.grid"])
        frame.to_parquet(path)
        traces, original = load(path), rich_traces()
        assert np.array_equal(traces.observations, original.observations)
        assert np.array_equal(traces.actions, original.actions)
        assert traces.annotations == original.annotations
        assert traces.metadata["name"].tolist() == ["straße", "b"]

    def test_wide_observations_are_one_list_column(self, tmp_path: Path) -> None:
        traces = two_traces(observations=np.arange(6 * 784, dtype=np.uint8).reshape(6, 28, 28))
        save(traces, tmp_path / "set.parquet")
        assert pq.read_table(tmp_path / "set.parquet").column_names == ["trace", "step", "action", "observation"]
        assert load(tmp_path / "set.parquet") == traces

    def test_names_in_the_path_do_not_become_columns(self, tmp_path: Path) -> None:
        (tmp_path / "trace=7").mkdir()
        save(rich_traces(), tmp_path / "trace=7" / "set.parquet")
        assert load(tmp_path / "trace=7" / "set.parquet") == rich_traces()

    def test_false_claims_about_shapes_are_ignored(self, path: Path) -> None:
        table = pq.read_table(path)
        for claim in ("5", '{"observation_shape": 5, "metadata_shapes": {"grid": "x"}, "attributes": 3}', "{}"):
            pq.write_table(table.replace_schema_metadata({"hvil": claim}), path)
            assert load(path).observation_shape == (2,)
            assert load(path).metadata["grid"].shape == (2, 4)
        pq.write_table(table.replace_schema_metadata({"hvil": "{"}), path)
        with pytest.raises(InputError, match="its 'hvil' metadata: not JSON"):
            load(path)


FRAME = pd.DataFrame(
    {
        "episode": ["b", "b", "b", "a", "a"],
        "time": [10, 20, 30, 1, 2],
        "do": ["up", "down", None, "up", None],
        "height": [0.0, 1.0, 2.0, 3.0, 4.0],
        "speed": [1, 2, 3, 4, 5],
    }
)
NAMED = Columns("episode", "time", "do", ("height", "speed"))
ONE = NAMED._replace(observations=("height",))

BAD = {
    "no column": ({}, NAMED._replace(action="act"), "no column 'act' (--action-column); there are episode, time, do"),
    "an action too few": (
        {"do": ["up", None, None, "up", None]},
        NAMED,
        "trace 0, step 1: no action in the column 'do', and it",
    ),
    "an action too many": (
        {"do": ["up"] * 4 + [None]},
        NAMED,
        "trace 0, step 2: the last row of a trace holds the last",
    ),
    "actions between numbers": ({"do": [0.5, 1, None, 1, None]}, NAMED, "the column 'do' must hold whole numbers"),
    "infinite actions": ({"do": [np.inf, 1, None, 1, None]}, NAMED, "the column 'do' must hold whole numbers"),
    "large actions": (
        {"do": [1e6, 1, None, 1, None]},
        NAMED,
        "action 1000000: actions are numbers from 0 to 65536",
    ),
    "negative actions": ({"do": [-1, 1, None, 1, None]}, NAMED, "trace 0, step 0: action -1 is out of range"),
    "actions of texts in lists": (
        {"do": [["a"], ["a", "b"], None, ["a"], None]},
        NAMED,
        "the lists in the column 'do' differ in length",
    ),
    "traces without a name": ({"episode": ["b", "b", None, "a", "a"]}, NAMED, "row 2: no value in the column 'epi"),
    "traces not together": (
        {"episode": ["b", "a", "b", "a", "a"]},
        NAMED._replace(step="none"),
        "no column 'none' (--step-column)",
    ),
    "traces not together, without steps": (
        {"episode": ["b", "a", "b", "a", "a"], "time": ["x", "y", "z", "x", "y"]},
        NAMED._replace(step=""),
        "the rows of a trace do not stand together, and no column orders them; name one with --step-column",
    ),
    "a step twice": ({"time": [10, 20, 20, 1, 2]}, NAMED, "trace 'b' has the step 20 twice"),
    "steps of text": (
        {"time": list("abcde")},
        NAMED,
        "the column 'time' holds large_string, expected whole numbers",
    ),
    "steps with gaps": ({"time": [1, None, 3, 4, 5]}, NAMED, "row 1: no value in the column 'time'"),
    "infinite observations": ({"height": [0, np.inf, 1, 2, 3]}, NAMED, "trace 0, step 1: the observation has a"),
    "observations of dates": (
        {"height": pd.Timestamp("2020-01-01")},
        NAMED,
        "the column 'height' cannot be part of an observation: it is a time",
    ),
    "uneven lists": (
        {"height": [[1]] * 4 + [[1, 2]]},
        ONE,
        "differ in length",
    ),
    "lists with gaps": ({"height": [[None]] * 5}, ONE, "'height' has a gap"),
    "lists of text": (
        {"height": [["x"]] * 5},
        ONE,
        "holds text, expected num",
    ),
    "stacks of numbers": ({"stack": [1] * 5}, NAMED, "the column 'stack' must hold lists of procedure names"),
    "stacks with gaps": ({"stack": [["a", None]] * 5}, NAMED, "the column 'stack' names an unknown procedure None"),
    "high stacks": ({"stack": [["a"] * 1001] * 5}, NAMED, "a stack of more than 1000 frames"),
    "kept of text": ({"stack": [["a"]] * 5, "kept": "x"}, NAMED, "the column 'kept' holds large_string, expected"),
    "metadata with gaps": ({"metadata.n": [1, 1, 1, None, 1]}, NAMED, "has no value in the first row of trace 1"),
    "metadata of dates": ({"metadata.n": pd.Timestamp("2020-01-01")}, NAMED, "metadata 'n' holds datetime64"),
    "nothing": ({}, NAMED._replace(trace="nothing"), "no column 'nothing'"),
}


class TestForeignTables:
    """Tables from pandas and other tools; the action of a trace's last row is missing in all of them."""

    def read(self, columns: Columns = NAMED, **changed: Any) -> Traces:
        return traces_from_table(pa.Table.from_pandas(FRAME.assign(**changed)), columns)

    def test_named_columns_are_read(self) -> None:
        traces = self.read()
        assert traces.action_names == ("down", "up")
        assert traces.observation_names == ("height", "speed")
        assert traces.actions.tolist() == [1, 0, 1]
        assert traces.lengths.tolist() == [2, 1]
        assert traces.observations.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]

    def test_rows_in_another_order_are_sorted(self, tmp_path: Path) -> None:
        FRAME.iloc[[4, 0, 2, 3, 1]].to_parquet(tmp_path / "mixed.parquet")
        traces = read_parquet(tmp_path / "mixed.parquet", NAMED)
        assert traces.actions.tolist() == [1, 1, 0]
        assert traces.observations[:, 0].tolist() == [3, 4, 0, 1, 2]

    def test_steps_of_an_unsigned_type_are_sorted(self) -> None:
        assert self.read(time=np.array([30, 20, 99, 1, 2], dtype=np.uint8)).actions.tolist() == [1, 0, 1]

    @pytest.mark.parametrize(
        "actions",
        [
            [10.0, 2.0, None, 10.0, None],
            pd.array([10, 2, None, 10, None], dtype="Int8"),
            pd.array([10, 2, None, 10, None], dtype="UInt64"),
            pd.Categorical([10, 2, None, 10, None]),
        ],
        ids=["float", "int8", "uint64", "categories"],
    )
    def test_numbers_of_every_kind_are_actions(self, actions: Any) -> None:
        traces = self.read(do=actions)
        assert traces.actions.tolist() == [10, 2, 10]
        assert len(traces.action_names) == 11

    def test_not_a_number_is_no_action(self) -> None:
        table = pa.Table.from_pandas(FRAME.drop(columns="do"))
        table = table.append_column("do", pa.array(np.array([1.0, 0.0, np.nan, 1.0, np.nan])))
        assert traces_from_table(table, NAMED).actions.tolist() == [1, 0, 1]

    @pytest.mark.parametrize(
        "kind", [pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int8(), pa.large_string())]
    )
    def test_text_of_every_kind_is_an_action(self, kind: pa.DataType) -> None:
        table = pa.Table.from_pandas(FRAME)
        position = table.column_names.index("do")
        chunks = [pa.array(part, pa.string()).cast(kind) for part in (["up", "down", None], ["up", None])]
        traces = traces_from_table(table.set_column(position, "do", pa.chunked_array(chunks)), NAMED)
        assert traces.actions.tolist() == [1, 0, 1]

    def test_truth_values_are_actions(self) -> None:
        traces = self.read(do=pd.array([True, False, None, True, None], dtype="boolean"))
        assert traces.action_names == ("false", "true")
        assert traces.actions.tolist() == [1, 0, 1]

    @pytest.mark.parametrize("make", [pd.Categorical, lambda ids: [{"a": 1.0, "b": 2.0}[i] for i in ids]])
    def test_traces_may_be_named_by_categories_or_floats(self, make: Any) -> None:
        assert self.read(episode=make(["b", "b", "b", "a", "a"])).lengths.tolist() == [2, 1]

    def test_columns_of_different_types_become_one_array(self) -> None:
        assert self.read(height=[True, False, True, True, True]).observations.dtype == np.int64
        assert self.read(height=np.ones(5, np.int8), speed=np.ones(5, np.int16)).observations.dtype == np.int32
        assert self.read(height=np.ones(5, np.float16)).observations.dtype == np.float32

    def test_lists_may_be_observations_and_metadata(self) -> None:
        frame = FRAME.assign(observation=[[1.0, 2.0]] * 5, **{"metadata.seed": [[1, 2]] * 5, "metadata.who": "me"})
        for large in (False, True):
            table = pa.Table.from_pandas(frame)
            if large:
                column = table.column("observation").cast(pa.large_list(pa.float32()))
                table = table.set_column(table.column_names.index("observation"), "observation", column)
            traces = traces_from_table(table, NAMED._replace(observations=()))
            assert traces.observations.tolist() == [[1, 2]] * 5
            assert traces.observation_names == ()
            assert traces.metadata["seed"].tolist() == [[1, 2]] * 2
            assert traces.metadata["who"].tolist() == ["me", "me"]

    def test_stacks_of_names_are_annotations(self) -> None:
        stacks = [["main", "go"], ["main"], None, [], None]
        traces = self.read(stack=stacks, kept=[1.0, 1.0, None, None, None])
        assert traces.annotations == Annotations(
            ("main", "go"), np.array([[0, 1], [0, -1], [-1, -1]]), np.array([1, 1, -1])
        )
        assert self.read(stack=stacks).annotations.kept.tolist() == [-1, -1, -1]

    @pytest.mark.parametrize(("changed", "columns", "message"), BAD.values(), ids=BAD)
    def test_what_cannot_be_traces_is_refused(self, changed: dict[str, Any], columns: Columns, message: str) -> None:
        with pytest.raises(InputError) as caught:
            self.read(columns, **changed)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_no_rows_and_columns_of_one_name_are_refused(self) -> None:
        table = pa.Table.from_pandas(FRAME)
        with pytest.raises(InputError, match="no rows"):
            traces_from_table(table.slice(0, 0), NAMED)
        with pytest.raises(InputError, match="two columns 'do'"):
            traces_from_table(table.append_column("do", table.column("do")), NAMED)

    def test_an_unknown_action_is_named(self) -> None:
        traces = annotated([[0]] * 4, [1] * 4)
        table = parquet_writer._table(traces, 0, 2, parquet_writer._schema(traces))
        facts = json.dumps({"action_names": ["left"], "procedures": ["main"]})
        with pytest.raises(InputError, match="trace 0, step 1: action 'right' is not among left"):
            traces_from_table(table.replace_schema_metadata({"hvil": facts}))
