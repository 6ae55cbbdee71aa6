"""No input takes much more memory or time than it is large; what would is refused, with the way to raise the limit."""

import io
import os
import socket
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from hvil.cli.main import main
from hvil.data.formats.arrow_files import read_arrow
from hvil.data.trace_files import load
from hvil.gate.budget import TEXT, VARIABLE, parsed_bytes, shown_bytes
from hvil.gate.errors import InputError
from hvil.gate.files import json_line, read_json_lines, read_npz
from hvil.machine.callgraph import call_graph


class TestBudgets:
    def npz(self, path: Path, shape: tuple[int, ...], method: int, copies: int = 1) -> Path:
        stream = io.BytesIO()
        np.lib.format.write_array(stream, np.zeros(shape, dtype=np.uint8))
        with zipfile.ZipFile(path, "w", method) as archive:
            for _ in range(copies):
                archive.writestr("observations.npy", stream.getvalue())
        return path

    @pytest.mark.filterwarnings("ignore:Duplicate name")
    def test_arrays_that_unpack_to_much_more_than_the_file_are_refused(self, tmp_path: Path) -> None:
        many = (100 << 20,)
        with pytest.raises(InputError, match=r"would take 100\.0MB of memory.*--limit 100\.0MB"):
            read_npz(self.npz(tmp_path / "deflate.npz", many, zipfile.ZIP_DEFLATED))
        with pytest.raises(InputError, match="compressed in a way"):
            read_npz(self.npz(tmp_path / "bz2.npz", (10,), zipfile.ZIP_BZIP2))
        with pytest.raises(InputError, match="stands twice"):
            read_npz(self.npz(tmp_path / "twice.npz", (10,), zipfile.ZIP_DEFLATED, copies=50))

    def test_the_limit_can_be_raised(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = self.npz(tmp_path / "a.npz", (100 << 20,), zipfile.ZIP_DEFLATED)
        monkeypatch.setenv(VARIABLE, "101MB")
        assert read_npz(path)["observations"].shape == (100 << 20,)
        monkeypatch.setenv(VARIABLE, "much")
        with pytest.raises(InputError, match="expected a size such as 500MB"):
            read_npz(path)

    def test_sizes_are_read_as_they_are_shown(self) -> None:
        for count in (0, 1, 1023, 1024, 1 << 20, 123_456_789, 5 << 40):
            assert parsed_bytes(shown_bytes(count), "") >= count
        assert parsed_bytes("2GB", "") == 2 << 30

    def test_json_lines_may_be_more_than_one_text_may(self, tmp_path: Path) -> None:
        (tmp_path / "many.jsonl").write_text(
            "".join(json_line({"run": run, "note": "x" * 2000}) for run in range(2200))
        )
        assert (tmp_path / "many.jsonl").stat().st_size > TEXT
        assert [value["run"] for _, value in read_json_lines(tmp_path / "many.jsonl")] == list(range(2200))

    def test_json_lines_that_take_much_more_memory_than_room_are_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "dense.jsonl"
        path.write_text(("[" + ",".join(["[]"] * 1000) + "]\n") * 100)
        assert len(list(read_json_lines(path))) == 100  # 6 MB: what any input may take
        monkeypatch.setenv(VARIABLE, "1MB")
        with pytest.raises(InputError, match=r"dense\.jsonl: would take .* of memory.*raise the limit"):
            list(read_json_lines(path))

    def test_a_table_of_equal_rows_is_refused_by_its_footer(self, tmp_path: Path) -> None:
        rows = 2_000_000
        column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), ["a"])
        table = pa.table({"trace": np.zeros(rows, np.int64), "action": column, "observation.x": np.zeros(rows)})
        pq.write_table(table, tmp_path / "a.parquet")
        with pytest.raises(InputError, match="of memory"):
            load(tmp_path / "a.parquet")

    def test_a_long_text_in_many_rows_is_not_repeated(self, tmp_path: Path) -> None:
        rows, long = 2_000, "x" * 100_000
        table = pa.table({"trace": [long] * rows, "action": ["a"] * rows, "observation.x": np.zeros(rows)})
        pq.write_table(table, tmp_path / "a.parquet")
        with pytest.raises(InputError, match="of memory"):
            load(tmp_path / "a.parquet")

    def test_a_csv_of_empty_lines_is_counted_first(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_bytes(b"trace,action,observation.x\n" + b",\n" * 1_500_000)
        with pytest.raises(InputError, match="of memory"):
            load(tmp_path / "a.csv")

    @pytest.mark.parametrize(
        "text",
        [
            "".join(f'{{"k{number}": 1}}\n' for number in range(8000)),
            '{"a": [' + ",".join(f'{{"k{number}": 1}}' for number in range(8000)) + "]}",
        ],
    )
    def test_lines_that_each_have_a_key_of_their_own_are_refused(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "a.jsonl").write_text(text)  # 8000 times 8000 entries: 1.1 GB before, from 95 KB
        with pytest.raises(InputError, match="more than 4096 entries"):
            load(tmp_path / "a.jsonl")

    @pytest.mark.parametrize("line", ["null", "{} null", '"a"', "[]", "1", "{}null{}"])
    def test_a_line_that_is_no_object_is_refused(self, tmp_path: Path, line: str) -> None:
        (tmp_path / "a.jsonl").write_text(f'{{}}\n{line}\n{{"trace": 0}}\n')  # a segmentation fault in Arrow before
        with pytest.raises(InputError, match="JSON"):
            load(tmp_path / "a.jsonl")

    def test_a_table_that_keys_make_large_is_counted_first(self, tmp_path: Path) -> None:
        keys = [f'{{"k{number}": 1}}\n' for number in range(4000)]
        (tmp_path / "a.jsonl").write_text("".join(keys) + "{}\n" * 20_000)
        with pytest.raises(InputError, match="of memory"):
            load(tmp_path / "a.jsonl")

    @pytest.mark.parametrize("deep", [100, 200_000])
    def test_deep_nesting_does_not_end_the_process(self, tmp_path: Path, deep: int) -> None:
        for text in ('{"a":' + "[" * deep + "]" * deep + "}", '{"a":' * deep + "1" + "}" * deep):
            (tmp_path / "a.jsonl").write_text(text)  # a segmentation fault in Arrow before
            with pytest.raises(InputError, match=r"nested|a line of more than"):
                load(tmp_path / "a.jsonl")

    @pytest.mark.parametrize("text", ['{"a":"' + '\\"' * 400_000, '"' * 900_000, "{" * 900_000, '{"a' * 200_000])
    def test_texts_that_do_not_end_are_not_slow(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "a.jsonl").write_text(text)
        started = time.process_time()
        with pytest.raises(InputError, match="not JSON"):
            load(tmp_path / "a.jsonl")
        assert time.process_time() - started < 5

    @pytest.mark.parametrize("compression", ["lz4", "zstd"])
    def test_an_arrow_file_is_not_unpacked_to_find_out_its_size(self, tmp_path: Path, compression: str) -> None:
        rows = 10_000_000
        table = pa.table({"trace": np.zeros(rows, np.int64)})
        feather.write_feather(table, tmp_path / "a.feather", compression=compression, chunksize=rows)
        before = pa.total_allocated_bytes()
        peak = pa.default_memory_pool().max_memory()
        del table
        with pytest.raises(InputError, match="of memory"):
            load(tmp_path / "a.feather")
        assert pa.default_memory_pool().max_memory() == peak
        assert pa.total_allocated_bytes() <= before

    @pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
    def test_an_arrow_file_is_read_whatever_its_compression(self, tmp_path: Path, compression: str) -> None:
        columns = {
            "trace": [0, 0, 1, 1] * 200,
            "a": pa.array(["x", "y"] * 400).dictionary_encode(),
            "l": [[1, 2]] * 800,
        }
        table = pa.table(columns)
        feather.write_feather(table, tmp_path / "a.feather", compression=compression, chunksize=300)
        assert read_arrow(tmp_path / "a.feather").equals(table)

    def test_a_gzip_bomb_is_not_unpacked(self, tmp_path: Path) -> None:
        import gzip

        from hvil.domains.mnist_parity.digits import read_file

        (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes(100 << 20)))
        with pytest.raises(InputError, match="too large"):
            read_file("t10k-labels-idx1-ubyte", tmp_path)

    def test_large_call_graphs_are_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        procedures = {f"p{i}": {"calls": [f"p{(i + 1) % 1000}"]} for i in range(1000)}
        with pytest.raises(InputError, match="too many"):
            call_graph({"procedures": procedures, "max_depth": 1000}, [f"a{i}" for i in range(1000)])
        assert main(["graph", "complete:1000"]) == 2
        assert "too large for a text" in capsys.readouterr().err

    def test_colliding_names_are_not_slow(self) -> None:
        from hvil.gate.text import identifiers

        assert len(set(identifiers(["a!"] * 20_000))) == 20_000  # cubic before: hours

    @pytest.mark.parametrize("name", ["a.npz", "a.parquet", "a.csv", "graph.json", "table.toml"])
    def test_pipes_devices_and_directories_are_no_inputs(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
    ) -> None:
        command = {"graph.json": "graph", "table.toml": "reproduce"}.get(name, "inspect")
        path = tmp_path / name
        os.mkfifo(path)
        assert main([command, str(path)]) == 2
        path.unlink()
        path.symlink_to("/dev/zero")
        assert main([command, str(path)]) == 2
        path.unlink()
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
            assert main([command, str(path)]) == 2
        assert capsys.readouterr().err.count("not a regular file") == 3
