"""From invocations of a procedure to demands on a program: situations, the usual step in each, and what follows.

A situation is some memory of the past together with the outcomes of a few comparisons. This module finds out which
memory and which comparisons are needed, and leaves aside what is rare. The search itself is in `synthesis`.

Letters: E events, M different memories.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from hvil.analysis.explain.conditions import fitted_tree
from hvil.analysis.explain.facts import Facts, Moments
from hvil.analysis.explain.invocations import Event, Invocation
from hvil.analysis.explain.meaning import Demands
from hvil.analysis.explain.program import NO_STEP, Comparison
from hvil.analysis.explain.vocabulary import LAST_IS

if TYPE_CHECKING:
    from sklearn.tree._tree import Tree

RARE_SHARES = (0.03, 0.005, 0.0)
"""Shares of invocations that may be left aside as rare, from a short program for the usual to a program for all.

They go from readable to exact; `karel`, which prefers exact programs, tries them in reverse."""
MOST_COMPARISONS = 7
"""Comparisons that tell situations apart: there are up to 2^7 outcomes for each memory, near what the search can hold
(`MOST_SITUATIONS` in `extraction`)."""
TREE_LEAVES = 16
"""Leaves of the tree that the comparisons come from: twice as many as comparisons, as a comparison can stand twice."""
MOST_MEMORY_COLUMNS = 256
"""If there are more different memories, the tree does not see them: one column each would be too slow."""
CONTRADICTED_SHARE = 0.003
"""The share of invocations that a coarse memory may contradict more than the finest one does."""

Memory = Callable[[Sequence[Event], int], object]
"""What is remembered before an event, which is given by its position in an invocation."""


def _last_steps(count: int) -> Memory:
    return lambda events, position: tuple(event.step for event in events[max(0, position - count) : position])


def _frames(events: Sequence[Event], position: int) -> object:
    """The stack as the previous action left it."""
    return events[position].signature


def _frames_and_start(events: Sequence[Event], position: int) -> object:
    """The same, with the last step and with whether the event is the first, the second or a later one."""
    last = events[position - 1].step if position else NO_STEP
    return min(position, 2), events[position].signature, last


FLAT_MEMORIES: tuple[Memory, ...] = (_last_steps(0), _last_steps(1), _last_steps(2), _frames, _frames_and_start)
"""Memories for flat invocations, from coarse to fine."""
OWN_MEMORIES = FLAT_MEMORIES[:2]
"""Memories for a procedure's own steps: nothing, or the last step, which is all that its frame remembers."""


class Table(NamedTuple):
    """The events of invocations, with the features that comparisons ask for."""

    invocations: list[Invocation]
    features: dict[str, Float[np.ndarray, "E"]]
    steps: list[int]
    terminate: int
    """The step that stands for ∅."""


def table(invocations: Sequence[Invocation], facts: Facts, frame: bool) -> Table:
    """Collect the events; `frame` adds the features of the frame, for events that are a procedure's own steps."""
    used = [invocation for invocation in invocations if invocation]
    moments = Moments(
        rows=np.array([event.row for invocation in used for event in invocation], dtype=np.int64),
        counters=np.array([i for invocation in used for i in range(len(invocation))], dtype=np.int64),
        lasts=np.array(
            [step for part in used for step in (NO_STEP, *(event.step for event in part[:-1]))], dtype=np.int64
        ),
    )
    return Table(
        invocations=used,
        features=facts.columns(moments, frame),
        steps=[event.step for invocation in used for event in invocation],
        terminate=facts.words.terminate,
    )


def choose_comparisons(events: Table, memories: Sequence[object]) -> list[Comparison]:
    """The comparisons that a small decision tree needs to predict the steps, the most important first.

    A comparison that alone tells the end from all other steps comes before them: a loop asks for it, even where the
    tree has excluded every other step and need not ask.
    """
    # The memories already tell the last steps apart.
    names = [name for name in events.features if not name.startswith(LAST_IS)]
    columns = np.column_stack([*(events.features[name] for name in names), _memory_columns(memories)])
    steps = np.array(events.steps)
    ends = fitted_tree(columns[:, : len(names)], (steps == events.terminate).astype(np.int64), None, 2).tree_
    decides = ends.node_count > 1 and not ends.impurity[1:].any()
    gains = _split_gains(fitted_tree(columns, steps, None, TREE_LEAVES).tree_, names)
    ordered = [*(_split_gains(ends, names) if decides else ()), *sorted(gains, key=lambda test: -gains[test])]
    return list(dict.fromkeys(ordered))[:MOST_COMPARISONS]


