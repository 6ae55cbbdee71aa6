"""What a learner achieves: errors along teacher traces and in roll-outs, likelihood, and the call structure it infers.

One learner on one set of traces; `statistics` puts several runs together. Every learner has a policy; the likelihood
and the call structure are measured where a learner offers them.

Letters: N traces.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool
from rich.table import Table

from hvil.analysis.boundaries import BoundaryScore, boundary_score
from hvil.analysis.episodes import record
from hvil.analysis.statistics import Interval, proportion_interval
from hvil.analysis.structures import infer
from hvil.data.tasks import Task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.learner import (
    ActsInVectors,
    Configured,
    HasDensity,
    HasElbo,
    HasLikelihood,
    InfersStructure,
    Learner,
    Policy,
)

FAILED_SHARE = 0.5
"""Share of wrong training traces from which on a search has failed. When it was chosen, failed ones had 70% and more,
and others under 10%; since then one has had 47% (docs/training.md, "Twenty new sets")."""
COLLAPSED_SHARE = 0.99
"""Share of calls of one procedure from which on the others are not in use."""
TOLERANCES = (0, 1)
"""How many actions an inferred boundary may be away from the annotated one. A call may begin before or after an action
that fits both procedures, so the score with one action of tolerance is shown beside the exact one."""

WRONG_TRACE = "error: traces with at least one wrong action, the end included"
WRONG_ACTIONS = "error of actions: wrong ones of all, each after the observation that the teacher had"
WRONG_END = "wrong end: traces that the policy ends before or after the teacher"
PHP_STEPS = "PHP steps: calls, actions and returns of the procedures"


@dataclass(frozen=True)
class Share:
    """A share of traces, with its 95% interval over draws of test traces."""

    value: float
    interval: Interval
    count: int
    """How many traces it is a share of."""

    @staticmethod
    def of(flags: Bool[np.ndarray, "N"]) -> "Share | None":
        """The share of true flags; None if there are no flags."""
        if not len(flags):
            return None
        return Share(
            value=float(flags.mean()), interval=proportion_interval(int(flags.sum()), len(flags)), count=len(flags)
        )

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.value:.1%}  [{low:.1%}, {high:.1%}]  of {self.count}"


@dataclass(frozen=True, repr=False)
class Evaluation:
    """One learner on one set of test traces."""

    error: Share
    """Traces with at least one wrong action of the greedy policy, the ∅ at the end included.

    Continuous actions are never exactly right: here a trace is wrong if the policy ends before or after the teacher."""
    error_unseen: Share | None
    """The same, of the traces that are not in the training set."""
    error_actions: float | None = None
    """Of discrete actions: the share of the teacher's actions, the ∅ at the end included, that the greedy policy does
    not take when it is shown the teacher's observations. It goes on after a mistake."""
    rollout_error: Share | None = None
    """Roll-outs in which some action was not the teacher's."""
    rollout_success: Share | None = None
    """Roll-outs at whose end the task itself was done."""
    log_likelihood: float | None = None
    """Mean `log p(x)` of a trace; of continuous actions it is a density in the data's units."""
    elbo: float | None = None
    """With continuous actions, of learners with procedures: mean lower bound on `log p(x)`, exact for `exact`."""
    squared_error: float | None = None
    """Of continuous actions: mean over steps of ‖a − μ‖² / A along the teacher's traces, in the data's units.

    Where the policy has ended before the teacher, its action is the mean of the training traces' actions."""
    explained: float | None = None
    """Of continuous actions: the share of their variance in these traces that the policy explains (R²)."""
    php_steps_per_action: float | None = None
    """PHP steps of the inferred structure for each action of the traces."""
    procedures: Mapping[str, float] = field(default_factory=dict)
    """Share of the inferred PHP steps that each procedure takes."""
    calls: Mapping[str, float] = field(default_factory=dict)
    """Share of the inferred calls that each procedure gets."""
    boundaries: Mapping[int, BoundaryScore] = field(default_factory=dict)
    """Agreement with the annotated structure, by tolerance."""
    policy: Literal["network", "program"] = "network"
    """What was evaluated: the network, or the program that was extracted from it."""

    @property
    def procedures_in_use(self) -> float | None:
        """The perplexity `exp(−Σ s·log s)` of the procedures' shares `s` of the PHP steps.

        It is the number of procedures if all take equally many steps, and 1 if one procedure takes them all: then the
        call structure means nothing. None for a learner without procedures.
        """
        shares = np.array([share for share in self.procedures.values() if share > 0])
        return float(np.exp(-(shares * np.log(shares)).sum())) if len(shares) else None

    @property
    def collapse(self) -> str | None:
        """A sentence that says that most procedures are not used; None if they are, or if there is one only.

        They are not used if nothing is called, or if nearly all calls go to one procedure although there are others.
        """
        if len(self.procedures) > 1 and not any(self.calls.values()):
            return "no procedure is called: the root does all the work"
        most = max(self.calls, key=lambda name: self.calls[name], default="")
        if len(self.procedures) > 2 and self.calls.get(most, 0.0) >= COLLAPSED_SHARE:
            share = self.calls[most]
            return f"hardly more than one procedure is called: {share:.0%} of all calls go to {most}"
        return None

    def to_mapping(self) -> dict[str, Any]:
        """The form of `evaluation.json`: shares as numbers, their intervals and counts beside them."""
        result: dict[str, Any] = {"policy": self.policy, "traces": self.error.count}
        for name in ("error", "error_unseen", "rollout_error", "rollout_success"):
            share = getattr(self, name)
            result[name] = None if share is None else share.value
            result[f"{name}_interval"] = None if share is None else list(share.interval)
        result["error_actions"] = self.error_actions
        result["traces_unseen"] = 0 if self.error_unseen is None else self.error_unseen.count
        result["log_likelihood"] = self.log_likelihood
        if self.squared_error is not None:
            result["elbo"] = self.elbo
            result["squared_error"] = self.squared_error
            result["explained"] = self.explained
        result["php_steps_per_action"] = self.php_steps_per_action
        result["procedures"] = dict(self.procedures)
        result["procedures_in_use"] = self.procedures_in_use
        result["collapse"] = self.collapse
        result["boundaries"] = {str(tolerance): score._asdict() for tolerance, score in self.boundaries.items()}
        return result

    def rows(self) -> list[tuple[str, str]]:
        """Each measure that there is, in words."""
        continuous = self.squared_error is not None
        name = "wrong end" if continuous else "error"
        rows = [(name, str(self.error))]
        rows.append((f"{name}, unseen traces", str(self.error_unseen or "all traces are in the training set")))
        if self.error_actions is not None:
            rows.append(("error of actions", f"{self.error_actions:.1%}"))
        if continuous:
            rows.append(("squared error of actions", f"{self.squared_error:.4g}  (R² {self.explained:.3f})"))
        if self.elbo is not None:
            rows.append(("log-likelihood of a trace, at least", f"{self.elbo:.3f}"))
        if self.rollout_success is not None:
            rows.append(("roll-outs: success", str(self.rollout_success)))
            rows.append(("roll-outs: error", str(self.rollout_error)))
        if self.log_likelihood is not None:
            rows.append(("log-likelihood of a trace", f"{self.log_likelihood:.3f}"))
        if self.php_steps_per_action is not None:
            rows.append(("PHP steps per action", f"{self.php_steps_per_action:.2f}"))
        if self.procedures_in_use is not None:
            rows.append(("procedures in use (perplexity)", f"{self.procedures_in_use:.2f} of {len(self.procedures)}"))
        rows += [(f"PHP steps of {name}", f"{share:.1%}") for name, share in self.procedures.items()]
        for tolerance, (precision, recall, f1) in self.boundaries.items():
            text = f"{f1:.2f}  (precision {precision:.2f}, recall {recall:.2f})"
            rows.append((f"boundary F1, tolerance {tolerance}", text))
        return rows

    @property
    def legend(self) -> str:
        """What the measures are."""
        errors = WRONG_END if self.error_actions is None else f"{WRONG_TRACE}; {WRONG_ACTIONS}"
        return errors if self.php_steps_per_action is None else f"{errors}; {PHP_STEPS}"

    def table(self, title: str = "") -> Table:
        """The measures as a table for the terminal."""
        table = Table("measure", "value", title=title or None, caption=self.legend)
        for row in self.rows():
            table.add_row(*row)
        return table

    def __repr__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        title = "Evaluation of the program:" if self.policy == "program" else "Evaluation:"
        return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in rows)])


