"""What conditions can ask at recorded moments: quantities of the observations, and the frame of the procedure.

One class answers for all who ask: `demands` and `conditions` need columns of features, `execution` needs functions.

Letters: R recorded observations, E moments.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

from hvil.analysis.explain.program import NO_STEP, Comparison, Condition
from hvil.analysis.explain.vocabulary import COUNTER, LAST_IS, Vocabulary

Compiled = Callable[[int, int, int], bool]
"""A compiled condition: from row, counter and last step to its truth."""


class Moments(NamedTuple):
    """Moments at which a procedure takes a step, or a condition is asked."""

    rows: Int[np.ndarray, "E"]
    """The observation of each."""
    counters: Int[np.ndarray, "E"]
    """How many steps the frame has taken."""
    lasts: Int[np.ndarray, "E"]
    """The last of these steps, or `NO_STEP`."""


class Facts:
    """The values of a vocabulary's features along recorded observations."""

    def __init__(self, words: Vocabulary, observations: Num[np.ndarray, "R D"]) -> None:
        self.words = words
        self._values = words.values(observations)
        self._lists = {name: values.tolist() for name, values in self._values.items()}
        self._steps = {name: step for step, name in words.step_names.items()}

    def columns(self, moments: Moments, frame: bool = True) -> dict[str, Float[np.ndarray, "E"]]:
        """The value of each feature at each moment; with `frame`, also of those that look at the frame."""
        columns = {
            name: self.column(name, moments)
            for name, feature in self.words.features.items()
            if frame or feature.left != COUNTER
        }
        if frame:
            for step in np.unique(moments.lasts).tolist():
                columns[self.words.last_feature(step)] = (moments.lasts == step).astype(np.float64)
        return columns

    def column(self, name: str, moments: Moments) -> Float[np.ndarray, "E"]:
        """The value of one of the vocabulary's features at each moment."""
        feature = self.words.features[name]
        if feature.left == COUNTER:
            left = moments.counters.astype(np.float64)
        else:
            left = self._values[feature.left][moments.rows]
        if feature.members:
            return np.isin(left, feature.members).astype(np.float64)
        return left - feature.factor * self._values[feature.right][moments.rows] if feature.right else left

    def comparison(self, test: Comparison) -> Compiled:
        """Compile one comparison."""
        # The search asks millions of times: each form of a feature has a function of its own, over plain lists.
        threshold = test.threshold
        if test.feature.startswith(LAST_IS):
            wanted = self._steps.get(test.feature.removeprefix(LAST_IS), NO_STEP)
            return lambda row, counter, last: last == wanted
        feature = self.words.features[test.feature]
        if feature.members:
            members, values = frozenset(feature.members), self._lists[feature.left]
            return lambda row, counter, last: values[row] in members
        if not feature.right:
            if feature.left == COUNTER:
                return lambda row, counter, last: counter > threshold
            column = self._lists[feature.left]
            return lambda row, counter, last: bool(column[row] > threshold)
        right, factor = self._lists[feature.right], feature.factor
        if feature.left == COUNTER:
            return lambda row, counter, last: bool(counter - factor * right[row] > threshold)
        left = self._lists[feature.left]
        return lambda row, counter, last: bool(left[row] - factor * right[row] > threshold)

    def condition(self, condition: Condition) -> Compiled:
        """Compile a condition."""
        clauses = [[(self.comparison(part.test), part.negated) for part in clause] for clause in condition.clauses]
        if len(clauses) == 1 and len(clauses[0]) == 1:
            test, negated = clauses[0][0]
            return (lambda row, counter, last: not test(row, counter, last)) if negated else test
        return lambda row, counter, last: any(
            all(test(row, counter, last) != negated for test, negated in clause) for clause in clauses
        )
