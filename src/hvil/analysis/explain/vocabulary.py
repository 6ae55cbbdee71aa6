"""The words of an extracted program: names for actions, procedures and observations, and the tests over them.

A test is `feature > threshold`. Features are what is observed, differences of numbers of the same kind, the frame's
counter and its last step. Names come from data, so they are made into identifiers before they stand in a program.
"""

import builtins
import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Num

from hvil.analysis.explain.syntax import Comparison, Condition, For, Literal
from hvil.data.tasks import Quantity, Task
from hvil.machine.callgraph import CallGraph

COUNTER, LAST = "counter", "last"
FACTORS = (1, 2, 3, 4)
"""A counter is compared with these multiples of a counted quantity."""
FEW = 6
"""Unnamed columns of whole numbers that are compared with each other, at most."""
MANY = 64
"""Columns of an unnamed observation beyond this are not looked at one by one."""

_RESERVED = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), COUNTER, LAST, "main", "np", "gymnasium", "hvil"}
# What a written file calls its own.
_RESERVED |= {"act", "called", "ended", "environment", "frames", "idle", "look", "play", "sense", "sys", "taken"}
_RESERVED |= {"task", "took", "watch", "observation", "episodes", "first", "successes"}


@dataclass(frozen=True)
class Feature:
    """A number that tests compare: `left − factor · right`, or one of them."""

    left: str
    right: str = ""
    factor: int = 1

    @property
    def name(self) -> str:
        """Its key."""
        return f"{self.left}-{self.factor}*{self.right}" if self.right else self.left


@dataclass(frozen=True)
class Vocabulary:
    """The names of one task and call graph, in the program's spelling."""

    quantities: tuple[Quantity, ...]
    """Observed; their names are identifiers here."""
    actions: tuple[str, ...]
    procedures: tuple[str, ...]

    @property
    def step_names(self) -> tuple[str, ...]:
        """By step number: the actions, then the procedures."""
        return self.actions + self.procedures

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """The kind of each quantity, by name."""
        return {quantity.name: quantity.kind for quantity in self.quantities}

    @cached_property
    def features(self) -> Mapping[str, Feature]:
        """All features that do not depend on the last step, by key."""
        found = [Feature(quantity.name) for quantity in self.quantities]
        numbers = [quantity for quantity in self.quantities if quantity.kind != "truth"]
        for i, one in enumerate(numbers):
            found += [Feature(one.name, two.name) for two in numbers[i + 1 :] if one.kind == two.kind != "number"]
        found.append(Feature(COUNTER))
        for quantity in numbers:
            if quantity.kind == "count":
                found += [Feature(COUNTER, quantity.name, factor) for factor in FACTORS]
                found.append(Feature(COUNTER, square(quantity.name)))
        return {feature.name: feature for feature in found}

    def values(self, observations: Num[np.ndarray, "R D"]) -> dict[str, Float[np.ndarray, "R"]]:
        """Each quantity at each observation, and the squares of counts."""
        known = {quantity.name: quantity.of(observations) for quantity in self.quantities}
        squares = {square(q.name): known[q.name] ** 2 for q in self.quantities if q.kind == "count"}
        return known | squares

    def rows(self, observations: Num[np.ndarray, "R D"]) -> dict[str, list[float]]:
        """Each quantity at each observation, as a program meets it: truth values and whole numbers as such."""
        kinds = {"truth": bool, "number": float}
        return {
            quantity.name: quantity.of(observations).astype(kinds.get(quantity.kind, int)).tolist()
            for quantity in self.quantities
        }

    def test_text(self, test: Comparison, negated: bool = False) -> str:
        """A test as the program writes it."""
        if test.feature.startswith(LAST):
            name = test.feature.removeprefix(LAST + "=")
            if not name:
                return f"{LAST} is not None" if negated else f"{LAST} is None"
            return f"{LAST} is {'not ' if negated else ''}{name}"
        feature = self.features[test.feature]
        if self.kinds.get(feature.left) == "truth":
            return f"{'not ' if negated else ''}{feature.left}"
        if self.kinds.get(feature.left) == "number":
            return f"{feature.left} {'<=' if negated else '>'} {test.threshold:.6g}"
        return self._whole(feature, int(np.floor(test.threshold)), negated)

    @staticmethod
    def _whole(feature: Feature, floor: int, negated: bool) -> str:
        """`left − factor · right > floor` for whole numbers, in the nicest of the equivalent ways."""
        multiple = feature.right if feature.factor == 1 else f"{feature.factor} * {feature.right}"
        if not feature.right:
            return f"{feature.left} {'<' if negated else '>='} {floor + 1}"
        if floor == 0:
            return f"{feature.left} {'<=' if negated else '>'} {multiple}"
        shift = floor + 1
        sign = "" if not shift else f" + {shift}" if shift > 0 else f" - {-shift}"
        return f"{feature.left} {'<' if negated else '>='} {multiple}{sign}"

    def literal_text(self, part: Literal) -> str:
        """A literal."""
        return self.test_text(part.test, part.negated)

    def condition_text(self, condition: Condition) -> str:
        """A condition."""
        if not condition.clauses:
            return "False"
        shared = [part for part in condition.clauses[0] if all(part in clause for clause in condition.clauses)]
        rest = [[part for part in clause if part not in shared] for clause in condition.clauses]
        texts = [self.literal_text(part) for part in shared]
        if all(rest):
            options = " or ".join(" and ".join(map(self.literal_text, clause)) for clause in rest)
            texts.append(f"({options})" if texts and len(rest) > 1 else options)
        return " and ".join(texts) or "True"

    def count_text(self, loop: For) -> str:
        """How often a `for` runs."""
        if loop.feature is None:
            return str(loop.offset)
        multiple = loop.feature if loop.factor == 1 else f"{loop.factor} * {loop.feature}"
        return multiple + ("" if not loop.offset else f" {'+' if loop.offset > 0 else '-'} {abs(loop.offset)}")


