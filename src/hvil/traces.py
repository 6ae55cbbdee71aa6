"""Ragged sets of observation–action traces: the data type that every learner reads.

A set is flat arrays plus offsets, checked once at construction and never changed. Files are `traces_io`'s business,
the meaning of a call structure is `machine.reference`'s.

Letters: N traces, S actions of all traces together (so S + N observations), D depth of the annotated stacks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int, Num, Shaped

from hvil.errors import InputError

P = TypeVar("P")

OBSERVATION_DTYPES = ("float32", "uint8", "int32", "int64", "bool")


class Padded(NamedTuple):
    """A batch of traces as rectangles, zero beyond each trace's end."""

    observations: Num[np.ndarray, "N times *shape"]
    """o_t for t = 0..T, so `times` is the longest T plus one."""
    actions: Int[np.ndarray, "N times"]
    """a_t for t < T; the number of actions (the code of ∅) from T on."""
    lengths: Int[np.ndarray, "N"]
    """T, the number of actions of each trace."""


@dataclass(frozen=True, eq=False)
class Annotations:
    """Call structure that came with the traces, for all or some of their steps.

    The PHP steps of one time are always returns, then calls, then the action (a procedure cannot return before it has
    acted), so the stack at the action and the number of frames kept from the time before say everything.
    """

    procedures: tuple[str, ...]
    """Names; the stacks hold indices into them."""
    stacks: Int[np.ndarray, "S D"]
    """Procedures on the stack, root first, when the action is taken; -1 pads; a row of -1: a step not annotated."""
    kept: Int[np.ndarray, "S"]
    """How many of these frames were there at the time before; 1 at a trace's start (the root); -1 if not known."""

    @property
    def known(self) -> Bool[np.ndarray, "S"]:
        """Which steps are annotated."""
        if self.stacks.shape[1] == 0:
            return np.zeros(len(self.stacks), dtype=bool)
        return np.asarray(self.stacks[:, 0] >= 0)

    @property
    def depths(self) -> Int[np.ndarray, "S"]:
        """Height of the stack at each step, 0 where it is not known."""
        return np.asarray((self.stacks >= 0).sum(axis=1))

    def __post_init__(self) -> None:
        object.__setattr__(self, "procedures", _names(self.procedures, "procedure"))
        object.__setattr__(self, "stacks", _integers(self.stacks, "annotation stacks", np.int16, dimensions=2))
        object.__setattr__(self, "kept", _integers(self.kept, "annotation kept", np.int16, dimensions=1))
        stacks, kept = self.stacks, self.kept
        if len(kept) != len(stacks):
            raise InputError(f"annotations: {len(stacks)} stacks but {len(kept)} kept counts; one each a step")
        if stacks.size and (stacks.max() >= len(self.procedures) or stacks.min() < -1):
            step = int(np.argmax(((stacks >= len(self.procedures)) | (stacks < -1)).any(axis=1)))
            raise InputError(f"annotations: step {step} names a procedure outside 0..{len(self.procedures) - 1}")
        filled = stacks >= 0
        if stacks.shape[1] > 1 and (filled[:, 1:] & ~filled[:, :-1]).any():
            step = int(np.argmax((filled[:, 1:] & ~filled[:, :-1]).any(axis=1)))
            raise InputError(f"annotations: the stack of step {step} has a hole (-1 may only stand at the end)")
        wrong = ((kept < -1) | (kept == 0) | (kept > filled.sum(axis=1))) & self.known
        if wrong.any():
            raise InputError(f"annotations: step {int(np.argmax(wrong))} keeps more frames than its stack has, or none")

    def take(self, steps: Int[np.ndarray, "K"]) -> "Annotations":
        """The annotations of the given steps."""
        return _part(self, stacks=self.stacks[steps], kept=self.kept[steps])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Annotations):
            return NotImplemented
        return (
            self.procedures == other.procedures
            and _same_up_to_padding(self.stacks, other.stacks)
            and np.array_equal(self.kept, other.kept)
        )

    __hash__ = None  # type: ignore[assignment]


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

    def __post_init__(self) -> None:
        observations = np.ascontiguousarray(self.observations).view()
        if observations.dtype == np.float64:
            observations = observations.astype(np.float32)
        set_ = object.__setattr__
        set_(self, "observations", observations)
        set_(self, "actions", _integers(self.actions, "actions", np.int32, dimensions=1))
        set_(self, "offsets", _integers(self.offsets, "offsets", np.int64, dimensions=1))
        set_(self, "action_names", _names(self.action_names, "action"))
        set_(self, "observation_names", _names(self.observation_names, "observation"))
        set_(self, "metadata", MappingProxyType({k: np.ascontiguousarray(v) for k, v in self.metadata.items()}))
        set_(self, "attributes", MappingProxyType(dict(self.attributes)))
        _validate(self)
        for array in (self.observations, self.actions, self.offsets):
            array.flags.writeable = False

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
        """Build a set from one pair of arrays a trace."""
        if len(observations) != len(actions):
            raise InputError(f"{len(observations)} observation arrays but {len(actions)} action arrays")
        if not actions:
            raise InputError("no traces: a set needs at least one")
        for i, (o, a) in enumerate(zip(observations, actions, strict=True)):
            if len(o) != len(a) + 1:
                raise InputError(f"trace {i}: {len(a)} actions need {len(a) + 1} observations, found {len(o)}")
        offsets = np.concatenate([[0], np.cumsum([len(a) for a in actions])])
        return Traces(
            np.concatenate([np.asarray(o) for o in observations]),
            np.concatenate([np.asarray(a) for a in actions]),
            offsets,
            tuple(action_names),
            tuple(observation_names),
            annotations,
            metadata or {},
            attributes or {},
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Int[np.ndarray, "N"]:
        """T, the number of actions of each trace."""
        return np.diff(self.offsets)

    @property
    def observation_offsets(self) -> Int[np.ndarray, "N_plus_1"]:
        """Where the observations of each trace start."""
        return self.offsets + np.arange(len(self.offsets))

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Shape of one observation."""
        return tuple(self.observations.shape[1:])

    def __getitem__(self, index: int | slice | Sequence[int] | np.ndarray) -> "Traces":
        """Some of the traces, in the given order; an integer gives a set of one."""
        chosen = _chosen(index, len(self))
        lengths = self.lengths[chosen]
        steps = _ranges(self.offsets[chosen], lengths)
        rows = _ranges(self.observation_offsets[chosen], lengths + 1)
        offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return _part(
            self,
            observations=self.observations[rows],
            actions=self.actions[steps],
            offsets=offsets,
            annotations=None if self.annotations is None else self.annotations.take(steps),
            metadata=MappingProxyType({name: values[chosen] for name, values in self.metadata.items()}),
        )

    def __iter__(self) -> Iterator["Traces"]:
        return (self[i] for i in range(len(self)))

    def shuffled(self, rng: np.random.Generator) -> "Traces":
        """The same traces in a random order."""
        return self[rng.permutation(len(self))]

    def split(self, first: int | float) -> tuple["Traces", "Traces"]:
        """Two sets: the first `first` traces (a count, or a fraction below 1) and the rest."""
        count = round(first * len(self)) if isinstance(first, float) else first
        if not 0 < count < len(self):
            raise InputError(f"cannot split {len(self)} traces into {count} and {len(self) - count}: both need one")
        return self[:count], self[count:]

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
        lengths = self.lengths
        annotated = "" if self.annotations is None else f", {self.annotations.known.mean():.0%} of steps annotated"
        task = f" of {self.attributes['task']}" if "task" in self.attributes else ""
        return (
            f"Traces({len(self)} traces{task}, {lengths.min()}–{lengths.max()} actions (mean {lengths.mean():.1f}), "
            f"{len(self.action_names)} kinds of action, observations {self.observation_shape} "
            f"{self.observations.dtype}{annotated})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Traces):
            return NotImplemented
        return (
            (self.action_names, self.observation_names) == (other.action_names, other.observation_names)
            and self.observations.dtype == other.observations.dtype
            and all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in ("observations", "actions", "offsets")
            )
            and self.annotations == other.annotations
            and self.attributes == other.attributes
            and self.metadata.keys() == other.metadata.keys()
            and all(np.array_equal(self.metadata[name], other.metadata[name]) for name in self.metadata)
        )

    __hash__ = None  # type: ignore[assignment]


def concatenate(parts: Sequence[Traces]) -> Traces:
    """One set out of several with the same spaces; annotations and metadata are kept if all parts have them."""
    first = parts[0]
    for part in parts[1:]:
        if (part.action_names, part.observation_shape) != (first.action_names, first.observation_shape):
            raise InputError("sets with different actions or observations cannot be joined")
    shifts = np.cumsum([0] + [len(part.actions) for part in parts[:-1]])
    names = set.intersection(*(set(part.metadata) for part in parts))
    return replace(
        first,
        observations=np.concatenate([part.observations for part in parts]),
        actions=np.concatenate([part.actions for part in parts]),
        offsets=np.concatenate([[0], *(part.offsets[1:] + shift for part, shift in zip(parts, shifts, strict=True))]),
        annotations=_joined([part.annotations for part in parts]),
        metadata={name: np.concatenate([part.metadata[name] for part in parts]) for name in sorted(names)},
    )


def _joined(parts: Sequence[Annotations | None]) -> Annotations | None:
    given = [part for part in parts if part is not None]
    if len(given) < len(parts) or any(part.procedures != given[0].procedures for part in given):
        return None
    depth = max(part.stacks.shape[1] for part in given)
    stacks = [np.pad(p.stacks, ((0, 0), (0, depth - p.stacks.shape[1])), constant_values=-1) for p in given]
    return Annotations(given[0].procedures, np.concatenate(stacks), np.concatenate([part.kept for part in given]))


def _validate(traces: Traces) -> None:
    observations, actions, offsets = traces.observations, traces.actions, traces.offsets
    if str(observations.dtype) not in OBSERVATION_DTYPES:
        raise InputError(f"observations are {observations.dtype}; allowed: {', '.join(OBSERVATION_DTYPES)}")
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
        i, step = _place(offsets, int(np.argmax(wrong)))
        raise InputError(
            f"trace {i}, step {step}: action {actions[np.argmax(wrong)]} is out of range, expected "
            f"0..{len(traces.action_names) - 1}"
        )
    if observations.dtype == np.float32:
        row = _first_non_finite(observations)
        if row is not None:
            i, step = _place(traces.observation_offsets, row)
            raise InputError(f"trace {i}, step {step}: the observation has a value that is not finite")
    columns = int(np.prod(traces.observation_shape))
    if traces.observation_names and len(traces.observation_names) != columns:
        raise InputError(f"{len(traces.observation_names)} observation names for {columns} columns")
    if traces.annotations is not None and len(traces.annotations.stacks) != len(actions):
        raise InputError(f"annotations have {len(traces.annotations.stacks)} steps, the traces {len(actions)}")
    for name, values in traces.metadata.items():
        if values.ndim == 0 or len(values) != len(lengths) or values.dtype.hasobject:
            raise InputError(
                f"metadata {name!r} must be a plain array with one entry for each of {len(lengths)} traces"
            )


def _first_non_finite(observations: Float[np.ndarray, "rows *shape"]) -> int | None:
    # A sum is finite only if all its parts are (or they overflow, which the second look sorts out): no mask in memory.
    with np.errstate(all="ignore"):
        if np.isfinite(observations.sum(dtype=np.float64)):
            return None
    finite = np.isfinite(observations).reshape(len(observations), -1).all(axis=1)
    return None if finite.all() else int(np.argmin(finite))


def _place(offsets: Int[np.ndarray, "N_plus_1"], flat: int) -> tuple[int, int]:
    trace = int(np.searchsorted(offsets, flat, side="right")) - 1
    return trace, flat - int(offsets[trace])


def _names(names: Sequence[str], what: str) -> tuple[str, ...]:
    names = tuple(str(name) for name in names)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{what} name {twice!r} stands twice")
    return names


def _integers(values: Any, what: str, dtype: type, dimensions: int) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise InputError(f"{what} must be whole numbers, found {array.dtype}")
    if array.ndim != dimensions:
        raise InputError(f"{what} must have {dimensions} dimension(s), found {array.ndim}")
    limits = np.iinfo(dtype)
    if array.size and (int(array.max()) > limits.max or int(array.min()) < limits.min):
        raise InputError(f"{what} hold a number outside {limits.min}..{limits.max}")
    return np.ascontiguousarray(array, dtype=dtype).view()


def _chosen(index: int | slice | Sequence[int] | np.ndarray, count: int) -> Int[np.ndarray, "K"]:
    if isinstance(index, int | np.integer):
        if not -count <= index < count:
            raise IndexError(f"trace {index} of {count}")
        return np.array([index % count])
    chosen = np.arange(count)[index if isinstance(index, slice) else np.asarray(index)]
    if not len(chosen):
        raise InputError("no traces chosen: a set needs at least one")
    return chosen


def _part(whole: P, **changed: Any) -> P:
    """A copy with other fields, unchecked: part of a valid set is valid, and a training loop cuts one each update."""
    part = object.__new__(type(whole))
    for name, value in (vars(whole) | changed).items():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(part, name, value)
    return part


def _ranges(starts: Int[np.ndarray, "K"], lengths: Int[np.ndarray, "K"]) -> Int[np.ndarray, "total"]:
    """All indices of the ranges `start : start + length`, one after another, without a Python loop."""
    ends = np.cumsum(lengths)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1])


def _same_up_to_padding(a: Int[np.ndarray, "S D"], b: Int[np.ndarray, "S E"]) -> bool:
    depth = min(a.shape[1], b.shape[1])
    return bool(np.array_equal(a[:, :depth], b[:, :depth]) and (a[:, depth:] < 0).all() and (b[:, depth:] < 0).all())
