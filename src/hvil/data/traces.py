"""Ragged sets of observation–action traces: the data type that every learner reads.

A set is flat arrays plus offsets, checked once at construction and never changed. Files are left to `trace_files`,
call structure that comes with the data to `annotations`. Continuous actions are one kind of action, "act", with a
vector for each time it is taken.

Letters: N traces, S actions of all traces together, R rows (observations of all traces together, R = S + N), A numbers
of a continuous action.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Num, Shaped

from hvil.data.annotations import Annotations, join
from hvil.data.arrays import (
    check_vectors,
    first_non_finite,
    is_vectors,
    stored_metadata,
    stored_observations,
    stored_vectors,
)
from hvil.data.ragged import integers, locate, part_of, read_only, rows_of, selection, unique_names
from hvil.data.reading import Reading
from hvil.gate.errors import InputError

__all__ = ["ACT", "Annotations", "LengthStatistics", "Padded", "Traces", "concatenate", "is_vectors"]

ACT = "act"
"""The one kind of action of traces with continuous actions."""

TRACES_AT_ONCE = 256
"""Traces that go through networks or environments together when no gradient is needed: enough of them that the time of
a call does not count, and few enough that a batch of images or of long traces fits into memory."""


class Padded(NamedTuple):
    """A batch of traces as rectangles, zero beyond each trace's end."""

    observations: Num[np.ndarray, "N times *shape"] | Bool[np.ndarray, "N times *shape"]
    """o_t for t = 0..T, so `times` is the longest T plus one."""
    actions: Int[np.ndarray, "N times"]
    """a_t for t < T; the number of actions (the code of ∅) from T on."""
    lengths: Int[np.ndarray, "N"]
    """T, the number of actions of each trace."""


class LengthStatistics(NamedTuple):
    """How many actions the traces of a set have."""

    shortest: int
    mean: float
    median: float
    longest: int


