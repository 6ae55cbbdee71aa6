"""The words of an extracted program: names for actions, procedures and observations, and texts for conditions.

A comparison is `feature > threshold`. Features are quantities that are observed, differences of quantities of the same
kind, whether a quantity is one of some values, the frame's counter and its last step. Names come from data, so they
become identifiers before they stand in a program.

Letters: R recorded observations, D numbers of an observation.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int, Num

from hvil.analysis.explain.program import Condition, For, Literal
from hvil.data.reading import UNKNOWN_NAME, Reading
from hvil.data.tasks import Quantity, Task
from hvil.gate.text import identifiers
from hvil.machine.callgraph import CallGraph

COUNTER, LAST = "counter", "last"
CATEGORY = "category"
"""The kind of whole numbers without an order, such as the state of a tabular environment."""
LAST_IS = f"{LAST}="
"""Begins the features that say which step was the last; no name of a quantity contains it."""
FACTORS = (1, 2, 3, 4)
"""A counter is compared with these multiples of a count: a loop over a list with up to four steps a round."""
MOST_COMPARED = 6
"""Unnamed columns of whole numbers that are compared with each other, at most: these are 15 differences."""
MOST_SINGLE = 12
"""Texts of a category each of which conditions may ask for, at most; with more, only sets of them."""
LONGEST_WORD = 40
"""Characters of a text from data that stand in a program, at most."""
MOST_COLUMNS = 64
"""Observations with more unnamed columns, such as images, are not explained: no reader could tell the names apart."""


@dataclass(frozen=True)
class Feature:
    """What comparisons compare: `left − factor · right`, `left` alone, or whether `left` has one of some values."""

    left: str
    right: str = ""
    factor: int = 1
    members: tuple[int, ...] = ()
    """If there are any, the feature is 1 where `left` is one of these values, and 0 elsewhere."""

    @property
    def name(self) -> str:
        """Its name in comparisons."""
        if self.members:
            return f"{self.left} in {self.members}"
        return f"{self.left}-{self.factor}*{self.right}" if self.right else self.left


@dataclass(frozen=True)
class Vocabulary:
    """The names of one task and call graph, as the program spells them."""

    quantities: tuple[Quantity, ...]
    """What is observed; their names are identifiers here."""
    actions: tuple[str, ...]
    procedures: tuple[str, ...]
    sets: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Quantities with sets of values that conditions may ask for: `cell in (11, 23, 35)`."""

    @property
    def terminate(self) -> int:
        """The step that stands for ∅."""
        return len(self.actions)

    @cached_property
    def step_names(self) -> Mapping[int, str]:
        """The name of each step: the actions, then the calls. ∅ has none; it is the end of a procedure."""
        return dict(enumerate(self.actions)) | dict(enumerate(self.procedures, start=self.terminate + 1))

    def quantity_index(self, name: str) -> int:
        """The position of a quantity."""
        return [quantity.name for quantity in self.quantities].index(name)

    def last_feature(self, step: int) -> str:
        """The feature that says whether the frame's last step was this one; `NO_STEP` has no name."""
        return f"{LAST_IS}{self.step_names.get(step, '')}"

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """The kind of each quantity."""
        return {quantity.name: quantity.kind for quantity in self.quantities}

    @cached_property
    def features(self) -> Mapping[str, Feature]:
        """All features but those of the last step, by name."""
        features = [Feature(quantity.name) for quantity in self.quantities if quantity.kind != CATEGORY]
        features += [Feature(name, members=members) for name, members in self.sets]
        numbers = [quantity for quantity in self.quantities if quantity.kind != "truth"]
        for i, one in enumerate(numbers):
            alike = [two for two in numbers[i + 1 :] if one.kind == two.kind not in ("number", CATEGORY)]
            features += [Feature(one.name, two.name) for two in alike]
        features.append(Feature(COUNTER))
        for quantity in numbers:
            if quantity.kind == "count":
                features += [Feature(COUNTER, quantity.name, factor) for factor in FACTORS]
                features.append(Feature(COUNTER, square(quantity.name)))
        return {feature.name: feature for feature in features}

    def values(self, observations: Num[np.ndarray, "R D"]) -> dict[str, Float[np.ndarray, "R"]]:
        """Each quantity at each observation, and the squares of counts."""
        values = {quantity.name: quantity.of(observations) for quantity in self.quantities}
        squares = {square(q.name): values[q.name] ** 2 for q in self.quantities if q.kind == "count"}
        return values | squares

    def typed_values(self, observations: Num[np.ndarray, "R D"]) -> dict[str, list[float] | list[str]]:
        """Each quantity at each observation, in the type that a program's text meets: truth, number or text."""
        return {quantity.name: _typed(quantity, quantity.of(observations)) for quantity in self.quantities}

    def literal_text(self, part: Literal) -> str:
        """A literal as the program writes it."""
        test, negated = part.test, part.negated
        if test.feature.startswith(LAST_IS):
            name = test.feature.removeprefix(LAST_IS) or "None"
            return f"{LAST} is {'not ' if negated else ''}{name}"
        feature = self.features[test.feature]
        if feature.members:
            return _membership_text(feature, negated, self.quantities[self.quantity_index(feature.left)].categories)
        if self.kinds.get(feature.left) == "truth":
            return f"{'not ' if negated else ''}{feature.left}"
        if self.kinds.get(feature.left) == "number":
            return f"{feature.left} {'<=' if negated else '>'} {test.threshold:.6g}"
        return _whole_number_text(feature, int(np.floor(test.threshold)), negated)

    def condition_text(self, condition: Condition) -> str:
        """A condition as the program writes it; literals that all clauses share are written once."""
        if not condition.clauses:
            return "False"
        shared = [part for part in condition.clauses[0] if all(part in clause for clause in condition.clauses)]
        rest = [[part for part in clause if part not in shared] for clause in condition.clauses]
        texts = [self.literal_text(part) for part in shared]
        # Where a clause is nothing but the shared literals, these alone decide.
        if all(rest):
            options = " or ".join(" and ".join(map(self.literal_text, clause)) for clause in rest)
            texts.append(f"({options})" if texts and len(rest) > 1 else options)
        return " and ".join(texts) or "True"

    def count_text(self, loop: For) -> str:
        """How often a `for` runs."""
        if loop.quantity is None:
            return str(loop.offset)
        return _multiple_text(loop.quantity, loop.factor) + _shift_text(loop.offset)


