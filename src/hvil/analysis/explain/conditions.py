"""Short conditions from weighted examples: a small decision tree, written as a disjunction and shortened.

Letters: E examples, K different examples, F features.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from hvil.analysis.explain.program import ALWAYS, NEVER, Comparison, Condition, Literal

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeClassifier

MOST_LEAVES = 8
"""Leaves of the largest tree that refinement makes a condition of: beyond that, a condition does not fit a line."""


def learn_conditions(
    names: Sequence[str],
    columns: Float[np.ndarray, "E F"],
    answers: Bool[np.ndarray, "E"],
    weights: Float[np.ndarray, "E"],
) -> list[Condition]:
    """Conditions of growing size; each gives fewer wrong answers than the one before it.

    Args:
        names: of the features.
        columns: the features of each example.
        answers: what the condition should say.
        weights: how much each example counts.
    """
    conditions: list[Condition] = []
    fewest_wrong = np.inf
    for leaves in range(2, MOST_LEAVES + 1):
        tree = fitted_tree(columns, answers.astype(np.int64), weights, leaves)
        condition = _shortened(_from_tree(tree, names), names, columns, answers, weights)
        wrong = float(weights[holds(condition, names, columns) != answers].sum())
        if wrong < fewest_wrong:
            conditions.append(condition)
            fewest_wrong = wrong
        if not wrong:
            break
    return conditions


def learn_condition(
    names: Sequence[str], columns: Float[np.ndarray, "E F"], answers: Bool[np.ndarray, "E"], leaves: int
) -> Condition:
    """The condition of a tree with this number of leaves."""
    if answers.all() or not answers.any():
        return ALWAYS if answers.all() else NEVER
    columns, labels, weights = _merged(columns, answers.astype(np.int64), None)  # makes the shortening fast
    tree = fitted_tree(columns, labels, weights, leaves)
    return _shortened(_from_tree(tree, names), names, columns, labels > 0, weights)


def fitted_tree(
    columns: Float[np.ndarray, "E F"],
    labels: Int[np.ndarray, "E"],
    weights: Float[np.ndarray, "E"] | None,
    leaves: int,
) -> "DecisionTreeClassifier":
    """A decision tree that is grown best first to a number of leaves."""
    # Imported here for a fast start: runs import this module, and scikit-learn takes a second.
    from sklearn.tree import DecisionTreeClassifier

    columns, labels, weights = _merged(columns, labels, weights)
    tree = DecisionTreeClassifier(criterion="entropy", max_leaf_nodes=leaves, random_state=0)
    return tree.fit(columns, labels, sample_weight=weights)


def _merged(
    columns: Float[np.ndarray, "E F"], labels: Int[np.ndarray, "E"], weights: Float[np.ndarray, "E"] | None
) -> tuple[Float[np.ndarray, "K F"], Int[np.ndarray, "K"], Float[np.ndarray, "K"]]:
    """Each different example once, with the sum of the weights; without weights, with how often it occurs."""
    distinct, inverse = np.unique(np.column_stack([columns, labels]), axis=0, return_inverse=True)
    totals = np.bincount(inverse.ravel(), weights=weights, minlength=len(distinct)).astype(np.float64)
    return distinct[:, :-1], distinct[:, -1].astype(labels.dtype), totals


def holds(condition: Condition, names: Sequence[str], columns: Float[np.ndarray, "E F"]) -> Bool[np.ndarray, "E"]:
    """The truth of a condition on each example."""
    result = np.zeros(len(columns), dtype=bool)
    for clause in condition.clauses:
        result |= _clause_holds(clause, names, columns)
    return result


def _clause_holds(
    clause: Sequence[Literal], names: Sequence[str], columns: Float[np.ndarray, "E F"]
) -> Bool[np.ndarray, "E"]:
    result = np.ones(len(columns), dtype=bool)
    for part in clause:
        result &= (columns[:, names.index(part.test.feature)] > part.test.threshold) != part.negated
    return result


def _from_tree(fitted: "DecisionTreeClassifier", names: Sequence[str]) -> Condition:
    """One clause for each leaf that says yes: the comparisons on the way to it."""
    tree = fitted.tree_
    clauses: list[tuple[Literal, ...]] = []
    pending: list[tuple[int, tuple[Literal, ...]]] = [(0, ())]
    while pending:
        node, path = pending.pop()
        if tree.children_left[node] < 0:
            if fitted.classes_[int(np.argmax(tree.value[node][0]))]:
                clauses.append(path)
            continue
        test = Comparison(names[tree.feature[node]], float(tree.threshold[node]))
        pending.append((tree.children_right[node], (*path, Literal(test))))
        pending.append((tree.children_left[node], (*path, Literal(test, negated=True))))
    return Condition(tuple(clauses))


def _shortened(
    condition: Condition,
    names: Sequence[str],
    columns: Float[np.ndarray, "E F"],
    answers: Bool[np.ndarray, "E"],
    weights: Float[np.ndarray, "E"],
) -> Condition:
    """The condition without the literals and clauses that it can lose without more wrong answers."""

    def wrong(candidate: Condition) -> float:
        return float(weights[holds(candidate, names, columns) != answers].sum())

    fewest_wrong = wrong(condition)
    shorter = True
    while shorter:
        shorter = False
        for candidate in shortenings(condition):
            candidate_wrong = wrong(candidate)
            if candidate_wrong <= fewest_wrong:
                condition, fewest_wrong, shorter = candidate, candidate_wrong, True
                break
    return condition


def shortenings(condition: Condition) -> list[Condition]:
    """The condition without one clause, or without one literal."""
    clauses = condition.clauses
    without_clause = [Condition(clauses[:i] + clauses[i + 1 :]) for i in range(len(clauses)) if len(clauses) > 1]
    without_literal = [
        Condition((*clauses[:i], clause[:j] + clause[j + 1 :], *clauses[i + 1 :]))
        for i, clause in enumerate(clauses)
        for j in range(len(clause))
        if len(clause) > 1
    ]
    return without_clause + without_literal