def evaluate(
    learner: Learner | Policy,
    traces: Traces,
    training: Traces | None = None,
    task: Task | None = None,
    procedures: tuple[str, ...] = (),
) -> Evaluation:
    """Evaluate a learner, or a policy alone, on test traces.

    Args:
        learner: with its current weights; or a policy that no learner stands behind, such as a program.
        traces: what to test on.
        training: the training set, to tell seen traces from unseen ones; None: all traces are unseen.
        task: where to roll out; None: no roll-outs.
        procedures: names of the procedures, for learners that infer a structure.
    """
    policy = learner.policy() if isinstance(learner, Learner) else learner
    if traces.action_names != policy.action_names:
        raise InputError(f"the traces' actions {traces.action_names} are not the policy's {policy.action_names}")
    wrong = policy.wrong(traces)
    unseen = np.ones(len(traces), dtype=bool) if training is None else ~contained(traces, training)
    error = Share.of(wrong)
    assert error is not None  # a set of traces is never empty
    return Evaluation(
        error=error,
        error_unseen=Share.of(wrong[unseen]),
        error_actions=_wrong_actions(policy, traces) if traces.vectors is None else None,
        log_likelihood=_log_likelihood(learner, policy, traces),
        **(_vector_errors(learner, policy, traces) if isinstance(policy, ActsInVectors) else {}),
        **(_roll_outs(policy, task, traces) if task is not None else {}),
        **(_structure(learner, traces, procedures) if isinstance(learner, InfersStructure) else {}),
    )