def _typed(quantity: Quantity, values: Float[np.ndarray, "R"]) -> list[float] | list[str]:
    """The values of a quantity in the type that a program's text meets."""
    if quantity.categories:
        return [_category(quantity.categories, int(value)) for value in values]
    types = {"truth": bool, "number": float}
    typed: list[float] = values.astype(types.get(quantity.kind, int)).tolist()
    return typed


def _category(words: Sequence[str], value: int) -> str:
    return words[value] if 0 <= value < len(words) else UNKNOWN_NAME


def _membership_text(feature: Feature, negated: bool, words: Sequence[str]) -> str:
    """Whether a quantity is one of some values, or of some texts."""
    members = [f'"{_category(words, value)}"' if words else str(value) for value in feature.members]
    if len(members) == 1:
        return f"{feature.left} {'!=' if negated else '=='} {members[0]}"
    return f"{feature.left} {'not in' if negated else 'in'} ({', '.join(members)})"


def _whole_number_text(feature: Feature, floor: int, negated: bool) -> str:
    """`left − factor · right > floor` for whole numbers, without a `+ 1` or `- 1` that another sign can spare."""
    if not feature.right:
        return f"{feature.left} {'<' if negated else '>='} {floor + 1}"
    multiple = _multiple_text(feature.right, feature.factor)
    if floor == 0:
        return f"{feature.left} {'<=' if negated else '>'} {multiple}"
    return f"{feature.left} {'<' if negated else '>='} {multiple}{_shift_text(floor + 1)}"


def _multiple_text(name: str, factor: int) -> str:
    return name if factor == 1 else f"{factor} * {name}"


def _shift_text(number: int) -> str:
    return "" if not number else f" {'+' if number > 0 else '-'} {abs(number)}"


def looks_at_frame(feature: str) -> bool:
    """Whether a feature is about the frame: its counter, a difference with the counter, or its last step."""
    return feature == COUNTER or feature.startswith((f"{COUNTER}-", LAST_IS))


def square(name: str) -> str:
    """The square of a count, as the program writes it.

    A loop that does the work of two nested loops over a list counts up to the square of the list's length.
    """
    return f"{name} * {name}"


def vocabulary(
    graph: CallGraph,
    task: Task | None,
    observation_names: Sequence[str],
    width: int,
    reading: Reading | None = None,
) -> Vocabulary:
    """The words for a policy: the quantities of its task, or one for each of the observation's `width` columns.

    Args:
        graph: with the names of actions and procedures.
        task: whose quantities are used, if it has any.
        observation_names: of the columns.
        width: how many columns there are.
        reading: how the columns were made from a table: it has the words of categories.
    """
    quantities = () if task is None else task.quantities
    if not quantities:
        columns = observation_names if len(observation_names) == width else [f"observation_{i}" for i in range(width)]
        texts = {} if reading is None else reading.categories
        quantities = tuple(
            Quantity(
                name,
                f"observation[..., {i}]",
                CATEGORY if name in texts else "number",
                category_words(texts.get(name, ())),
            )
            for i, name in enumerate(columns)
        )
    # All names become identifiers at once, since no two of them may be the same.
    names = iter(identifiers([*(q.name for q in quantities), *graph.action_names, *graph.procedures], (COUNTER, LAST)))
    return Vocabulary(
        quantities=tuple(quantity._replace(name=next(names)) for quantity in quantities),
        actions=tuple(next(names) for _ in graph.action_names),
        procedures=tuple(next(names) for _ in graph.procedures),
    )


