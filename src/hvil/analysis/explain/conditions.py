"""Short conditions that answer rightly: from weighted examples to a disjunction of conjunctions, by way of a tree."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from hvil.analysis.explain.demands import fitted_tree
from hvil.analysis.explain.syntax import ALWAYS, AnyOf, Comparison, Condition, Literal

MOST_LEAVES = 8


def holds(condition: Condition, names: Sequence[str], columns: Float[np.ndarray, "E F"]) -> Bool[np.ndarray, "E"]:
    """The condition on each example."""
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


def learn_conditions(
    names: Sequence[str],
    columns: Float[np.ndarray, "E F"],
    right: Bool[np.ndarray, "E"],
    weights: Float[np.ndarray, "E"],
) -> list[Condition]:
    """Conditions of growing size, each righter than the one before."""
    found: list[Condition] = []
    least = np.inf
    for leaves in range(2, MOST_LEAVES + 1):
        tree = fitted_tree(columns, right.astype(np.int64), weights, leaves)
        condition = _simplified(_from_tree(tree, names), names, columns, right, weights)
        wrong = float(weights[holds(condition, names, columns) != right].sum())
        if wrong < least:
            found.append(condition)
            least = wrong
        if not wrong:
            break
    return found


def learn_condition(
    names: Sequence[str], columns: Float[np.ndarray, "E F"], right: Bool[np.ndarray, "E"], leaves: int
) -> Condition:
    """One condition, as right as a tree of this size can be."""
    if right.all() or not right.any():
        return ALWAYS if right.all() else AnyOf(())
    # The same example many times over is one with a weight.
    distinct, inverse = np.unique(np.column_stack([columns, right]), axis=0, return_inverse=True)
    weights = np.bincount(inverse.ravel(), minlength=len(distinct)).astype(np.float64)
    columns, right = distinct[:, :-1], distinct[:, -1] > 0
    tree = fitted_tree(columns, right.astype(np.int64), weights, leaves)
    return _simplified(_from_tree(tree, names), names, columns, right, weights)


def _from_tree(fitted: object, names: Sequence[str]) -> Condition:
    tree = fitted.tree_  # type: ignore[attr-defined]
    classes = fitted.classes_  # type: ignore[attr-defined]
    clauses: list[tuple[Literal, ...]] = []
    pending: list[tuple[int, tuple[Literal, ...]]] = [(0, ())]
    while pending:
        node, path = pending.pop()
        if tree.children_left[node] < 0:
            if classes[int(np.argmax(tree.value[node][0]))]:
                clauses.append(path)
            continue
        test = Comparison(names[tree.feature[node]], float(tree.threshold[node]))
        pending.append((tree.children_right[node], (*path, Literal(test))))
        pending.append((tree.children_left[node], (*path, Literal(test, negated=True))))
    return AnyOf(tuple(clauses))


def _simplified(
    condition: Condition,
    names: Sequence[str],
    columns: Float[np.ndarray, "E F"],
    right: Bool[np.ndarray, "E"],
    weights: Float[np.ndarray, "E"],
) -> Condition:
    """Without literals and clauses that make it no righter."""

    def wrong(candidate: Condition) -> float:
        return float(weights[holds(candidate, names, columns) != right].sum())

    best = wrong(condition)
    shorter = True
    while shorter:
        shorter = False
        for candidate in _shortenings(condition):
            if wrong(candidate) <= best:
                condition, best, shorter = candidate, wrong(candidate), True
                break
    return condition


def _shortenings(condition: Condition) -> list[Condition]:
    clauses = condition.clauses
    without_clause = [AnyOf(clauses[:i] + clauses[i + 1 :]) for i in range(len(clauses)) if len(clauses) > 1]
    without_literal = [
        AnyOf((*clauses[:i], clause[:j] + clause[j + 1 :], *clauses[i + 1 :]))
        for i, clause in enumerate(clauses)
        for j in range(len(clause))
        if len(clause) > 1
    ]
    return without_clause + without_literal
