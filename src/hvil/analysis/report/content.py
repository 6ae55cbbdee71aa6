"""What a page shows, as plain values for JSON: summary, settings, curves, call graph, program, episodes.

Names from data go in as they are: `page` escapes them once, and the page's script only ever sets them as text.

Letters: R observations, U choices.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from hvil.analysis.episodes import Episodes
from hvil.analysis.evaluation import Share
from hvil.analysis.explain import Explanation
from hvil.analysis.report.episodes import Calls, Episode, count_calls
from hvil.analysis.report.observed import Observed
from hvil.analysis.report.pictures import Album
from hvil.learners.config import Config
from hvil.machine.callgraph import CallGraph

MOST_POINTS = 400
"""Points of a curve, at most: a curve is a few hundred pixels wide, so more points would not be seen."""
MOST_STEPS = 3000
"""PHP steps of an episode that are shown, at most: nobody steps through more by hand."""
SCALE = 1000
"""Probabilities are written as whole thousandths: exact enough for a bar, and short."""

ENDINGS = {
    "returned": "the program returned",
    "stopped": "the environment ended the episode",
    "limit": "the step limit ended the episode",
    "left": "the policy left the trace",
}


class RunFacts(NamedTuple):
    """What a report says of a run beside its episodes."""

    title: str
    config: Config
    updates: int = 0
    seconds: float = 0.0
    """Wall time of the training."""
    demonstrations: int | None = None
    """Training traces; None if unknown."""
    evaluation: Mapping[str, Any] = {}
    """As in `evaluation.json`."""
    metrics: Sequence[Mapping[str, Any]] = ()
    """As in `metrics.jsonl`."""
    explanation: Explanation | None = None
    """The extracted program; None leaves it out."""
    baselines: Mapping[str, Any] = {}
    """As in `baselines.json`."""
    program_error: Share | None = None
    """Test traces on which the program, by itself, does something wrong; None if unknown."""
    effects: Mapping[str, str] = {}
    """What each procedure returns with; none if the run has no effects, or nothing can be said."""
    ignored: Mapping[str, Sequence[str]] = {}
    """The fields of an observation that the network of a procedure does not read."""


def content(
    facts: RunFacts,
    recorded: Episodes,
    shown: Sequence[Episode],
    seen: Observed,
    album: Album,
    on_traces: bool,
    readable: bool = True,
) -> dict[str, Any]:
    """Everything that the page shows.

    Args:
        facts: what is known of the run.
        recorded: all episodes that were played, for the counts.
        shown: the episodes that the player offers.
        seen: how their observations are shown.
        album: their pictures.
        on_traces: whether the policy was run along traces and not in an environment.
        readable: whether the program's text is shown.
    """
    config = facts.config
    pairs = zip(shown, album.at, strict=True)
    return {
        "title": facts.title,
        "task": config.task,
        "model": config.learner,
        "facts": {
            "updates": facts.updates,
            "seconds": _finite(facts.seconds),
            "demonstrations": facts.demonstrations,
            "success": int(recorded.success.sum()),
            "on_traces": on_traces,
        },
        "evaluation": {name: _number_or_pair(value) for name, value in facts.evaluation.items()},
        "settings": settings_content(config),
        "curves": curves_content(facts.metrics),
        "actions": list(config.action_names),
        "observations": seen.names,
        "kinds": seen.kinds,
        "baselines": baselines_content(facts.baselines),
        "graph": _graph_or_none(config.graph, recorded),
        "program": program_content(facts.explanation, facts.program_error, readable, facts.ignored),
        "effects": [[name, text] for name, text in facts.effects.items()],
        "played": len(recorded),
        "episodes": [episode_content(episode, pictures, seen) for episode, pictures in pairs],
        "pictures": album.uris,
        "scale": SCALE,
    }


def program_content(
    explanation: Explanation | None, error: Share | None, readable: bool, ignored: Mapping[str, Sequence[str]]
) -> dict[str, Any] | None:
    """The extracted program, and how well it stands for the policy; without its text if nobody could read it."""
    if explanation is None:
        return None
    used = [procedure for procedure in ignored if ignored[procedure] and procedure in explanation.procedures]
    ignoring = [f"the network of {procedure} ignores {', '.join(ignored[procedure])}" for procedure in used]
    return {
        "source": explanation.text if readable else None,
        "lines": explanation.lines,
        "warning": explanation.warning,
        "policy_agreement": _finite(explanation.policy_agreement),
        "policy_agreement_interval": list(explanation.policy_interval),
        "teacher_agreement": _finite(explanation.teacher_agreement),
        "teacher_agreement_interval": list(explanation.teacher_interval),
        "error": None if error is None else error.value,
        "error_interval": None if error is None else list(error.interval),
        "traces": None if error is None else error.count,
        "notes": [*explanation.notes, *ignoring],
        "procedures": list(explanation.words.procedures),
        "actions": list(explanation.words.actions),
    }


def settings_content(config: Config) -> list[dict[str, Any]]:
    """Every setting with its value and its help text, by group."""
    groups = []
    for name in ("data", "model", "training"):
        settings = getattr(config, name)
        rows = [
            {"name": field.name, "value": str(getattr(settings, field.name)), "help": field.metadata.get("doc", "")}
            for field in fields(settings)
        ]
        groups.append({"name": name, "rows": rows})
    return groups


def curves_content(metrics: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One curve for each number of the metrics file, against the updates."""
    names = dict.fromkeys(name for line in metrics for name in line if name not in ("update", "seconds"))
    curves = []
    for name in names:
        pairs = [(line["update"], _finite(line.get(name))) for line in metrics]
        points = [pair for pair in pairs if pair[1] is not None]
        if len(points) > 1:
            stride = math.ceil(len(points) / MOST_POINTS)
            thinned = points[::stride] + (points[-1:] if (len(points) - 1) % stride else [])
            curves.append({"name": name, "points": [[update, _short(value)] for update, value in thinned]})
    return curves


