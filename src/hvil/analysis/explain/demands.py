"""From invocations to what a program has to do: situations, the usual step in each, and what follows.

A situation is some memory of the past together with the outcomes of a few comparisons. Which memory and which
comparisons are needed is found out here, as well as what is rare enough to be left aside.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from sklearn.tree import DecisionTreeClassifier

from hvil.analysis.explain.episodes import Event, Invocation
from hvil.analysis.explain.execution import Facts
from hvil.analysis.explain.syntax import Comparison
from hvil.analysis.explain.synthesis import END, Demands
from hvil.analysis.explain.vocabulary import COUNTER, LAST, Vocabulary

MOST_COMPARISONS = 7
LEAVES = 16
CONSISTENT = 0.003
"""Share of invocations that a coarse memory may contradict before a finer one is taken."""

Memory = Callable[[Sequence[Event], int], object]
"""What is remembered before an event, by its position in an invocation."""


def _last_actions(count: int) -> Memory:
    return lambda events, at: tuple(event.step for event in events[max(0, at - count) : at])


def _frames(events: Sequence[Event], at: int) -> object:
    return events[at].signature


def _frames_and_start(events: Sequence[Event], at: int) -> object:
    return min(at, 2), events[at].signature, events[at - 1].step if at else END


MEMORIES: tuple[Memory, ...] = (_last_actions(0), _last_actions(1), _last_actions(2), _frames, _frames_and_start)
"""From coarse to fine."""


class Table(NamedTuple):
    """Events of invocations with the numbers that comparisons ask for."""

    invocations: list[Invocation]
    features: dict[str, Float[np.ndarray, "E"]]
    steps: list[int]


def table(invocations: Sequence[Invocation], facts: Facts, frame: bool) -> Table:
    """Collect the events; `frame` also gives the counter and the last step, where events are a procedure's own."""
    used = [invocation for invocation in invocations if invocation]
    rows = np.array([event.row for invocation in used for event in invocation], dtype=np.int64)
    counters = np.array([i for invocation in used for i in range(len(invocation))], dtype=np.float64)
    features: dict[str, np.ndarray] = {}
    for name, feature in facts.words.features.items():
        left = counters if feature.left == COUNTER else facts.values[feature.left][rows]
        if feature.left != COUNTER or frame:
            features[name] = left - feature.factor * facts.values[feature.right][rows] if feature.right else left
    if frame:
        lasts = np.array(
            [invocation[i - 1].step if i else END for invocation in used for i in range(len(invocation))],
            dtype=np.int64,
        )
        for step in np.unique(lasts):
            features[last_feature(facts.words, int(step))] = (lasts == step).astype(np.float64)
    return Table(used, features, [event.step for invocation in used for event in invocation])


def last_feature(words: Vocabulary, step: int) -> str:
    """The feature that says whether the frame's last step was this one."""
    return f"{LAST}={words.step_names[step] if step >= 0 else ''}"


def choose_comparisons(events: Table, memories: Sequence[object]) -> list[Comparison]:
    """The comparisons that a small decision tree needs to predict the steps, the most important first."""
    names = [name for name in events.features if not name.startswith(LAST)]
    known = {memory: i for i, memory in enumerate(dict.fromkeys(memories))}
    remembered = np.zeros((len(memories), len(known) if len(known) <= 256 else 0))
    if remembered.shape[1]:
        remembered[np.arange(len(memories)), [known[memory] for memory in memories]] = 1
    columns = np.column_stack([*(events.features[name] for name in names), remembered])
    tree = fitted_tree(columns, np.array(events.steps), None, LEAVES).tree_
    gains: Counter[Comparison] = Counter()
    for node in range(tree.node_count):
        left, right = tree.children_left[node], tree.children_right[node]
        if left < 0 or tree.feature[node] >= len(names):
            continue
        weights = tree.weighted_n_node_samples
        gain = weights[node] * tree.impurity[node] - sum(weights[c] * tree.impurity[c] for c in (left, right))
        gains[Comparison(names[tree.feature[node]], float(tree.threshold[node]))] += gain
    return [comparison for comparison, _ in gains.most_common(MOST_COMPARISONS)]