def has_failed(training_error: float | None) -> bool:
    """Whether a search has failed, by its share of wrong training traces; of an unknown one nothing is said."""
    return training_error is not None and training_error >= FAILED_SHARE


def search_failure(policy: Policy, training: Traces) -> str | None:
    """A sentence that says that the training failed, and where; None if it did not.

    Args:
        policy: the trained policy.
        training: the traces that it was trained on; a search that succeeds does nearly all of them right.
    """
    episodes = record(policy, training, details=False)
    share = float(episodes.wrong.mean())
    if not has_failed(share):
        return None
    lengths = np.diff(episodes.row_offsets)
    at_end = episodes.wrong & (lengths > training.lengths)
    if at_end.sum() > episodes.wrong.sum() / 2:
        where = "the end of the program was not learned"
    else:
        reached = np.minimum(lengths - 1, training.lengths)[episodes.wrong] / training.lengths[episodes.wrong]
        where = f"half of the wrong traces go wrong in their first {np.median(reached):.0%}"
    return f"the search failed: {where}; training error {share:.0%}; try --restarts 4, or another --seed"


def held_out_score(learner: Learner, traces: Traces) -> float:
    """How likely held-out traces are, in nats an action, ∅ counted as one.

    It is the likelihood where the policy knows it, else the ELBO, else minus the error.
    """
    policy = learner.policy()
    if isinstance(policy, HasLikelihood):
        total = float(policy.log_likelihood(traces).sum())
    elif isinstance(learner, HasElbo):
        # The same random numbers each time: two scores then differ by the weights alone.
        total = learner.elbo(replace(traces, annotations=None), np.random.default_rng(0))
    elif traces.vectors is not None and isinstance(learner, HasDensity):
        total = learner.log_density(traces)
    else:
        return -float(policy.wrong(traces).mean())
    return total / (len(traces.actions) + len(traces))