def _graph_or_none(graph: CallGraph, recorded: Episodes) -> dict[str, Any] | None:
    """The call graph; None if the policy has no procedures."""
    if recorded.steps is None:
        return None
    return graph_content(graph, count_calls(recorded.steps, graph), len(recorded))


def graph_content(graph: CallGraph, counts: Calls, episodes: int) -> dict[str, Any]:
    """The call graph with how often each edge was taken in so many episodes."""
    return {
        "procedures": list(graph.procedures),
        "root": graph.root,
        "calls": [list(callees) for callees in graph.calls],
        "edges": [[caller, callee, count] for (caller, callee), count in sorted(counts.calls.items())],
        "acts": [[procedure, action, count] for (procedure, action), count in sorted(counts.acts.items())],
        "episodes": episodes,
    }


def episode_content(episode: Episode, pictures: Sequence[int], seen: Observed) -> dict[str, Any]:
    """One episode for the player."""
    steps = _steps_content(episode)
    last_time = episode.times[len(steps) - 1]
    result = episode.result
    return {
        "trace": episode.trace,
        "success": result.success,
        "ending": f"{ENDINGS[result.ending]}{f' ({result.reason})' if result.reason else ''}",
        "actions": len(episode.actions),
        "divergence": episode.divergence,
        "teacher": episode.teacher[:-1][: last_time + 1],
        "steps": steps,
        "left_out": len(episode.choices) - len(steps),
        "pictures": list(pictures[: last_time + 2]),
        "observations": _observations_content(seen, episode.observations[: last_time + 1]),
    }


def _steps_content(episode: Episode) -> list[list[Any]]:
    """Choice, p and, while the episode is on the teacher's trace, q; the script derives times and frames."""
    steps: list[list[Any]] = []
    for i, choice in enumerate(episode.choices[:MOST_STEPS]):
        steps.append([choice, [] if episode.policy is None else _thousandths(episode.policy[i])])
        if episode.posterior is not None and np.isfinite(episode.posterior[i]).any():
            steps[-1].append(_thousandths(episode.posterior[i]))
    return steps


def affordable(episodes: Sequence[Episode], seen: Observed, most_bytes: int) -> list[Episode]:
    """The first episodes whose steps fit into so many bytes, and at least one."""
    sizes = [len(json.dumps(episode_content(episode, [], seen), separators=(",", ":"))) for episode in episodes]
    count = int(np.searchsorted(np.cumsum(sizes), most_bytes, side="right"))
    return list(episodes[: max(1, count)])


def baselines_content(baselines: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The policies that the run was compared with, and the run itself: name, error and its interval."""
    rows = [(str(name), entry) for name, entry in baselines.items() if isinstance(entry, Mapping)]
    return [
        {
            "name": name,
            "error": _number_or_pair(entry.get("error")),
            "interval": _number_or_pair(entry.get("error_interval")),
            "updates": _number_or_pair(entry.get("updates")),
        }
        for name, entry in rows
    ]


def _thousandths(probabilities: Float[np.ndarray, "U"]) -> list[int]:
    """Probabilities as whole thousandths; -1 for an impossible choice."""
    return [-1 if math.isnan(value) else round(SCALE * value) for value in probabilities.tolist()]


def _observations_content(seen: Observed, observations: Shaped[np.ndarray, "R ..."]) -> list[list[Any]]:
    """Of each observation the values that are not zero, each after its index."""
    if not seen.names:
        return []
    rows = seen.values(observations)
    return [[entry for i in np.flatnonzero(row).tolist() for entry in (i, _short(row[i]))] for row in rows]


def _short(value: float | None) -> float | int | None:
    if value is None:
        return None
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float | np.number) and math.isfinite(value) else None


def _number_or_pair(value: Any) -> Any:
    """Numbers and intervals of `evaluation.json`; the file may have been edited, so anything else is left out."""
    if isinstance(value, list):
        pair = [_finite(entry) for entry in value]
        return pair if len(pair) == 2 and None not in pair else None
    return None if isinstance(value, bool) else _finite(value)