def fitted_tree(
    columns: Float[np.ndarray, "E F"],
    labels: np.ndarray,
    weights: Float[np.ndarray, "E"] | None,
    leaves: int,
) -> DecisionTreeClassifier:
    """A decision tree grown best first to a number of leaves."""
    # Many events are the same: one row each, with a weight, is what makes this fast.
    rows = np.column_stack([columns, labels])
    distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
    total = np.bincount(inverse.ravel(), weights=weights, minlength=len(distinct))
    tree = DecisionTreeClassifier(criterion="entropy", max_leaf_nodes=max(leaves, 2), random_state=0)
    return tree.fit(distinct[:, :-1], distinct[:, -1].astype(labels.dtype), sample_weight=total)


class Situations(NamedTuple):
    """Demands, and the share of invocations that they describe."""

    demands: Demands
    share: float


def consistency(keys: Sequence[object], events: Table) -> float:
    """Share of invocations that take the usual step in every situation."""
    usual = _usual(keys, events.steps)
    at, clean = 0, 0
    for invocation in events.invocations:
        clean += all(usual[keys[at + i]] == event.step for i, event in enumerate(invocation))
        at += len(invocation)
    return clean / len(events.invocations)


def situations(keys: Sequence[object], events: Table, comparisons: Sequence[Comparison], drop: float) -> Situations:
    """What the usual invocations do; `drop` is the share of invocations that may be left aside as rare."""
    usual = _usual(keys, events.steps)
    clean: list[list[object]] = []
    at = 0
    for invocation in events.invocations:
        here = list(keys[at : at + len(invocation)])
        if all(usual[key] == event.step for key, event in zip(here, invocation, strict=True)):
            clean.append(here)
        at += len(invocation)
    clean = _without_rare(clean, int(drop * len(clean)))
    index: dict[object, int] = {}
    for invocation_keys in clean:
        for key in invocation_keys:
            index.setdefault(key, len(index))
    following = [0] * len(index)
    starts = 0
    for invocation_keys in clean:
        starts |= 1 << index[invocation_keys[0]]
        for key, then in itertools.pairwise(invocation_keys):
            following[index[key]] |= 1 << index[then]
    truth = _truth(keys, events, comparisons, index)
    wanted = [usual[key] for key in index]
    return Situations(
        Demands(wanted, following, starts, list(comparisons), truth), len(clean) / len(events.invocations)
    )


def _usual(keys: Sequence[object], steps: Sequence[int]) -> dict[object, int]:
    counts: dict[object, Counter[int]] = {}
    for key, step in zip(keys, steps, strict=True):
        counts.setdefault(key, Counter())[step] += 1
    return {key: count.most_common(1)[0][0] for key, count in counts.items()}


def _without_rare(clean: list[list[object]], allowed: int) -> list[list[object]]:
    """Leave out the invocations with the rarest situations, at most `allowed` of them."""
    seen = Counter(key for keys in clean for key in set(keys))
    rarity = sorted(range(len(clean)), key=lambda i: min(seen[key] for key in clean[i]))
    left_out = set(rarity[:allowed])
    return [keys for i, keys in enumerate(clean) if i not in left_out]


def _truth(
    keys: Sequence[object], events: Table, comparisons: Sequence[Comparison], index: dict[object, int]
) -> list[int]:
    example = {key: i for i, key in enumerate(keys) if key in index}
    return [
        sum(1 << index[key] for key, i in example.items() if events.features[test.feature][i] > test.threshold)
        for test in comparisons
    ]


def situation_keys(events: Table, memory: Memory, comparisons: Sequence[Comparison]) -> list[object]:
    """The situation of each event: what is remembered, and the outcomes of the comparisons."""
    outcomes = np.column_stack(
        [np.zeros(len(events.steps)), *(events.features[test.feature] > test.threshold for test in comparisons)]
    ).astype(np.int8)
    texts = [row.tobytes() for row in outcomes]
    remembered = memories_of(events, memory)
    return list(zip(remembered, texts, strict=True))


def memories_of(events: Table, memory: Memory) -> list[object]:
    """What is remembered before each event."""
    return [memory(invocation, i) for invocation in events.invocations for i in range(len(invocation))]