def square(name: str) -> str:
    """The square of a count, as the program writes it: one loop that does the work of two nested ones counts so far."""
    return f"{name} * {name}"


def vocabulary(graph: CallGraph, task: Task | None, observation_names: Sequence[str], width: int) -> Vocabulary:
    """The words for a policy: its task's own, or one a column of the observation."""
    given = getattr(task, "quantities", ()) if task is not None else ()
    if not given:
        names = observation_names if len(observation_names) == width else [f"observation_{i}" for i in range(width)]
        given = tuple(Quantity(name, f"observation[..., {i}]", "number") for i, name in enumerate(names))
    words = identifiers([*(q.name for q in given), *graph.action_names, *graph.procedures])
    split, rest = words[: len(given)], words[len(given) :]
    return Vocabulary(
        tuple(Quantity(name, q.expression, q.kind) for name, q in zip(split, given, strict=True)),
        tuple(rest[: len(graph.action_names)]),
        tuple(rest[len(graph.action_names) :]),
    )


def recognised(words: Vocabulary, observations: Num[np.ndarray, "R D"]) -> Vocabulary:
    """The vocabulary with columns of 0 and 1 as truth values, and of whole numbers as such.

    A few columns of whole numbers are compared with each other; of many, most comparisons would mean nothing.
    """
    columns = {q.name: q.of(observations) for q in words.quantities if q.kind == "number"}
    truths = {name for name, values in columns.items() if np.isin(values, (0, 1)).all()}
    whole = {name for name, values in columns.items() if (values == np.rint(values)).all()} - truths

    def kind(quantity: Quantity) -> Quantity:
        if quantity.name in truths:
            return Quantity(quantity.name, f"{quantity.expression} > 0.5", "truth")
        if quantity.name in whole:
            return quantity._replace(kind="whole" if len(whole) <= FEW else f"whole {quantity.name}")
        return quantity

    return Vocabulary(tuple(map(kind, words.quantities)), words.actions, words.procedures)


def identifiers(names: Sequence[str]) -> list[str]:
    """Different identifiers for any texts, as close to them as can be: `frontIsClear` is `front_is_clear`."""
    result: list[str] = []
    for name in names:
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
        word = re.sub(r"\W+", "_", snake, flags=re.ASCII).strip("_").lower() or "x"
        word = f"x{word}" if word[0].isdigit() else word
        if word in _RESERVED:
            word += "_"
        base, number = word, 2
        while word in result:
            word, number = f"{base}_{number}", number + 1
        result.append(word)
    return result
