"""From a learner to its page: play episodes, select some, add probabilities and pictures, write HTML.

What is known of the run beside its learner comes as `RunFacts`; run directories are the business of `hvil.training`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hvil.analysis.episodes import record
from hvil.analysis.explain import MOST_LINES, Explanation
from hvil.analysis.report.content import RunFacts, affordable, content
from hvil.analysis.report.distributions import with_distributions
from hvil.analysis.report.episodes import each_episode, selected
from hvil.analysis.report.observed import observed
from hvil.analysis.report.page import page
from hvil.analysis.report.pictures import album
from hvil.data.tasks import Task
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.learner import Learner

PLAYED = 60
"""Episodes that are played, to count calls and to select from: enough that a failure of one in twenty is among them
with a probability of 95%."""
PICTURE_BYTES = 3_000_000
STEP_BYTES = 1_500_000
"""What pictures and steps may take of a page. A page then stays below 5 MB, small enough to be sent by mail."""
READABLE_WIDTH, BELIEVABLE = 240, 0.5
"""If the data come from no task, the page shows the text of a program only if it has at most so many characters in a
line, at least this agreement with the policy, and not too many lines (`MOST_LINES`). Conditions over unnamed columns
grow long, and a long or unfaithful program says nothing to a reader. What is known of the program is shown anyway."""


class Report(NamedTuple):
    """A finished page and what is in it."""

    content: Mapping[str, Any]
    """What the page shows, as JSON has it."""
    played: int
    successes: int
    episodes: int
    """How many of the played episodes are in the page."""
    program: bool
    """Whether the page has the text of the extracted program."""

    @property
    def html(self) -> str:
        """The page."""
        return page(self.content)


def report_page(
    facts: RunFacts, learner: Learner, traces: Traces, task: Task | None = None, *, episodes: int = 12
) -> Report:
    """Play episodes, select some, and put everything on a page.

    Args:
        facts: what is known of the run.
        learner: with its current weights.
        traces: where the episodes begin; one episode is played from each.
        task: where to play; None: the policy is run along the traces.
        episodes: how many episodes the page's player offers, at most.
    """
    if episodes < 1:
        raise InputError(f"{episodes} episodes: expected at least 1")
    readable = facts.explanation is not None and _is_readable(facts.explanation, facts.config.task)
    policy = learner.policy()
    recorded = record(policy, traces, task)
    shown = [
        with_distributions(episode, learner, policy, traces[episode.trace], facts.config)
        for episode in selected(each_episode(recorded, traces), episodes)
    ]
    seen = observed(facts.config, task, shown)
    shown = affordable(shown, seen, STEP_BYTES)
    pictures = album(shown, task, traces, PICTURE_BYTES)
    return Report(
        content=content(facts, recorded, shown, seen, pictures, on_traces=task is None, readable=readable),
        played=len(recorded),
        successes=int(recorded.success.sum()),
        episodes=len(shown),
        program=readable,
    )


def _is_readable(explanation: Explanation, task: str | None) -> bool:
    """Whether a reader can read and believe the program; a task's own words make it readable at any length."""
    widest = max(map(len, explanation.text.splitlines()), default=0)
    short = explanation.lines <= MOST_LINES and widest <= READABLE_WIDTH
    return task is not None or (short and explanation.policy_agreement >= BELIEVABLE)