def contained(traces: Traces, others: Traces) -> Bool[np.ndarray, "N"]:
    """Which traces also stand among the others, with the same observations and actions."""
    if traces.observation_shape != others.observation_shape:
        return np.zeros(len(traces), dtype=bool)
    contents = set(others.contents())
    return np.array([content in contents for content in traces.contents()], dtype=bool)


def _wrong_actions(policy: Policy, traces: Traces) -> float:
    """The share of the teacher's actions, ∅ included, that the greedy policy does not take at its observations."""
    wrong = 0
    for part in traces.parts():
        observations, actions, lengths = part.padded()
        policy.reset(len(part))
        taken = np.stack([policy.act(observations[:, time]) for time in range(observations.shape[1])], axis=1)
        wrong += int(((taken != actions) & (np.arange(taken.shape[1]) <= lengths[:, None])).sum())
    policy.reset()
    return wrong / (len(traces.actions) + len(traces))


def _log_likelihood(learner: Learner | Policy, policy: Policy, traces: Traces) -> float | None:
    for candidate in (learner, policy):
        if isinstance(candidate, HasLikelihood):
            return float(candidate.log_likelihood(traces).mean())
    return None


def _vector_errors(learner: Learner | Policy, policy: ActsInVectors, traces: Traces) -> dict[str, Any]:
    """How far continuous actions are from the teacher's, and how likely these are; nothing for discrete actions."""
    if traces.vectors is None:
        return {}
    scale = learner.config.actions if isinstance(learner, Configured) else None
    usual = np.array(scale.means) if scale is not None else traces.vectors.mean(axis=0)
    vectors = policy.vectors_along(traces)
    squares = (np.where(np.isnan(vectors), usual, vectors) - traces.vectors) ** 2
    spread = traces.vectors.var(axis=0, dtype=np.float64).mean()
    mean = float(squares.mean(dtype=np.float64))
    result: dict[str, Any] = {"squared_error": mean, "explained": 1 - mean / spread if spread > 0 else 0.0}
    if isinstance(learner, HasElbo):
        plain = replace(traces, annotations=None)
        result["elbo"] = learner.elbo(plain, np.random.default_rng(0)) / len(traces)
    elif isinstance(learner, HasDensity):
        result["elbo"] = learner.log_density(traces) / len(traces)
    return result


def _roll_outs(policy: Policy, task: Task, traces: Traces) -> dict[str, Any]:
    episodes = record(policy, traces, task, details=False)
    return {"rollout_error": Share.of(episodes.wrong), "rollout_success": Share.of(episodes.success)}


def _structure(learner: InfersStructure, traces: Traces, names: tuple[str, ...]) -> dict[str, Any]:
    steps = infer(learner, traces).steps
    counts = np.bincount(steps.procedure, minlength=len(names))
    labels = [names[i] if i < len(names) else str(i) for i in range(len(counts))]
    shares = counts / max(len(steps.procedure), 1)
    called = np.bincount(steps.procedure[(steps.counter == 0) & (steps.depth > 1)], minlength=len(counts))
    result: dict[str, Any] = {
        "php_steps_per_action": len(steps.choice) / len(traces.actions),
        "procedures": {label: float(share) for label, share in zip(labels, shares, strict=True)},
        "calls": {label: float(n) / max(called.sum(), 1) for label, n in zip(labels, called, strict=True)},
    }
    if traces.annotations is not None and traces.annotations.known.any():
        result["boundaries"] = {t: boundary_score(traces, steps, t) for t in TOLERANCES}
    return result