def _split_gains(tree: "Tree", names: Sequence[str]) -> dict[Comparison, float]:
    """What each comparison of a tree contributes to its predictions; splits at columns without a name are left out."""
    gains: dict[Comparison, float] = {}
    for node in range(tree.node_count):
        left, right = tree.children_left[node], tree.children_right[node]
        if left < 0 or tree.feature[node] >= len(names):
            continue
        weights = tree.weighted_n_node_samples
        gain = weights[node] * tree.impurity[node] - sum(weights[c] * tree.impurity[c] for c in (left, right))
        test = Comparison(names[tree.feature[node]], float(tree.threshold[node]))
        gains[test] = gains.get(test, 0.0) + float(gain)
    return gains


def _memory_columns(memories: Sequence[object]) -> Float[np.ndarray, "E M"]:
    """One column of 0 and 1 for each different memory; no columns if there are too many."""
    numbers = {memory: i for i, memory in enumerate(dict.fromkeys(memories))}
    columns = np.zeros((len(memories), len(numbers) if len(numbers) <= MOST_MEMORY_COLUMNS else 0))
    if columns.shape[1]:
        columns[np.arange(len(memories)), [numbers[memory] for memory in memories]] = 1
    return columns


def memories_of(events: Table, memory: Memory) -> list[object]:
    """What is remembered before each event."""
    return [memory(invocation, i) for invocation in events.invocations for i in range(len(invocation))]


def situation_keys(events: Table, memory: Memory, comparisons: Sequence[Comparison]) -> list[object]:
    """The situation of each event: what is remembered, and the outcomes of the comparisons."""
    # The column of zeros stands there for the case of no comparisons.
    outcomes = np.column_stack(
        [np.zeros(len(events.steps)), *(events.features[test.feature] > test.threshold for test in comparisons)]
    ).astype(np.int8)
    return list(zip(memories_of(events, memory), (row.tobytes() for row in outcomes), strict=True))


def consistency(keys: Sequence[object], events: Table) -> float:
    """The share of invocations that take the usual step in every situation."""
    return len(_usual_invocations(keys, events)) / len(events.invocations)


def demands_of(keys: Sequence[object], events: Table, comparisons: Sequence[Comparison], rare: float) -> Demands:
    """What the usual invocations do; `rare` is the share of them to leave aside."""
    usual = _usual_invocations(keys, events)
    usual = _without_rarest(usual, int(rare * len(usual)))
    number: dict[object, int] = {}
    for invocation_keys in usual:
        for key in invocation_keys:
            number.setdefault(key, len(number))
    following = [0] * len(number)
    starts = 0
    for invocation_keys in usual:
        starts |= 1 << number[invocation_keys[0]]
        for key, then in itertools.pairwise(invocation_keys):
            following[number[key]] |= 1 << number[then]
    steps = _usual_steps(keys, events.steps)
    return Demands(
        wanted=[steps[key] for key in number],
        following=following,
        starts=starts,
        tests=list(comparisons),
        truth=_truth(keys, events, comparisons, number),
        terminate=events.terminate,
    )


def _usual_invocations(keys: Sequence[object], events: Table) -> list[list[object]]:
    """The situations of each invocation that takes the usual step in all of them."""
    usual_steps = _usual_steps(keys, events.steps)
    result: list[list[object]] = []
    start = 0
    for invocation in events.invocations:
        own = list(keys[start : start + len(invocation)])
        if all(usual_steps[key] == event.step for key, event in zip(own, invocation, strict=True)):
            result.append(own)
        start += len(invocation)
    return result


def _usual_steps(keys: Sequence[object], steps: Sequence[int]) -> dict[object, int]:
    """The most frequent step in each situation."""
    counts: dict[object, Counter[int]] = {}
    for key, step in zip(keys, steps, strict=True):
        counts.setdefault(key, Counter())[step] += 1
    return {key: count.most_common(1)[0][0] for key, count in counts.items()}


def _without_rarest(usual: list[list[object]], allowed: int) -> list[list[object]]:
    """Leave out the `allowed` invocations whose rarest situation is rarest."""
    frequency = Counter(key for keys in usual for key in set(keys))
    by_rarity = sorted(range(len(usual)), key=lambda i: min(frequency[key] for key in usual[i]))
    left_out = set(by_rarity[:allowed])
    return [keys for i, keys in enumerate(usual) if i not in left_out]


def _truth(
    keys: Sequence[object], events: Table, comparisons: Sequence[Comparison], number: dict[object, int]
) -> list[int]:
    """For each comparison, the set of situations in which it holds."""
    # A situation fixes the outcomes of the comparisons, so one event of each situation is enough.
    example = {key: i for i, key in enumerate(keys) if key in number}
    return [
        sum(1 << number[key] for key, i in example.items() if events.features[test.feature][i] > test.threshold)
        for test in comparisons
    ]