def recognised_kinds(words: Vocabulary, observations: Num[np.ndarray, "R D"]) -> tuple[str, ...]:
    """The kind of each quantity; a `number` that is only ever 0 or 1 becomes a truth value, or else may become whole.

    Columns of whole numbers are all of one kind if they are few; then they are compared with each other. If they are
    many, most comparisons would mean nothing, so each column has a kind of its own. An observation of one whole number
    is a state, and states have no order.
    """
    columns = {q.name: q.of(observations) for q in words.quantities if q.kind == "number"}
    truths = {name for name, values in columns.items() if np.isin(values, (0, 1)).all()}
    whole = {name for name, values in columns.items() if (values == np.rint(values)).all()} - truths

    def kind(quantity: Quantity) -> str:
        if quantity.name in truths:
            return "truth"
        if quantity.name in whole and len(words.quantities) == 1:
            return CATEGORY
        if quantity.name in whole:
            return "whole" if len(whole) <= MOST_COMPARED else f"whole {quantity.name}"
        return quantity.kind

    return tuple(map(kind, words.quantities))


def with_kinds(words: Vocabulary, kinds: Sequence[str]) -> Vocabulary:
    """The vocabulary with another kind for each quantity."""

    def with_kind(quantity: Quantity, kind: str) -> Quantity:
        becomes_truth = kind == "truth" != quantity.kind
        expression = f"{quantity.expression} > 0.5" if becomes_truth else quantity.expression
        return quantity._replace(expression=expression, kind=kind)

    return replace(words, quantities=tuple(map(with_kind, words.quantities, kinds)))


def with_sets(words: Vocabulary, observations: Num[np.ndarray, "R D"], emitted: Int[np.ndarray, "R"]) -> Vocabulary:
    """The vocabulary with sets of values to ask for: for each action, the values at which it is the usual one.

    The largest set is left out, because it is what the others leave: a program that does not list it also says what to
    do at a value that was never seen. So is a set that a comparison of size can tell from the other values (all from 3
    on), unless the values have no order. The quantities of a task have kinds that its author chose, and get no sets.
    """
    sets = [
        (quantity.name, members)
        for quantity in words.quantities
        if quantity.kind == CATEGORY or quantity.kind.startswith("whole")
        for members in _usual_values(quantity.of(observations), emitted)
        if quantity.kind == CATEGORY or not _is_end(members, quantity.of(observations))
    ]
    # A text may matter only together with other things, so that no action is the usual one with it.
    few = [quantity for quantity in words.quantities if 0 < len(quantity.categories) <= MOST_SINGLE]
    sets += [(quantity.name, (value,)) for quantity in few for value in range(len(quantity.categories))]
    return replace(words, sets=tuple(dict.fromkeys(sets)))


def _usual_values(values: Float[np.ndarray, "R"], emitted: Int[np.ndarray, "R"]) -> list[tuple[int, ...]]:
    """For each action (∅ included), the values at which it is the most frequent one; without the largest such set."""
    kept = emitted >= 0  # where an episode was cut short, nothing was done
    distinct, which = np.unique(values[kept], return_inverse=True)
    actions, action = np.unique(emitted[kept], return_inverse=True)
    counts = np.zeros((len(distinct), len(actions)), dtype=np.int64)
    np.add.at(counts, (which, action), 1)
    usual = counts.argmax(axis=1)
    found = [tuple(int(value) for value in distinct[usual == i]) for i in range(len(actions))]
    return sorted(filter(None, found), key=len)[:-1]


def _is_end(members: tuple[int, ...], values: Float[np.ndarray, "R"]) -> bool:
    """Whether the members are all the values up to one of them, or all from one of them on."""
    inside = np.isin(np.unique(values), members)
    return int(np.count_nonzero(inside[1:] != inside[:-1])) == 1


def category_words(texts: Sequence[str]) -> tuple[str, ...]:
    """Different words for texts from data, such that they can stand in quotes in the text of a program."""
    words: list[str] = []
    for text in texts:
        plain = re.sub(r'["\\\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]+', "_", text)
        word = base = plain if len(plain) <= LONGEST_WORD else plain[: LONGEST_WORD - 1] + "…"
        number = 2
        while word in words or word == UNKNOWN_NAME:
            word, number = f"{base} {number}", number + 1
        words.append(word)
    return tuple(words)
