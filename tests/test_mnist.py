"""MNIST digits (packaged subset, files with checksums, download) and the parity task on them."""

import gzip
import hashlib
import shutil
import struct
import urllib.error
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from threading import Thread

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from hvil.data.tasks import find_task
from hvil.domains.mnist_parity import MnistParityEnv, MnistParityTask
from hvil.domains.mnist_parity import digits as mnist
from hvil.domains.mnist_parity.digits import digits, packaged_digits
from hvil.domains.mnist_parity.observations import ACTIONS, PIXELS
from hvil.domains.mnist_parity.task import draw_images
from hvil.gate.errors import InputError
from hvil.gate.files import cache_directory
from hvil.machine.callgraph import call_graph


@pytest.fixture(autouse=True)
def no_named_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(mnist.DIRECTORY_VARIABLE, raising=False)


@pytest.fixture
def small_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with files of MNIST's form, made of packaged digits, whose checksums are taken for MNIST's own."""
    directory = tmp_path / "files"
    directory.mkdir()
    for split, (images_name, labels_name) in mnist.FILES.items():
        images, labels = packaged_digits(split)
        images, labels = images[:30], labels[:30]
        for name, contents in (
            (images_name, struct.pack(">BBBBIII", 0, 0, 8, 3, *images.shape) + images.tobytes()),
            (labels_name, struct.pack(">BBBBI", 0, 0, 8, 1, *labels.shape) + labels.tobytes()),
        ):
            (directory / f"{name}.gz").write_bytes(gzip.compress(contents))
            monkeypatch.setitem(mnist.MD5, name, hashlib.md5(contents).hexdigest())
    mnist.full_digits.cache_clear()
    return directory


@pytest.fixture
def mirror(small_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A local mirror of the small files, and an empty cache."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(small_files)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr(mnist, "MIRROR", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_packaged_subset_is_small_and_large_enough() -> None:
    data = files("hvil.domains.mnist_parity") / "data"
    assert sum(len(entry.read_bytes()) for entry in data.iterdir()) < 1_500_000
    assert len(packaged_digits("train").labels) == 6400
    assert len(packaged_digits("test").labels) == 1000
    assert np.bincount(packaged_digits("train").labels).min() > 500


def test_files_are_read_gzipped_or_plain_and_in_torchvisions_layout(small_files: Path, tmp_path: Path) -> None:
    expected = digits("train", full=True, directory=small_files)
    assert np.array_equal(expected.images, packaged_digits("train").images[:30])
    raw = tmp_path / "root" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for packed in small_files.iterdir():
        (raw / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    for found, wanted in zip(digits("train", full=True, directory=tmp_path / "root"), expected, strict=True):
        assert np.array_equal(found, wanted)


def test_environment_variable_names_the_directory(small_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(mnist.DIRECTORY_VARIABLE, str(small_files))
    assert len(digits("test", full=True).labels) == 30
    assert MnistParityTask(0.7).name == "mnist-parity:0.7,full"


def test_a_flipped_byte_is_noticed(small_files: Path) -> None:
    path = small_files / "t10k-labels-idx1-ubyte.gz"
    contents = bytearray(gzip.decompress(path.read_bytes()))
    contents[-1] ^= 1
    path.write_bytes(gzip.compress(bytes(contents)))
    with pytest.raises(InputError, match=r"t10k-labels-idx1-ubyte.gz: damaged or not MNIST, the MD5 .* expected"):
        digits("test", full=True, directory=small_files)


def test_a_truncated_file_is_noticed(small_files: Path) -> None:
    path = small_files / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(InputError, match="damaged gzip file"):
        digits("test", full=True, directory=small_files)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz"):
        digits("train", full=True, directory=tmp_path)


def test_download_fills_the_cache_once(mirror: ThreadingHTTPServer, small_files: Path) -> None:
    first = digits("test", full=True)
    assert len(first.labels) == 30
    assert len(list((cache_directory() / "mnist").iterdir())) == 2
    shutil.rmtree(small_files)
    mnist.full_digits.cache_clear()
    assert np.array_equal(digits("test", full=True).images, first.images)


def test_a_damaged_download_is_refused_and_not_kept(mirror: ThreadingHTTPServer, small_files: Path) -> None:
    (small_files / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"something else"))
    with pytest.raises(InputError, match="MD5"):
        digits("test", full=True)
    assert not (cache_directory() / "mnist").exists()


def test_offline_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise urllib.error.URLError("Temporary failure in name resolution")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("urllib.request.urlopen", refuse)
    mnist.full_digits.cache_clear()
    with pytest.raises(InputError, match=r"name resolution\); offline, put .* HVIL_MNIST .* packaged subset"):
        digits("train", full=True)


@pytest.mark.parametrize("contents", [b"", b"\x00\x00\x08", b"\x00\x00\x0d\x01\x00\x00\x00\x00"])
def test_what_is_not_idx_is_refused(contents: bytes) -> None:
    with pytest.raises(InputError, match="idx"):
        mnist.parse_idx(contents)


@pytest.mark.parametrize("p", [0.6, 0.8, 1.0])
def test_teacher_is_right_with_probability_p(p: float) -> None:
    traces = MnistParityTask(p).demonstrations(4000, seed=1)
    right = (traces.actions == traces.metadata["digit"] % 2).mean()
    assert right == 1.0 if p == 1.0 else abs(right - p) < 0.03
    assert (traces.lengths == 1).all()


def test_observations_are_the_image_then_the_digit() -> None:
    traces = MnistParityTask(1.0).demonstrations(50, seed=2)
    first, second = traces.observations[0::2], traces.observations[1::2]
    images = packaged_digits("train").images[traces.metadata["image"]].reshape(50, -1) / 255.0
    assert np.allclose(first[:, :PIXELS], (images - 0.1307) / 0.3081, atol=1e-5)
    assert not first[:, PIXELS:].any()
    assert not second[:, :PIXELS].any()
    assert np.array_equal(second[:, PIXELS:], np.eye(10)[traces.metadata["digit"]])
    assert traces.observations.dtype == np.float32


def test_shuffled_digits_are_those_of_other_traces_and_nothing_else_changes() -> None:
    plain, shuffled = (find_task(f"mnist-parity:0.7{word}").demonstrations(50, seed=3) for word in ("", ",shuffled"))
    np.testing.assert_array_equal(plain.observations[0::2], shuffled.observations[0::2])
    np.testing.assert_array_equal(plain.actions, shuffled.actions)
    np.testing.assert_array_equal(plain.metadata["digit"], shuffled.metadata["digit"])
    seen = shuffled.observations[1::2, PIXELS:].argmax(axis=1)
    assert sorted(seen) == sorted(plain.metadata["digit"])
    assert 0 < (seen == plain.metadata["digit"]).mean() < 0.5


def test_test_traces_have_the_true_parity_of_test_images() -> None:
    traces = MnistParityTask(0.6).test_demonstrations(1000, seed=0)
    labels = packaged_digits("test").labels[traces.metadata["image"]]
    assert np.array_equal(traces.actions, labels % 2)
    assert len(set(traces.metadata["image"].tolist())) == 1000
    assert traces.metadata["is_test"].all()


def test_no_image_comes_twice_before_all_came() -> None:
    chosen = draw_images(10, 25, np.random.default_rng(0))
    assert sorted(chosen[:10]) == sorted(chosen[10:20]) == list(range(10))
    assert np.array_equal(draw_images(10, 7, np.random.default_rng(0)), chosen[:7])


def test_same_seed_same_traces_and_a_smaller_count_is_a_prefix() -> None:
    parity = MnistParityTask(0.7)
    traces = parity.demonstrations(40, seed=5)
    assert traces == parity.demonstrations(40, seed=5)
    assert traces[:15] == parity.demonstrations(15, seed=5)


def test_environment_agrees_with_the_traces() -> None:
    parity = find_task("mnist-parity:0.6")
    for traces in (parity.demonstrations(20, seed=3), parity.test_demonstrations(20, seed=3)):
        env = parity.environment()
        for index, trace in enumerate(traces):
            observation, _ = env.reset(options=parity.reset_options(traces, index))
            assert np.array_equal(observation, trace.observations[0])
            observation, reward, terminated, _, _ = env.step(int(trace.actions[0]))
            assert np.array_equal(observation, trace.observations[1])
            assert not terminated
            _, reward, terminated, _, info = env.step(len(ACTIONS))
            right = bool(trace.actions[0] == trace.metadata["digit"][0] % 2)
            assert (reward, terminated, info["success"]) == (float(right), True, right)


@pytest.mark.parametrize("actions", [[2], [0, 0], [1, 1], [0, 1]])
def test_terminating_at_once_or_answering_twice_is_no_success(actions: list[int]) -> None:
    env = MnistParityEnv()
    env.reset(seed=0)
    results = [env.step(action) for action in actions]
    assert [result[2] for result in results] == [False] * (len(actions) - 1) + [True]
    assert results[-1][4] == {"success": False}


@pytest.mark.parametrize("mode", [None, "ansi", "rgb_array"])
def test_check_env_passes(mode: str | None) -> None:
    check_env(gymnasium.make("hvil/MnistParity-v0", render_mode=mode).unwrapped)


def test_pictures_show_the_image_and_later_the_digit() -> None:
    env = MnistParityEnv(render_mode="ansi")
    env.reset(options={"image": 0})
    assert env.render().endswith("answer: -   digit: ?")
    env.step(1)
    assert env.render().endswith(f"answer: odd   digit: {packaged_digits('test').labels[0]}")
    env = MnistParityEnv(render_mode="rgb_array")
    env.reset(options={"image": 0})
    before = env.render()
    env.step(1)
    assert (before != env.render()).any()


def test_default_call_graph_calls_then_acts() -> None:
    graph = call_graph(MnistParityTask(1.0).default_call_graph, ACTIONS)
    assert len(graph.procedures) == 6
    assert graph.acts[graph.root] == ()
    assert len(graph.calls[graph.root]) == 5
    assert graph.max_depth == 2


@pytest.mark.parametrize(
    "spec", ["mnist-parity:0.7", "mnist-parity:1", "mnist-parity:0.6,full", "mnist-parity:0.6,full,shuffled"]
)
def test_task_strings_name_their_task(spec: str) -> None:
    assert find_task(spec).name == spec


@pytest.mark.parametrize(
    "spec",
    [
        "mnist-parity",
        "mnist-parity:",
        "mnist-parity:2",
        "mnist-parity:x",
        "mnist-parity:1,x",
        "mnist-parity:1,shuffled,full",
    ],
)
def test_wrong_task_strings_are_refused(spec: str) -> None:
    with pytest.raises(InputError, match=r"mnist-parity:0\.7"):
        find_task(spec)


@pytest.mark.parametrize("options", [{"image": 1000}, {"image": -1}, {"split": "validation"}])
def test_wrong_reset_options_are_refused(options: dict) -> None:
    with pytest.raises(InputError, match="expected"):
        MnistParityEnv().reset(options=options)
