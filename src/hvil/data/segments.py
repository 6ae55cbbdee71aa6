"""Segment labels as annotations: people mark in logs which sub-task each step belongs to.

The annotation has two levels: the root (`main`) calls one procedure for each label. What such a procedure does inside
is left to the learner.

Letters: N traces, S actions of all traces together.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Int

from hvil.data.annotations import Annotations
from hvil.data.streams import Stream
from hvil.data.traces import Traces
from hvil.gate.errors import InputError

ROOT = "main"
"""The root's name, unless a label has it."""


def segment_annotations(
    names: Sequence[str],
    labels: Int[np.ndarray, "S"],
    offsets: Int[np.ndarray, "N_plus_1"],
    begins: Bool[np.ndarray, "S"] | None = None,
) -> Annotations:
    """Annotations from one label a step.

    Args:
        names: of the labels.
        labels: for each action an index into `names`, -1 where the segment is not known.
        offsets: of the traces' actions.
        begins: where a segment begins, also if the one before has the same label; by default where the label changes.
    """
    root = next(name for name in (ROOT, *(f"{ROOT}_{i}" for i in range(len(names) + 1))) if name not in names)
    labelled = labels >= 0
    starts = np.ones(len(labels), dtype=bool)
    starts[1:] = labels[1:] != labels[:-1]
    if begins is not None:
        starts |= begins
    starts[offsets[:-1][np.diff(offsets) > 0]] = True  # a trace without actions is refused later, in words
    stacks = np.full((len(labels), 2), -1, dtype=np.int16)
    stacks[labelled, 0] = 0
    stacks[labelled, 1] = labels[labelled] + 1
    kept = np.where(starts, 1, 2)  # only the root stays where a segment starts
    return Annotations((root, *names), stacks, np.where(labelled, kept, -1))


def annotations_from_boundaries(traces: Traces, boundaries: Sequence[Sequence[tuple[int, str]]]) -> Annotations:
    """Annotations from boundary lists.

    Args:
        traces: what is annotated.
        boundaries: for each trace `(step, label)` pairs, ascending: at that action a segment of that label begins.
            Steps before the first boundary, and those after a boundary with an empty label, are not annotated.
    """
    if len(boundaries) != len(traces):
        raise InputError(f"{len(boundaries)} boundary lists for {len(traces)} traces")
    names = sorted({label for pairs in boundaries for _, label in pairs if label})
    index = {name: i for i, name in enumerate(names)} | {"": -1}
    labels = np.full(len(traces.actions), -1, dtype=np.int64)
    begins = np.zeros(len(traces.actions), dtype=bool)
    for trace, pairs in enumerate(boundaries):
        first, end = traces.offsets[trace : trace + 2]
        steps = [step for step, _ in pairs]
        if steps != sorted(set(steps)) or (steps and not 0 <= steps[0] <= steps[-1] < end - first):
            raise InputError(f"trace {trace}: boundaries must be ascending steps in 0..{end - first - 1}")
        for step, label in pairs:
            labels[first + step : end] = index[label]
            begins[first + step] = True
    return segment_annotations(names, labels, traces.offsets, begins)


def keep_annotations(traces: Traces, fraction: float, seed: int) -> Traces:
    """The same traces with the annotations of only a fraction of them.

    The seed decides which traces keep their annotations. With the same seed, a larger fraction keeps those of a smaller
    one and more.
    """
    if traces.annotations is None or fraction >= 1:
        return traces
    annotated = np.zeros(len(traces), dtype=bool)
    annotated[Stream.ANNOTATED.generator(seed).permutation(len(traces))[: round(fraction * len(traces))]] = True
    steps = np.repeat(annotated, traces.lengths)
    stacks = np.where(steps[:, None], traces.annotations.stacks, np.int16(-1))
    kept = np.where(steps, traces.annotations.kept, -1)
    return replace(traces, annotations=Annotations(traces.annotations.procedures, stacks, kept))