@dataclass(frozen=True, eq=False, repr=False)
class Traces:
    """A set of traces `o_0, a_0, …, o_T, ∅`: T+1 observations and T ≥ 1 actions each, the final ∅ implied."""

    observations: Num[np.ndarray, "rows *shape"] | Bool[np.ndarray, "rows *shape"]
    """All observations of all traces, one after another."""
    actions: Int[np.ndarray, "S"]
    """All actions of all traces."""
    offsets: Int[np.ndarray, "N_plus_1"]
    """Trace i has actions `offsets[i]:offsets[i+1]` and observations `offsets[i]+i : offsets[i+1]+i+1`."""
    action_names: tuple[str, ...]
    observation_names: tuple[str, ...] = ()
    """One name a column of a flat observation, or none."""
    annotations: Annotations | None = None
    metadata: Mapping[str, Shaped[np.ndarray, "N ..."]] = field(default_factory=dict)
    """Arrays with one entry a trace, such as the initial state."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Facts about the whole set, such as the task."""
    reading: Reading | None = None
    """How the observations were made from the columns of a table; None if they were numbers from the start."""
    vectors: Float[np.ndarray, "S A"] | None = None
    """Continuous actions: the vector of each action, whose kind is then always `ACT`; None for discrete actions."""
    vector_names: tuple[str, ...] = ()
    """One name for each number of a continuous action; by default 0, 1, …"""

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "observations", stored_observations(self.observations))
        set_(self, "actions", integers(self.actions, "actions", np.int32, dimensions=1))
        set_(self, "offsets", integers(self.offsets, "offsets", np.int64, dimensions=1))
        set_(self, "action_names", unique_names(self.action_names, "action"))
        set_(self, "observation_names", unique_names(self.observation_names, "observation"))
        if self.vectors is not None:
            set_(self, "vectors", stored_vectors(self.vectors))
            names = self.vector_names or tuple(str(number) for number in range(self.vectors.shape[1]))
            set_(self, "vector_names", unique_names(names, "action component"))
        metadata = {str(name): stored_metadata(values) for name, values in self.metadata.items()}
        set_(self, "metadata", MappingProxyType(metadata))
        attributes = {str(name): str(value) for name, value in self.attributes.items()}
        set_(self, "attributes", MappingProxyType(attributes))
        _validate(self)

    @staticmethod
    def from_episodes(
        observations: Sequence[np.ndarray],
        actions: Sequence[np.ndarray],
        action_names: Sequence[str],
        observation_names: Sequence[str] = (),
        annotations: Annotations | None = None,
        metadata: Mapping[str, Any] | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> "Traces":
        """Build a set from one array of observations and one of actions for each trace.

        Actions are whole numbers, one a step, or vectors: arrays of fractions with one row a step. Of vectors,
        `action_names` are the names of their components.
        """
        if len(observations) != len(actions):
            raise InputError(f"{len(observations)} observation arrays but {len(actions)} action arrays")
        if not actions:
            raise InputError("no traces: a set needs at least one")
        for i, (o, a) in enumerate(zip(observations, actions, strict=True)):
            if not len(a):
                raise InputError(f"trace {i} is empty; a trace has at least one action")
            if len(o) != len(a) + 1:
                raise InputError(f"trace {i}: {len(a)} actions need {len(a) + 1} observations, found {len(o)}")
            if np.shape(o)[1:] != np.shape(observations[0])[1:]:
                shapes = f"{np.shape(o)[1:]}, those of trace 0 {np.shape(observations[0])[1:]}"
                raise InputError(f"trace {i}: its observations have the shape {shapes}")
            if np.ndim(a) != np.ndim(actions[0]) or np.shape(a)[1:] != np.shape(actions[0])[1:]:
                shapes = f"{np.shape(a)[1:]}, those of trace 0 {np.shape(actions[0])[1:]}"
                raise InputError(f"trace {i}: its actions have the shape {shapes}")
            if np.ndim(a) != 1 and not is_vectors(a):
                raise InputError(
                    f"trace {i}: its actions must have 1 dimension (kinds), or 2 (vectors of fractions), "
                    f"found {np.ndim(a)} of {np.asarray(a).dtype}"
                )
        joined = np.concatenate([np.asarray(a) for a in actions])
        vectors = joined if joined.ndim == 2 else None
        return Traces(
            observations=np.concatenate([np.asarray(o) for o in observations]),
            actions=joined if vectors is None else np.zeros(len(joined), dtype=np.int32),
            offsets=np.cumsum([0, *(len(a) for a in actions)]),
            action_names=tuple(action_names) if vectors is None else (ACT,),
            vectors=vectors,
            vector_names=() if vectors is None else tuple(action_names),
            observation_names=tuple(observation_names),
            annotations=annotations,
            metadata=metadata or {},
            attributes=attributes or {},
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Int[np.ndarray, "N"]:
        """T, the number of actions of each trace."""
        return np.diff(self.offsets)

    @property
    def row_offsets(self) -> Int[np.ndarray, "N_plus_1"]:
        """The row at which the observations of each trace start; the number of rows at the end."""
        return self.offsets + np.arange(len(self.offsets))

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Shape of one observation."""
        return tuple(self.observations.shape[1:])

    @property
    def observation_space(self) -> Any:
        """The observations as a Gymnasium space: all that their type can hold, or the range of single whole numbers."""
        from gymnasium import spaces  # here, for a fast start

        shape, dtype = self.observation_shape, self.observations.dtype
        if not shape and dtype.kind in "iu":
            lowest = int(self.observations.min())
            return spaces.Discrete(int(self.observations.max()) - lowest + 1, start=lowest)
        if dtype.kind == "b":
            return spaces.MultiBinary(shape)
        low, high = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return spaces.Box(low, high, shape, dtype=dtype.type)

    @property
    def action_space(self) -> Any:
        """The actions as a Gymnasium space; ∅ is not among them."""
        from gymnasium import spaces  # here, for a fast start

        if self.vectors is not None:
            return spaces.Box(-np.inf, np.inf, self.vectors.shape[1:], dtype=np.float32)
        return spaces.Discrete(len(self.action_names))

    def length_statistics(self) -> LengthStatistics:
        """The shortest, mean, median and longest trace, in actions."""
        lengths = self.lengths
        return LengthStatistics(
            shortest=int(lengths.min()),
            mean=float(lengths.mean()),
            median=float(np.median(lengths)),
            longest=int(lengths.max()),
        )

    def __getitem__(self, index: int | slice | Sequence[int] | np.ndarray) -> "Traces":
        """Some of the traces, in the given order; an integer gives a set of one."""
        selected = selection(index, len(self))
        steps, rows = rows_of(self.offsets, selected), rows_of(self.row_offsets, selected)
        return part_of(
            self,
            observations=self.observations[rows],
            actions=self.actions[steps],
            vectors=None if self.vectors is None else read_only(self.vectors[steps]),
            offsets=np.concatenate([[0], np.cumsum(self.lengths[selected])]),
            annotations=None if self.annotations is None else self.annotations.take(steps),
            metadata=MappingProxyType({name: read_only(values[selected]) for name, values in self.metadata.items()}),
        )

    def __iter__(self) -> Iterator["Traces"]:
        return (self[i] for i in range(len(self)))

    def parts(self, size: int = TRACES_AT_ONCE) -> Iterator["Traces"]:
        """The set in parts of at most `size` traces, in order."""
        return (self[first : first + size] for first in range(0, len(self), size))

    def contents(self) -> list[bytes]:
        """A digest of each trace's observations and actions: two traces are the same if their digests are."""
        rows, offsets = self.row_offsets, self.offsets
        digests = []
        for i in range(len(self)):
            digest = blake2b(self.observations[rows[i] : rows[i + 1]].tobytes(), digest_size=16)
            taken = self.actions if self.vectors is None else self.vectors
            digest.update(taken[offsets[i] : offsets[i + 1]].tobytes())
            digests.append(digest.digest())
        return digests

    def shuffled(self, rng: np.random.Generator) -> "Traces":
        """The same traces in a random order."""
        return self[rng.permutation(len(self))]

    def split(self, first: int | float) -> tuple["Traces", "Traces"]:
        """Two sets: the first `first` traces (a count, or a fraction below 1) and the rest."""
        if isinstance(first, float) and not 0 < first < 1:
            raise InputError(f"cannot split off a fraction of {first}: expected a number between 0 and 1, or a count")
        count = round(first * len(self)) if isinstance(first, float) else first
        if not 0 < count < len(self):
            raise InputError(f"cannot split {len(self)} traces into {count} and {len(self) - count}: both need one")
        return self[:count], self[count:]

    def emitted(self) -> Int[np.ndarray, "R"]:
        """What is done at each row: the action, and ∅ (the number of actions) at each trace's last row."""
        return np.insert(self.actions, self.offsets[1:], len(self.action_names)).astype(np.int64)

    def vector_rows(self) -> Float[np.ndarray, "R A"]:
        """The vector of the continuous action at each row; zeros at each trace's last row, where there is none."""
        assert self.vectors is not None
        return np.insert(self.vectors, self.offsets[1:], np.float32(0), axis=0)

    def padded(self) -> Padded:
        """All traces as rectangles; meant for a batch, not for a large set."""
        lengths, count = self.lengths, len(self)
        times = int(lengths.max()) + 1
        observations = np.zeros((count, times, *self.observation_shape), dtype=self.observations.dtype)
        actions = np.full((count, times), len(self.action_names), dtype=np.int64)
        observations[np.arange(times) < (lengths + 1)[:, None]] = self.observations
        actions[np.arange(times) < lengths[:, None]] = self.actions
        return Padded(observations, actions, lengths)

    def __repr__(self) -> str:
        lengths = self.length_statistics()
        annotated = "" if self.annotations is None else f", {self.annotations.known.mean():.0%} of steps annotated"
        kinds = f"{len(self.action_names)} kinds of action"
        actions = kinds if self.vectors is None else f"actions of {self.vectors.shape[1]} number(s)"
        task = f" of {self.attributes['task']}" if "task" in self.attributes else ""
        return (
            f"Traces({len(self)} traces{task}, {lengths.shortest}–{lengths.longest} actions (mean {lengths.mean:.1f}), "
            f"{actions}, observations {self.observation_shape} "
            f"{self.observations.dtype}{annotated})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Traces):
            return NotImplemented
        return (
            all(getattr(self, name) == getattr(other, name) for name in _NAMES)
            and self.reading == other.reading
            and self.observations.dtype == other.observations.dtype
            and all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in ("observations", "actions", "offsets", "vectors")
            )
            and self.annotations == other.annotations
            and self.attributes == other.attributes
            and self.metadata.keys() == other.metadata.keys()
            and all(_same(self.metadata[name], other.metadata[name]) for name in self.metadata)
        )

    __hash__ = None  # type: ignore[assignment]


_NAMES = ("action_names", "observation_names", "vector_names")


def _kinds(traces: Traces) -> tuple[Any, ...]:
    """What sets must have in common to be joined."""
    return traces.action_names, traces.vector_names, traces.observation_shape


def concatenate(parts: Sequence[Traces]) -> Traces:
    """One set out of several with the same actions and observations; of the rest it keeps what all of them share."""
    if not parts:
        raise InputError("no sets of traces to join")
    first = parts[0]
    for part in parts[1:]:
        if _kinds(part) != _kinds(first):
            raise InputError("sets with different actions or observations cannot be joined")
    shifts = np.cumsum([0] + [len(part.actions) for part in parts[:-1]])
    shared = [name for name in first.metadata if all(_joinable(name, first, part) for part in parts)]
    named = all(part.observation_names == first.observation_names for part in parts)
    return replace(
        first,
        observations=np.concatenate([part.observations for part in parts]),
        actions=np.concatenate([part.actions for part in parts]),
        vectors=None if first.vectors is None else np.concatenate([part.vectors for part in parts]),
        offsets=np.concatenate([[0], *(part.offsets[1:] + shift for part, shift in zip(parts, shifts, strict=True))]),
        observation_names=first.observation_names if named else (),
        annotations=join([part.annotations for part in parts]),
        metadata={name: np.concatenate([part.metadata[name] for part in parts]) for name in shared},
        attributes={k: v for k, v in first.attributes.items() if all(part.attributes.get(k) == v for part in parts)},
    )


def _joinable(name: str, first: Traces, part: Traces) -> bool:
    if name not in part.metadata:
        return False
    one, other = first.metadata[name], part.metadata[name]
    return one.shape[1:] == other.shape[1:] and (one.dtype.kind == "U") == (other.dtype.kind == "U")


def _same(one: Shaped[np.ndarray, "..."], other: Shaped[np.ndarray, "..."]) -> bool:
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f"))


def _validate(traces: Traces) -> None:
    observations, actions, offsets = traces.observations, traces.actions, traces.offsets
    if len(offsets) < 2:
        raise InputError("no traces: a set needs at least one")
    if offsets[0] != 0 or offsets[-1] != len(actions):
        raise InputError(
            f"offsets do not fit: they run from {offsets[0]} to {offsets[-1]}, expected 0 to {len(actions)} (the "
            "number of actions)"
        )
    lengths = np.diff(offsets)
    if (lengths < 1).any():
        i = int(np.argmax(lengths < 1))
        problem = "is empty" if lengths[i] == 0 else "has a negative length: offsets must not fall"
        raise InputError(f"trace {i} {problem}; a trace has at least one action")
    if len(observations) != len(actions) + len(lengths):
        raise InputError(
            f"{len(actions)} actions in {len(lengths)} traces need {len(actions) + len(lengths)} observations (one "
            f"more than actions in each trace), found {len(observations)}"
        )
    wrong = (actions < 0) | (actions >= len(traces.action_names))
    if wrong.any():
        i, step = locate(offsets, int(np.argmax(wrong)))
        raise InputError(
            f"trace {i}, step {step}: action {actions[np.argmax(wrong)]} is out of range, expected "
            f"0..{len(traces.action_names) - 1}"
        )
    if traces.vectors is not None:
        if traces.action_names != (ACT,):
            raise InputError(f"continuous actions have one kind, {ACT!r}, not {', '.join(traces.action_names)}")
        check_vectors(traces.vectors, traces.vector_names, offsets)
    if observations.dtype == np.float32:
        row = first_non_finite(observations)
        if row is not None:
            i, step = locate(traces.row_offsets, row)
            raise InputError(f"trace {i}, step {step}: the observation has a value that is not finite")
    columns = int(np.prod(traces.observation_shape))
    if traces.observation_names and len(traces.observation_names) != columns:
        raise InputError(f"{len(traces.observation_names)} observation names for {columns} columns")
    if traces.reading is not None and traces.reading.names != traces.observation_names:
        raise InputError(f"the reading gives {', '.join(traces.reading.names)}, which are not the observations' names")
    if traces.annotations is not None:
        traces.annotations.check_traces(offsets)
    for name, values in traces.metadata.items():
        if values.dtype.kind not in "biufU" or (values.dtype.itemsize > 8 and values.dtype.kind != "U"):
            raise InputError(f"metadata {name!r} holds {values.dtype}; expected numbers, booleans or text")
        if values.ndim == 0 or len(values) != len(lengths):
            raise InputError(f"metadata {name!r} must have one entry for each of {len(lengths)} traces")
