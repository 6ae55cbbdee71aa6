"""Laws: what a procedure's continuous actions are, as short linear rules of the observation.

A rule is fitted to the policy's own means at the observations where the procedure acts. Terms that it can do without
are left out. How faithful it is stands beside it, and a rule that is not faithful is not printed.

Letters: R rows, D numbers of an observation, A numbers of an action.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Num

from hvil.analysis.explain.evidence import Recording
from hvil.analysis.explain.vocabulary import Vocabulary
from hvil.gate.errors import one_line
from hvil.machine.batched import Tops

MOST_ROWS = 5_000
"""Rows that a rule is fitted to."""
FAITHFUL = 0.99
"""Share of an action's variance in the recorded episodes up to which a rule may leave nothing over: an error of a tenth
of the action's deviation."""
LOSS = 0.002
"""Share of the variance that a term must explain to be kept."""
MOST_TERMS = 6
"""Terms of a rule that can be called short."""


@runtime_checkable
class GivesVectors(Protocol):
    """A policy of procedures that says which continuous action a frame would take."""

    vector_names: tuple[str, ...]
    """Of the action's numbers; empty for discrete actions."""

    def frame_vectors(self, observations: Num[np.ndarray, "R D"], tops: Tops) -> Float[np.ndarray, "R A"]:
        """The mean of each active frame's action, in the data's units."""


class Law(NamedTuple):
    """A rule for one number of a procedure's action: constant + Σ coefficient · column."""

    name: str
    constant: float
    terms: tuple[tuple[int, float], ...]
    """Columns of the observation with their coefficients."""
    explained: float
    """1 − (mean squared error of the rule) / (the number's variance over all actions of the policy)."""
    error: float
    """Root of the mean squared error, in the data's units."""

    @property
    def faithful(self) -> bool:
        """Whether the rule may be printed."""
        return self.explained >= FAITHFUL and len(self.terms) <= MOST_TERMS

    def text(self, words: Vocabulary) -> str:
        """In words: the rule and its error, or that there is none."""
        if not self.faithful:
            return f"{self.name} is no short linear rule of the observation (the best explains {self.explained:.1%})"
        parts = [f"{coefficient:+.3g}·{words.quantities[column].name}" for column, coefficient in self.terms]
        if self.constant or not parts:
            parts.append(f"{self.constant:+.3g}")
        rule = " ".join(f"{part[0]} {part[1:]}" for part in parts).removeprefix("+ ")
        return f"{self.name} = {rule}  (R² {self.explained:.3f}, error {self.error:.2g})"


Laws = Mapping[int, tuple[Law, ...]]
"""For each procedure that acts, the rule of each number of its action."""


def action_laws(policy: object, recording: Recording) -> dict[int, tuple[Law, ...]]:
    """The laws of each procedure that acts in some episodes; none for discrete actions."""
    if not isinstance(policy, GivesVectors) or not policy.vector_names:
        return {}
    steps = recording.steps
    acting = np.flatnonzero(steps.choice == 0)
    tops = Tops(steps.procedure[acting], steps.counter[acting], steps.last[acting], steps.depth[acting])
    seen = recording.observations[steps.row[acting]].astype(np.float64)
    vectors = policy.frame_vectors(recording.observations[steps.row[acting]], tops).astype(np.float64)
    spread = vectors.var(axis=0)
    laws = {}
    for procedure in np.unique(tops.procedure).tolist():
        own = np.flatnonzero(tops.procedure == procedure)[:MOST_ROWS]
        laws[procedure] = tuple(
            _law(name, seen[own], vectors[own, number], float(spread[number]))
            for number, name in enumerate(policy.vector_names)
        )
    return laws


def _law(name: str, seen: Float[np.ndarray, "R D"], values: Float[np.ndarray, "R"], spread: float) -> Law:
    """A rule with as few columns as explain nearly as much as all of them: the least useful goes first."""
    columns = [column for column in range(seen.shape[1]) if seen[:, column].std() > 0]
    allowed = _squared_error(seen, values, columns) + LOSS * spread
    while columns:
        errors = [_squared_error(seen, values, [c for c in columns if c != column]) for column in columns]
        if min(errors) > allowed:
            break
        columns.pop(int(np.argmin(errors)))
    coefficients = [_short(number) for number in _coefficients(seen, values, columns)]
    constant = coefficients[0] if abs(coefficients[0]) > 0.05 * np.sqrt(spread) else 0.0
    error = float(np.mean((seen[:, columns] @ np.array(coefficients[1:]) + constant - values) ** 2))
    return Law(
        name=name,
        constant=constant,
        terms=tuple(zip(columns, coefficients[1:], strict=True)),
        explained=1 - error / spread if spread > 0 else 1.0,
        error=float(np.sqrt(error)),
    )


def _coefficients(
    seen: Float[np.ndarray, "R D"], values: Float[np.ndarray, "R"], columns: Sequence[int]
) -> Float[np.ndarray, "terms"]:
    """The constant and the coefficients of least squares."""
    inputs = np.concatenate([np.ones((len(seen), 1)), seen[:, columns]], axis=1)
    return np.asarray(np.linalg.lstsq(inputs, values, rcond=None)[0])


def _squared_error(seen: Float[np.ndarray, "R D"], values: Float[np.ndarray, "R"], columns: Sequence[int]) -> float:
    constant, *others = _coefficients(seen, values, columns)
    return float(np.mean((seen[:, columns] @ np.array(others) + constant - values) ** 2))


def _short(number: float) -> float:
    """Three digits, as they are printed."""
    return float(f"{number:.3g}")


def laws_to_list(laws: Laws) -> list[list[Any]]:
    """The form of an explanation's file."""
    return [[procedure, [law._asdict() for law in of_procedure]] for procedure, of_procedure in laws.items()]


def laws_from_list(value: Any, procedures: int, columns: int) -> dict[int, tuple[Law, ...]]:
    """Read what `laws_to_list` gives; a `ValueError` for rules of other procedures or columns."""
    laws: dict[int, tuple[Law, ...]] = {}
    for procedure, of_procedure in value:
        laws[int(procedure)] = tuple(
            Law(
                name=one_line(str(law["name"]), 80),
                constant=float(law["constant"]),
                terms=tuple((int(column), float(coefficient)) for column, coefficient in law["terms"]),
                explained=float(law["explained"]),
                error=float(law["error"]),
            )
            for law in of_procedure
        )
        used = [column for law in laws[int(procedure)] for column, _ in law.terms]
        if not 0 <= procedure < procedures or any(not 0 <= column < columns for column in used):
            raise ValueError("it has laws of other procedures or observations")
    return laws
