"""Minari data sets: what is written comes back equal, and other people's data sets can be read."""

import dataclasses
import warnings
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from hvil.data.formats.minari import load_minari, save_minari
from hvil.data.reading import NO_READING
from hvil.data.tasks import find_task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError

minari = pytest.importorskip("minari")


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


def random_traces(observations: np.ndarray) -> Traces:
    """Two traces over ten observations."""
    return Traces(observations, np.array([0, 2, 1, 1, 0, 2, 1, 0]), np.array([0, 3, 8]), ("a", "b", "c"))


@pytest.mark.parametrize(
    "spec", ["bubblesort", "bubblesort:no-length", "mnist-parity:0.7", "karel:F", "thereandback", "treewalk"]
)
def test_demonstrations_come_back_equal(spec: str) -> None:
    traces = find_task(spec).demonstrations(10, seed=0)
    save_minari(traces, "hvil/traces-v0")
    assert load_minari("minari:hvil/traces-v0") == traces


@pytest.mark.parametrize(
    "observations",
    [
        np.arange(10, dtype=np.int64) - 3,
        np.arange(20, dtype=np.int32).reshape(10, 2),
        np.random.default_rng(0).integers(0, 256, (10, 40, 40, 3), dtype=np.uint8),
        np.arange(20).reshape(10, 2) % 3 == 0,
        np.random.default_rng(0).normal(size=(10, 3, 2)).astype(np.float32),
    ],
    ids=["discrete", "integers", "images", "booleans", "numbers"],
)
def test_observations_of_every_type_come_back_equal(observations: np.ndarray) -> None:
    traces = random_traces(observations)
    save_minari(traces, "anything-v0")
    assert load_minari("anything-v0") == traces


def test_metadata_of_any_type_comes_back_equal() -> None:
    traces = dataclasses.replace(
        random_traces(np.zeros((10, 1), np.float32)),
        metadata={"text": np.array(["one", "zwei"]), "large": np.ones((2, 100, 100)), "flag": np.array([True, False])},
    )
    save_minari(traces, "anything-v0")
    assert load_minari("anything-v0") == traces


def test_annotations_are_arrays_of_fixed_depth_in_infos() -> None:
    traces = find_task("bubblesort").demonstrations(3, seed=0)
    assert traces.annotations is not None
    save_minari(traces, "sorted-v1")
    episode = minari.load_dataset("sorted-v1")[0]
    steps = len(episode.actions)
    assert episode.observations.shape == (steps + 1, 23)
    assert episode.infos["stack"].shape == (steps + 1, 4)
    assert np.array_equal(episode.infos["stack"][:-1], traces.annotations.stacks[:steps])
    assert episode.terminations.tolist() == [False] * (steps - 1) + [True]


def other_peoples(name: str, observation_space: spaces.Space, action_space: spaces.Space, **episode: object) -> None:
    steps = len(episode["actions"])  # type: ignore[arg-type]
    buffer = minari.data_collector.EpisodeBuffer(
        id=0, rewards=[0.0] * steps, terminations=[False] * steps, truncations=[False] * steps, **episode
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        minari.create_dataset_from_buffers(
            name, [buffer], observation_space=observation_space, action_space=action_space
        )


def test_other_peoples_data_sets_are_read() -> None:
    observation_space = spaces.Dict(place=spaces.Box(0, 1, (2,), dtype=np.float64), colour=spaces.Discrete(3))
    other_peoples(
        "theirs-v0",
        observation_space,
        spaces.Discrete(2, start=5),
        observations={"place": np.array([[0.0, 0.5], [1.0, 0.5], [0.25, 0.75]]), "colour": np.array([0, 2, 1])},
        actions=np.array([5, 6]),
        infos={"stack": np.array([[0, -1], [0, 1], [-1, -1]])},
    )
    traces = load_minari("theirs-v0")
    assert traces.action_names == ("5", "6")
    assert traces.actions.tolist() == [0, 1]
    assert traces.observation_names == ("colour", "place[0]", "place[1]")
    assert traces.observations.tolist() == [[0, 0, 0.5], [2, 1, 0.5], [1, 0.25, 0.75]]
    assert traces.reading is not None
    assert traces.reading.categories == {"colour": ("0", "1", "2")}
    one_hot = [[1, 0, 0, 0, 0.5], [0, 0, 1, 1, 0.5], [0, 1, 0, 0.25, 0.75]]
    as_in_earlier_versions = load_minari("theirs-v0", NO_READING)
    assert as_in_earlier_versions.observations.tolist() == one_hot
    assert traces.annotations is not None
    assert traces.annotations.stacks.tolist() == [[0, -1], [0, 1]]
    assert traces.annotations.kept.tolist() == [-1, -1]


def test_actions_in_a_box_are_vectors() -> None:
    box = spaces.Box(0, 1, (1,), dtype=np.float32)
    actions = np.array([[0.25], [0.5]], np.float32)
    other_peoples("theirs-v0", box, box, observations=np.zeros((3, 1), np.float32), actions=actions)
    np.testing.assert_array_equal(load_minari("theirs-v0").vectors, actions)


def test_a_data_set_that_exists_is_not_overwritten() -> None:
    traces = find_task("bubblesort").demonstrations(2, seed=0)
    save_minari(traces, "mine-v0")
    with pytest.raises(InputError, match="exists already"):
        save_minari(traces, "mine-v0")


def test_a_failed_export_leaves_nothing(own_directory: Path) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_minari(find_task("bubblesort").demonstrations(2, seed=0), "mine-v0", interrupt)
    assert not (own_directory / "mine-v0").exists()


def test_missing_damaged_and_misnamed_data_sets_are_refused(own_directory: Path) -> None:
    with pytest.raises(InputError, match="minari:nothing-v0: no such data set"):
        load_minari("nothing-v0")
    for name in ("no-version", "", "bad name-v0"):
        with pytest.raises(InputError, match="expected a name such as"):
            load_minari(name)
    save_minari(find_task("bubblesort").demonstrations(2, seed=0), "mine-v0")
    (own_directory / "mine-v0" / "data" / "main_data.hdf5").write_bytes(b"not hdf5")
    with pytest.raises(InputError, match="minari:mine-v0: damaged"):
        load_minari("mine-v0")


def test_several_choices_at_once_are_one_action() -> None:
    seen, taken = np.zeros((4, 1), dtype=np.float32), np.array([[1, 0], [0, 2], [1, 0]])
    box = spaces.Box(0, 1, (1,), dtype=np.float32)
    other_peoples("theirs-v0", box, spaces.MultiDiscrete([2, 3]), observations=seen, actions=taken, infos={})
    traces = load_minari("theirs-v0")
    assert traces.action_names == ("0,2", "1,0"), "what nobody does is no action"
    assert traces.actions.tolist() == [1, 0, 1]
