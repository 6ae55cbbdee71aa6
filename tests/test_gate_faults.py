"""Faults of the surroundings and odd values: one line and the right exit code, and what is written stays whole."""

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from toy_learner import toy_traces

import hvil
from hvil.cli.main import main
from hvil.data.streaming import trace_counts
from hvil.data.trace_files import load
from hvil.data.traces import Traces
from hvil.domains.karel.task import KarelTask
from hvil.experiments.comparison import compare, comparison_table
from hvil.experiments.engine.cells import check_record
from hvil.experiments.variants import variants
from hvil.gate import compiled_cache
from hvil.gate.border import own_directory
from hvil.gate.engine import ray
from hvil.gate.errors import LONGEST, InputError, one_line
from hvil.gate.files import lock, parse_json, read_json, read_toml, write_json, write_text
from hvil.gate.text import in_line
from hvil.training.weights import weights_digest

SOURCE = str(Path(hvil.__file__).parents[1])


def command(*arguments: str, **options: object) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    return subprocess.run(
        [sys.executable, "-m", "hvil", *arguments], text=True, env=environment, check=False, **options
    )  # type: ignore[call-overload]


class TestWords:
    @pytest.mark.parametrize("word", ["NA", "NaN", "null", "N/A", "nan", "NULL", "#N/A"])
    def test_an_action_may_have_the_name_of_a_gap(self, tmp_path: Path, word: str) -> None:
        rows = [f"0,0,{word},1", "0,1,go,2", "0,2,,3"]
        (tmp_path / "a.csv").write_text("\n".join(["trace,step,action,observation.x", *rows]) + "\n")
        traces = load(tmp_path / "a.csv")
        assert sorted(traces.action_names) == sorted([word, "go"])

    def test_a_header_that_is_not_text_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_bytes(b"trace,\xff\xfe,action\n0,1,a\n")
        with pytest.raises(InputError):
            load(tmp_path / "a.csv")

    def test_numbers_without_end_are_refused_everywhere(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        long = "9" * 400
        (tmp_path / "a.json").write_text(f'{{"procedures": {{"a": {{}}}}, "max_depth": {long}}}')
        (tmp_path / "a.toml").write_text(f"runs = {long}\n")
        (tmp_path / "b.toml").write_text("runs = inf\n")
        for path in ("a.toml", "b.toml"):
            with pytest.raises(InputError, match=r"too long|not finite"):
                read_toml(tmp_path / path)
        commands = [["graph", str(tmp_path / "a.json")], ["fit", "bubblesort", "--plan", "--learning-rate", long]]
        commands += [["fit", "bubblesort", "--plan", "--updates", long], ["reproduce", str(tmp_path / "a.toml")]]
        for arguments in commands:
            assert main(arguments) == 2
            assert capsys.readouterr().err.count("\n") == 1

    def test_a_learning_rate_that_cannot_be_meant_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["fit", "bubblesort", "--plan", "--learning-rate", "1000000"]) == 2
        assert "at most 10" in capsys.readouterr().err

    def test_halves_of_characters_are_written_and_read_again(self, tmp_path: Path) -> None:
        name = os.fsdecode(b"caf\xe9.csv")
        write_json(tmp_path / "a.json", {"source": name})
        assert read_json(tmp_path / "a.json") == {"source": name}
        with pytest.raises(InputError, match="half a character"):
            Traces.from_episodes([np.zeros((2, 1), np.float32)], [np.array([0])], ("\ud800",))

    def test_a_file_whose_name_is_not_text_can_be_used(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)  # so that the name stands in one line, however long the directory's is
        path = Path(os.fsdecode(b"caf\xe9.npz"))
        hvil.save_traces(toy_traces(6), path)
        assert main(["inspect", str(path)]) == 0
        assert "\\udce9" in capsys.readouterr().out
        run = hvil.fit(path, "tree:2x1", model="feedforward", units=4, updates=1, out=tmp_path / "run")
        assert len(hvil.load(tmp_path / "run").data.training) == len(run.data.training)

    def test_errors_are_short_and_hold_no_escape(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert len(one_line("x" * 200_000, LONGEST)) == LONGEST
        assert main(["graph", "\x1b[2J" + "x" * 200_000]) == 2
        error = capsys.readouterr().err
        assert len(error) < 2 * LONGEST
        assert "\x1b" not in error

    @pytest.mark.parametrize("command", ["inspect", "runs", "evaluate", "graph", "report", "card"])
    def test_a_name_that_no_file_can_have_is_bad_input(self, capsys: pytest.CaptureFixture[str], command: str) -> None:
        assert main([command, "x" * 5000]) == 2
        assert capsys.readouterr().err.count("\n") == 1

    def test_a_footer_that_arrow_gives_up_on_does_not_end_the_process(self) -> None:
        """A histogram in it has two entries where one is right; to ask for the column's size was the end before."""
        damaged = Path(__file__).parent / "data" / "damaged" / "footer.parquet"
        with pytest.raises(InputError, match="damaged"):
            load(damaged)
        with pytest.raises(InputError):
            trace_counts(damaged)

    def test_a_message_of_arrow_whose_kind_lies_beyond_its_end_is_refused(self) -> None:
        with pytest.raises(InputError, match="damaged"):
            load(Path(__file__).parent / "data" / "damaged" / "message.feather")

    def test_duplicate_keys_and_nan_are_no_json(self) -> None:
        for text in ('{"a": 1, "a": 1}', "[NaN]", "1e999", "9" * 400):
            with pytest.raises(InputError):
                parse_json(text, "text")

    @pytest.mark.parametrize("cells", [np.zeros((2, 4, 4)), np.zeros(2), np.full((2, 4, 4), 99), np.zeros((2, 0, 0))])
    def test_odd_worlds_of_karel_are_refused_or_played(self, cells: np.ndarray) -> None:
        task = KarelTask("A")
        for robot in (np.zeros((2, 3)), np.full((2, 3), 99), np.zeros(2)):
            traces = task.demonstrations(2, 0)
            odd = Traces(
                traces.observations,
                traces.actions,
                traces.offsets,
                traces.action_names,
                metadata={"cells": cells, "robot": robot, "size": np.full((2, 2), 7)},
            )
            try:
                task.environment().reset(options=task.reset_options(odd, 0))
            except InputError:
                continue  # refused

    def test_records_without_their_fields_are_refused(self) -> None:
        good = {
            "cell": {"task": "karel:A", "demos": 1, "run": 0},
            "error": 0,
            "seconds": 1,
            "version": "1",
            "curve": [],
        }
        assert check_record(good, "here") == good
        wrong = [
            {},
            [],
            None,
            good | {"error": "x"},
            good | {"error": 7},
            good | {"seconds": -1},
            good | {"curve": [1]},
        ]
        for record in [*wrong, {name: value for name, value in good.items() if name != "version"}]:
            with pytest.raises(InputError, match="here: "):
                check_record(record, "here")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run."""
    path = tmp_path_factory.mktemp("runs") / "run"
    hvil.fit(toy_traces(6), "tree:2x2", model="feedforward", units=4, updates=1, out=path)
    return path


class TestRunsOfOthers:
    @pytest.mark.parametrize(
        "evaluation",
        ["[]", '"x"', '{"error": "x"}', '{"error": 7}', '{"error": 0, "error_interval": 3}', '{"error_interval": [0]}'],
    )
    def test_an_evaluation_that_is_none_is_refused_wherever_it_is_shown(
        self, trained: Path, capsys: pytest.CaptureFixture[str], evaluation: str
    ) -> None:
        (trained / "evaluation.json").write_text(evaluation)
        for command in ("report", "card"):
            assert main([command, str(trained)]) == 2
            error = capsys.readouterr().err
            assert "evaluation.json: " in error
            assert error.count("\n") == 1
        assert main(["runs", str(trained.parent), "--json"]) == 0
        (entry,) = json.loads(capsys.readouterr().out)["runs"]
        assert "evaluation.json: " in entry["problem"]
        (trained / "evaluation.json").unlink()

    def test_the_table_of_runs_reads_nothing_through_links(
        self, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "config.json").symlink_to(trained / "config.json")
        assert main(["runs", str(tmp_path), "--json"]) == 0
        assert "is a link" in json.loads(capsys.readouterr().out)["runs"][0]["problem"]
        assert main(["runs", "x" * 5000]) == 2

    def test_a_run_that_cannot_be_written_to_is_evaluated_all_the_same(
        self, trained: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        in_the_way = trained / "evaluation-no-rollouts.json"
        in_the_way.mkdir()
        assert main(["evaluate", str(trained), "--no-rollouts", "--json"]) == 0
        shown = capsys.readouterr()
        assert "note: the result is not kept: " in shown.err
        assert json.loads(shown.out)["updates"] == 1
        in_the_way.rmdir()


class TestWorkers:
    @pytest.mark.parametrize("answer", ["", "[]", b"{}", '{"record": 1}', '{"x": 1}', '{"failure": 3}', "NaN"])
    def test_answers_of_a_cluster_are_checked(self, answer: object) -> None:
        with pytest.raises(InputError, match="the worker's answer"):
            ray._read_answer(answer, "key")

    def test_a_cluster_of_our_own_is_on_loopback_and_wants_a_token(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given: dict[str, object] = {}
        variables = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")
        for name in variables:
            monkeypatch.setenv(name, "")
            monkeypatch.delenv(name)
        monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=lambda **options: given.update(options)))
        ray._connected(None, 2)
        assert given["address"] == "local"
        assert given["include_dashboard"] is False
        mode, token, several_machines = (os.environ[name] for name in variables)
        assert (mode, several_machines) == ("token", "0")
        assert len(token) == 64

    def test_a_record_of_a_cluster_is_checked_before_it_is_compared(self, tmp_path: Path) -> None:
        def engine(jobs, work, processes, log, on_progress, on_done):  # type: ignore[no-untyped-def]
            for job in jobs:
                write_json(job.target, {"cell": job.cell, "error": "x", "seconds": 1, "version": "", "curve": []})
            return []

        table = comparison_table("karel:A", [2], variants("lstm", "karel:A"), 1, 5)
        with pytest.raises(InputError, match="error is 'x'; expected a number"):
            compare(table, tmp_path, engine=engine)

    def test_a_directory_that_can_be_guessed_must_be_ours(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert own_directory(tmp_path / "ours").stat().st_mode & 0o777 == 0o700
        (tmp_path / "link").symlink_to(tmp_path / "ours")
        with pytest.raises(InputError, match="not a directory"):
            own_directory(tmp_path / "link")
        monkeypatch.setattr("os.getuid", lambda: 12345)
        with pytest.raises(InputError, match="another user"):
            own_directory(tmp_path / "ours")

    def test_a_second_process_does_not_train_in_the_same_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("hvil.training.execution.LOCK_SECONDS", 0.1)
        settings = {"model": "feedforward", "units": 4}
        hvil.fit(toy_traces(6), "tree:2x1", out=tmp_path / "run", updates=1, **settings)
        before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
        with lock(tmp_path / "run" / ".lock"), pytest.raises(InputError, match="another process is training there"):
            hvil.fit(toy_traces(6), "tree:2x1", out=tmp_path / "run", resume=True, updates=3, **settings)
        assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before

    def test_two_threads_give_the_weights_that_each_gives_alone(self) -> None:
        def fit(seed: int) -> str:
            run = hvil.fit(toy_traces(6), "tree:2x1", model="lstm", units=4, updates=20, seed=seed)
            return weights_digest(run.learner)

        alone = [fit(seed) for seed in (0, 1)]
        found: dict[int, str] = {}
        threads = [threading.Thread(target=lambda s=seed: found.update({s: fit(s)})) for seed in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [found[0], found[1]] == alone


class TestSurroundings:
    def test_a_full_disk_is_named_and_leaves_no_half_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(self: Path, data: bytes) -> int:
            with self.open("wb") as stream:
                stream.write(data[:3])
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(Path, "write_bytes", full)
        with pytest.raises(OSError, match=r"a\.txt: cannot be written \(No space left on device\); .* free there"):
            write_text(tmp_path / "a.txt", "text")
        assert not list(tmp_path.iterdir())

    def test_a_checkpoint_that_does_not_fit_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(target: Path, contents: bytes) -> None:
            raise OSError("no space")

        monkeypatch.setattr("hvil.training.checkpoints.write_bytes", full)
        with pytest.raises(OSError, match="no space"):
            hvil.fit(toy_traces(6), "tree:2x1", model="feedforward", units=4, updates=1, out=tmp_path / "run")
        assert list((tmp_path / "run" / "checkpoint").iterdir()) == []

    def test_no_place_for_compiled_code_is_said_and_survived(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
        assert compiled_cache.choose_cache(tmp_path) is None
        monkeypatch.setattr(compiled_cache, "_can_write", lambda directory: False)
        note = compiled_cache.choose_cache(tmp_path)
        assert note is not None
        assert "NUMBA_CACHE_DIR" in note
        assert os.path.isdir(os.environ["NUMBA_CACHE_DIR"])
        monkeypatch.undo()

    def test_closed_streams_are_no_traceback(self, tmp_path: Path) -> None:
        for closing in ("<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
            line = f"{sys.executable} -m hvil graph tree:2x2 {closing}"
            done = subprocess.run(
                ["sh", "-c", line], env={**os.environ, "PYTHONPATH": SOURCE}, capture_output=True, check=False
            )
            assert done.returncode == 0, closing
            assert done.stderr == b""

    def test_an_early_interrupt_is_one_line(self, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
        def interrupt(called: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("hvil.cli.main.command_parser", interrupt)
        assert main(["graph", "tree:2x2"]) == 130
        assert capsys.readouterr().err == "hvil graph: error: interrupted\n"

    def test_too_little_memory_is_one_line(self, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
        def exhaust(spec: str) -> None:
            raise MemoryError

        monkeypatch.setattr("hvil.machine.callgraph.graph_contents", exhaust)
        assert main(["graph", "tree:2x2"]) == 1
        assert capsys.readouterr().err == "hvil graph: error: out of memory\n"

    def test_the_limit_of_one_command_is_not_that_of_the_next(self, capsys) -> None:
        assert main(["graph", "tree:2x2", "--limit", "1GB"]) == 0
        assert "HVIL_LIMIT" not in os.environ
        assert main(["graph", "tree:2x2", "--limit", "lots"]) == 2
        assert "expected a size" in capsys.readouterr().err


@pytest.mark.slow
def test_a_part_of_the_abuse(tmp_path: Path) -> None:
    """`python -m benchmarks.abuse` runs many more; it forks, so it needs a process without other libraries' threads."""
    command = [sys.executable, "-m", "benchmarks.abuse", "--cases", "60", "--seed", "1", "--keep", str(tmp_path)]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_escapes_are_those_of_json() -> None:
    for text in ("\x1b", "\u202e", "\ud800", "\x9b", "a\nb"):
        assert json.loads(f'"{in_line(text)}"') == text
