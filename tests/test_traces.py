"""Sets of traces: what is checked at construction, and what can be done with them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_traces import NAMES, annotated, two_traces
from strategies import trace_sets

import hvil
from hvil.data.arrays import OBSERVATION_DTYPES
from hvil.data.traces import Annotations, Traces, concatenate
from hvil.gate.errors import InputError


class TestConstruction:
    @pytest.mark.parametrize("dtype", [*OBSERVATION_DTYPES, ">f4", ">i8"])
    def test_observations_of_every_allowed_type_are_kept_as_few_types(self, dtype: str) -> None:
        traces = two_traces(observations=np.ones((6, 2), dtype=dtype))
        assert traces.observations.dtype.name in {"float32", "int32", "int64", "uint8", "bool"}
        assert (traces.observations == 1).all()

    def test_arrays_cannot_be_changed(self) -> None:
        traces = two_traces(metadata={"length": np.array([2, 3])})
        for array in (
            traces.observations,
            traces.actions,
            traces.offsets,
            traces.metadata["length"],
            traces[1].actions,
        ):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0

    def test_the_caller_keeps_an_array_that_can_be_changed(self) -> None:
        observations = np.zeros((6, 2), dtype=np.float32)
        two_traces(observations=observations)
        observations[0] = 1

    def test_a_set_says_what_it_holds(self) -> None:
        traces = two_traces(attributes={"task": "toy"})
        assert repr(traces) == (
            "Traces(2 traces of toy, 1–3 actions (mean 2.0), 2 kinds of action, observations (2,) float32)"
        )
        assert "75% of steps annotated" in repr(annotated([[0], [0], [-1], [0]], [1, 1, -1, 1]))

    def test_spaces_contain_the_data(self) -> None:
        for dtype, shape in [("float32", (2,)), ("uint8", (3, 3)), ("int64", ()), ("int32", (2,))]:
            traces = two_traces(observations=np.full((6, *shape), 5, dtype=dtype))
            assert traces.observation_space.contains(traces.observations[0] if shape else int(traces.observations[0]))
            assert traces.action_space.n == 2

    def test_from_episodes_equals_the_flat_form(self) -> None:
        flat = two_traces()
        built = Traces.from_episodes(
            [flat.observations[:4], flat.observations[4:]], [flat.actions[:3], flat.actions[3:]], NAMES
        )
        assert built == flat

    def test_names_are_public(self) -> None:
        assert hvil.Traces is Traces
        assert hvil.Annotations is Annotations
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            hvil.nothing  # noqa: B018


BAD = {
    "empty trace": ({"offsets": [0, 4, 4], "observations": np.zeros((6, 2))}, "trace 1 is empty"),
    "falling offsets": ({"offsets": [0, 5, 4]}, "trace 1 has a negative length"),
    "offsets end early": ({"offsets": [0, 1, 3]}, "offsets do not fit: they run from 0 to 3, expected 0 to 4"),
    "offsets start late": ({"offsets": [1, 3, 4]}, "offsets do not fit: they run from 1"),
    "offsets of two dimensions": ({"offsets": [[0, 4]]}, "offsets must have 1 dimension"),
    "no traces": ({"offsets": [0], "actions": np.zeros(0, int)}, "no traces"),
    "no offsets": ({"offsets": np.zeros(0, int)}, "no traces"),
    "action too large": ({"actions": [0, 1, 2, 0]}, "trace 0, step 2: action 2 is out of range, expected 0..1"),
    "action below 0": ({"actions": [0, 1, 1, -1]}, "trace 1, step 0: action -1 is out of range"),
    "huge action": ({"actions": [0, 1, 1, 2**40]}, "actions hold a number outside"),
    "actions that are floats": ({"actions": [0.0, 1.0, 1.0, 0.0]}, "actions must be whole numbers, found float64"),
    "too few observations": ({"observations": np.zeros((5, 2))}, "4 actions in 2 traces need 6 observations"),
    "observations of text": ({"observations": np.full((6, 2), "x")}, "observations are <U1; allowed: bool, float16"),
    "observations of objects": ({"observations": np.full((6, 2), None)}, "observations are object"),
    "observations of nothing": ({"observations": np.zeros((6, 0))}, "at least one number"),
    "no observation array": ({"observations": np.float32(1)}, "expected rows"),
    "names that do not fit": ({"observation_names": ("x",)}, "1 observation names for 2 columns"),
    "a name twice": ({"observation_names": ("x", "x")}, "observation name 'x' stands twice"),
    "an action name twice": ({"action_names": ("x", "x")}, "action name 'x' stands twice"),
    "short metadata": ({"metadata": {"n": [1, 2, 3]}}, "metadata 'n' must have one entry for each of 2 traces"),
    "single metadata": ({"metadata": {"n": 1}}, "metadata 'n' must have one entry"),
    "metadata of objects": ({"metadata": {"n": [None, None]}}, "metadata 'n' holds object"),
    "metadata of long doubles": ({"metadata": {"n": np.zeros(2, np.longdouble)}}, "metadata 'n' holds float128"),
}


@pytest.mark.usefixtures("no_type_checks")
@pytest.mark.parametrize(("changed", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_in_one_line(changed: dict[str, Any], message: str) -> None:
    arrays = {k: np.asarray(v) if k in ("observations", "actions", "offsets") else v for k, v in changed.items()}
    arrays |= {"metadata": {k: np.asarray(v) for k, v in arrays.get("metadata", {}).items()}}
    with pytest.raises(InputError) as caught:
        two_traces(**arrays)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_a_number_that_is_not_finite_is_found(value: float) -> None:
    observations = np.zeros((6, 2))
    observations[4, 1] = value
    with pytest.raises(InputError, match="trace 1, step 0: the observation has a value that is not finite"):
        two_traces(observations=observations)


def test_opposite_infinities_and_large_numbers_are_told_apart() -> None:
    observations = np.full((6, 2), 3e38, dtype=np.float32)
    assert two_traces(observations=observations).observations.max() > 1e38
    observations[1] = [np.inf, -np.inf]
    with pytest.raises(InputError, match="trace 0, step 1"):
        two_traces(observations=observations)


@pytest.mark.parametrize(
    ("observations", "actions", "message"),
    [
        ([], [], "no traces"),
        ([np.zeros((2, 1))], [], "1 observation arrays but 0 action arrays"),
        ([np.zeros((1, 1))], [np.zeros(0)], "trace 0 is empty"),
        ([np.zeros((2, 1)), np.zeros((4, 1))], [np.zeros(1, int), np.zeros(4, int)], "trace 1: 4 actions need 5"),
        ([np.zeros((2, 1)), np.zeros((2, 3))], [np.zeros(1, int)] * 2, "trace 1: its observations have the shape (3,)"),
        ([np.zeros((2, 1))], [np.zeros((1, 1), int)], "trace 0: its actions must have 1 dimension"),
    ],
)
def test_from_episodes_names_the_trace_at_fault(observations: list[Any], actions: list[Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Traces.from_episodes(observations, actions, NAMES)
    assert message in str(caught.value)


class TestAnnotations:
    @pytest.mark.usefixtures("no_type_checks")
    @pytest.mark.parametrize(
        ("stacks", "kept", "message"),
        [
            ([[0], [0], [0], [2]], [1] * 4, "step 3 names a procedure outside 0..1"),
            ([[0], [-2], [0], [0]], [1] * 4, "step 1 names a procedure outside 0..1"),
            ([[0, -1, 1]] * 4, [1] * 4, "the stack of step 0 has a hole"),
            ([[0], [0], [0], [0]], [1, 2, 1, 1], "step 1 keeps more frames than its stack has"),
            ([[0], [0], [0], [0]], [1, 0, 1, 1], "step 1 keeps more frames than its stack has, or none"),
            ([[0], [0]], [1, 1, 1], "2 stacks but 3 kept counts"),
            ([[0], [0]], [1, 1], "annotations have 2 steps, the traces 4"),
            ([[0, 1]] * 4, [1, 2, 2, 2], "trace 1, step 0: only the root can be kept at the start"),
            ([[0, 1], [0, 0], [0, 0], [0, 0]], [1, 2, 2, 1], "trace 0, step 1: a frame is said to be kept"),
            ([[0, 1], [0, 1], [1, 0], [0, 0]], [1, 2, -1, 1], "trace 0, step 2: a frame is said to be kept"),
        ],
    )
    def test_what_cannot_be_is_refused(self, stacks: list[list[int]], kept: list[int], message: str) -> None:
        with pytest.raises(InputError) as caught:
            annotated(stacks, kept)
        assert message in str(caught.value)

    def test_steps_may_be_unknown(self) -> None:
        traces = annotated([[0, 1], [-1, -1], [0, -1], [0, 1]], [1, 7, -1, 1])
        assert traces.annotations is not None
        assert traces.annotations.known.tolist() == [True, False, True, True]
        assert traces.annotations.kept.tolist() == [1, -1, -1, 1]
        assert traces.annotations.depths.tolist() == [2, 0, 1, 2]

    def test_stacks_of_no_depth_are_unknown(self) -> None:
        empty = Annotations((), np.zeros((4, 0), dtype=int), np.full(4, -1))
        assert not empty.known.any()
        assert two_traces(annotations=empty)[1].annotations == empty.take(np.array([3]))

    def test_padding_makes_no_difference(self) -> None:
        assert annotated([[0]] * 4, [1] * 4) == annotated([[0, -1]] * 4, [1] * 4)
        assert annotated([[0]] * 4, [1] * 4) != annotated([[0, -1], [0, 1], [0, 1], [0, -1]], [1] * 4)


class TestParts:
    @given(trace_sets(), st.data())
    def test_chosen_traces_are_those_traces(self, traces: Traces, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.integers(0, len(traces) - 1), min_size=1, max_size=6))
        part = traces[chosen]
        assert len(part) == len(chosen)
        for position, index in enumerate(chosen):
            start, end = traces.offsets[index], traces.offsets[index + 1]
            alone = part[position]
            assert np.array_equal(alone.actions, traces.actions[start:end])
            assert np.array_equal(alone.observations, traces.observations[start + index : end + index + 1])
            assert alone == traces[index]
            if traces.annotations is not None:
                assert alone.annotations == traces.annotations.take(np.arange(start, end))
            for name, values in traces.metadata.items():
                assert np.array_equal(alone.metadata[name][0], values[index])

    @given(trace_sets())
    def test_parts_are_valid_sets(self, traces: Traces) -> None:
        for part in (traces[::-1], traces[:1], traces.shuffled(np.random.default_rng(0))):
            fields = {name: getattr(part, name) for name in Traces.__dataclass_fields__}
            assert Traces(**fields) == part

    def test_traces_are_chosen_in_every_way_numpy_knows(self) -> None:
        traces = two_traces()
        assert traces[-1] == traces[1] == traces[[1]] == traces[1:] == traces[np.array([False, True])]
        assert traces[::-1] == traces[[1, 0]]
        assert [len(trace.actions) for trace in traces] == [3, 1]

    def test_neighbours_share_memory_with_the_whole(self) -> None:
        traces = two_traces()
        assert np.shares_memory(traces[1:].observations, traces.observations)

    @pytest.mark.parametrize("index", [2, -3, [5], np.array([[0]]), [True]])
    def test_what_is_not_there_cannot_be_chosen(self, index: Any) -> None:
        with pytest.raises(IndexError):
            two_traces()[index]

    @pytest.mark.parametrize("index", [slice(0, 0), [], np.zeros(2, dtype=bool)])
    def test_nothing_is_not_a_set(self, index: Any) -> None:
        with pytest.raises(InputError, match="no traces selected"):
            two_traces()[index]

    @given(trace_sets(max_traces=6))
    def test_a_split_can_be_joined_again(self, traces: Traces) -> None:
        if len(traces) > 1:
            assert concatenate(traces.split(1)) == traces
            assert concatenate(list(traces)) == traces

    @pytest.mark.parametrize("first", [0, 2, 0.0, 1.0, 5.0, float("nan"), 0.1])
    def test_both_sides_of_a_split_need_a_trace(self, first: float) -> None:
        with pytest.raises(InputError, match="cannot split"):
            two_traces().split(first)

    def test_only_what_all_have_survives_joining(self) -> None:
        one = two_traces(
            metadata={"n": np.array([1, 2]), "m": np.array(["a", "b"])}, attributes={"task": "x", "s": "1"}
        )
        other = two_traces(metadata={"n": np.array([3, 4]), "m": np.array([1, 2])}, attributes={"task": "x", "s": "2"})
        joined = concatenate([one, other, other])
        assert joined.metadata["n"].tolist() == [1, 2, 3, 4, 3, 4]
        assert list(joined.metadata) == ["n"]
        assert dict(joined.attributes) == {"task": "x"}
        assert concatenate([annotated([[0]] * 4, [1] * 4), one]).annotations is None
        deep, flat = annotated([[0, 1]] * 4, [1] * 4), annotated([[0]] * 4, [1] * 4)
        assert concatenate([deep, flat])[2:] == flat

    def test_other_spaces_cannot_be_joined(self) -> None:
        with pytest.raises(InputError, match="different actions or observations"):
            concatenate([two_traces(), two_traces(action_names=("left", "up"))])
        with pytest.raises(InputError, match="no sets"):
            concatenate([])

    def test_shuffling_depends_on_the_generator_alone(self) -> None:
        traces = concatenate([two_traces()] * 10)
        assert traces.shuffled(np.random.default_rng(1)) == traces.shuffled(np.random.default_rng(1))
        assert traces.shuffled(np.random.default_rng(1)) != traces.shuffled(np.random.default_rng(2))

    def test_length_statistics(self) -> None:
        assert two_traces()[[0, 0, 1]].length_statistics() == (1, 7 / 3, 3.0, 3)

    @given(trace_sets())
    def test_padding_is_zero_and_the_code_of_the_end(self, traces: Traces) -> None:
        batch = traces.padded()
        assert batch.lengths.tolist() == traces.lengths.tolist()
        for i, trace in enumerate(traces):
            length = int(trace.lengths[0])
            assert np.array_equal(batch.observations[i, : length + 1], trace.observations)
            assert not batch.observations[i, length + 1 :].any()
            assert np.array_equal(batch.actions[i, :length], trace.actions)
            assert (batch.actions[i, length:] == len(traces.action_names)).all()


class TestEquality:
    def test_every_field_counts(self) -> None:
        assert two_traces() == two_traces()
        assert two_traces() != "traces"
        assert two_traces() != two_traces(observation_names=("x", "y"))
        assert two_traces() != two_traces(metadata={"n": np.array([1, 2])})
        assert two_traces() != two_traces(attributes={"task": "x"})
        assert two_traces() != two_traces(observations=np.arange(12).reshape(6, 2))

    def test_missing_numbers_in_metadata_are_equal(self) -> None:
        score = {"score": np.array([np.nan, 1.0])}
        assert two_traces(metadata=score) == two_traces(metadata=score)
