"""Batches from a file a few row groups at a time: nothing is lost, nothing depends on the history."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hvil
from hvil.cli.main import main
from hvil.data.formats import parquet_writer
from hvil.data.settings import DataSettings
from hvil.data.sources import load_data
from hvil.data.streaming import TraceStream, should_stream, trace_counts
from hvil.data.trace_files import save
from hvil.data.traces import Traces
from hvil.gate.errors import InputError


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sixty traces in a dozen row groups; trace i observes i."""
    monkeypatch.setattr(parquet_writer, "ROW_GROUP_ROWS", 20)
    observations = [np.c_[np.full((4, 1), i), np.arange(4)].astype(np.float32) for i in range(60)]
    save(
        Traces.from_episodes(observations, [np.array([0, 1, 0])] * 60, ("a", "b")),
        tmp_path / "many.parquet",
    )
    return tmp_path / "many.parquet"


def test_an_epoch_has_every_trace_once_and_the_next_another_order(path: Path) -> None:
    counts = trace_counts(path)
    assert counts.sum() == 60
    stream = TraceStream(path, np.arange(len(counts)), seed=0)
    epochs = [[int(t.observations[0, 0]) for u in range(12) for t in stream.batch(12 * e + u, 5)] for e in range(2)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(60))
    assert epochs[0] != epochs[1]
    assert epochs[0] != sorted(epochs[0])


def test_a_batch_depends_on_the_update_alone(path: Path) -> None:
    groups = np.arange(len(trace_counts(path)))
    stream = TraceStream(path, groups, seed=3)
    in_order = [stream.batch(update, 7) for update in range(25)]
    assert TraceStream(path, groups, seed=3).batch(20, 7) == in_order[20]
    assert stream.batch(2, 7) == in_order[2]


def test_a_streamed_run_trains_and_resumes_to_the_same_weights(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--model", "feedforward", "--units", "4", "--stream", "yes", "--batch-size", "5", "--json"]
    whole, parts = str(tmp_path / "whole"), str(tmp_path / "parts")
    assert main(["fit", str(path), *flags, "--updates", "14", "--patience", "0", "--out", whole]) == 0
    assert main(["fit", str(path), *flags, "--updates", "6", "--patience", "0", "--out", parts]) == 0
    more = ["--updates", "14", "--patience", "0", "--out", parts, "--resume"]
    assert main(["fit", str(path), *flags, *more]) == 0, capsys.readouterr().err
    first, second = (hvil.load(run).learner.state_dict() for run in (whole, parts))  # type: ignore[attr-defined]
    assert all(bool((first[name] == second[name]).all()) for name in first)


def test_test_and_validation_traces_that_the_caller_brings_are_taken(path: Path) -> None:
    traces = hvil.load_traces(path)
    data = load_data(path, DataSettings(stream="yes"), 0, test=traces[:3], validation=traces[3:5])
    assert data.stream is not None
    assert (data.test, data.validation) == (traces[:3], traces[3:5])


def test_trace_numbers_far_apart_are_refused(path: Path) -> None:
    table = pq.read_table(path)
    far = pc.multiply(table.column("trace").cast(pa.int64()), 10**15)
    position = table.column_names.index("trace")
    pq.write_table(table.set_column(position, "trace", far), path, row_group_size=20)
    with pytest.raises(InputError, match="not numbered one after another"):
        trace_counts(path)


def test_what_cannot_be_streamed_is_refused(path: Path, tmp_path: Path) -> None:
    assert not should_stream(path), "a small file is read as a whole"
    save(Traces.from_episodes([np.zeros((2, 1))], [np.array([0])], ("a",)), tmp_path / "one.parquet")
    assert main(["fit", str(tmp_path / "one.parquet"), "--stream", "yes", "--out", str(tmp_path / "r")]) == 2
    (tmp_path / "bad.parquet").write_bytes(b"no")
    with pytest.raises(InputError, match="not a Parquet file"):
        trace_counts(tmp_path / "bad.parquet")
