"""What the page shows, as plain JSON-able values: summary, settings, curves, call graph, program, episodes.

Names from data go in as they are: `page` escapes them once, and the page's script only ever sets them as text.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from hvil.analysis.report.episodes import Calls, Episode, Step
from hvil.analysis.report.pictures import Album
from hvil.learners.config import Config
from hvil.machine.callgraph import CallGraph

POINTS = 400
"""Of a curve, at most."""
STEPS = 3000
"""PHP steps of an episode that are shown, at most."""
NAMED_OBSERVATIONS = 64
"""Observations with more numbers (images) are not listed."""
SCALE = 1000
"""Probabilities are kept as whole thousandths: enough for a bar, and short."""

ENDINGS = {
    "returned": "the program returned",
    "stopped": "the environment ended the episode",
    "limit": "the step limit ended the episode",
    "left": "the policy left the trace",
}


@runtime_checkable
class Program(Protocol):
    """A learned program as text, and how well it stands for the policy."""

    @property
    def source(self) -> str:
        """The text."""

    @property
    def lines(self) -> int:
        """How many lines it has."""

    @property
    def policy_agreement(self) -> float | None:
        """Share of roll-outs in which it does exactly what the policy does."""

    @property
    def teacher_agreement(self) -> float | None:
        """Share of roll-outs in which it does exactly what the teacher does."""


def program_content(program: Program | None) -> dict[str, Any] | None:
    """The extracted program."""
    if program is None:
        return None
    return {
        "source": program.source,
        "lines": program.lines,
        "policy_agreement": _finite(program.policy_agreement),
        "teacher_agreement": _finite(program.teacher_agreement),
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
            stride = math.ceil(len(points) / POINTS)
            thinned = points[::stride] + (points[-1:] if (len(points) - 1) % stride else [])
            curves.append({"name": name, "points": [[update, _short(value)] for update, value in thinned]})
    return curves


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


def episode_content(episode: Episode, pictures: Sequence[int], names: Sequence[str]) -> dict[str, Any]:
    """One episode for the player."""
    steps = episode.steps[:STEPS]
    return {
        "trace": episode.trace,
        "success": episode.success,
        "ending": f"{ENDINGS[episode.ending]}{f' ({episode.reason})' if episode.reason else ''}",
        "actions": len(episode.actions),
        "divergence": episode.divergence,
        "teacher": episode.teacher[: steps[-1].time + 1],
        "steps": [_step(step) for step in steps],
        "left_out": len(episode.steps) - len(steps),
        "pictures": list(pictures[: steps[-1].time + 2]),
        "observations": [_observation(o) for o in episode.observations[: steps[-1].time + 1]] if names else [],
    }


def affordable(episodes: Sequence[Episode], config: Config, budget: int) -> list[Episode]:
    """The first episodes whose steps fit into so many bytes; at least one."""
    names = observation_names(config)
    sizes = [len(json.dumps(episode_content(episode, [], names), separators=(",", ":"))) for episode in episodes]
    fits = int(np.searchsorted(np.cumsum(sizes), budget, side="right"))
    return list(episodes[: max(1, fits)])


def observation_names(config: Config) -> list[str]:
    """A name for each number of an observation; none if there are too many to list."""
    width = int(np.prod(config.observation_shape))
    if width > NAMED_OBSERVATIONS:
        return []
    named = len(config.observation_names) == width
    return list(config.observation_names) if named else [f"o[{i}]" for i in range(width)]


def content(
    *,
    title: str,
    config: Config,
    facts: Mapping[str, Any],
    evaluation: Mapping[str, Any],
    metrics: Sequence[Mapping[str, Any]],
    graph: Mapping[str, Any] | None,
    program: Program | None,
    episodes: Sequence[Episode],
    played: int,
    album: Album,
) -> dict[str, Any]:
    """Everything together."""
    names = observation_names(config)
    pairs = zip(episodes, album.at, strict=True)
    return {
        "title": title,
        "task": config.task,
        "model": config.learner,
        "facts": {name: _finite(value) if isinstance(value, float) else value for name, value in facts.items()},
        "evaluation": {name: _number_or_pair(value) for name, value in evaluation.items()},
        "settings": settings_content(config),
        "curves": curves_content(metrics),
        "actions": list(config.action_names),
        "observations": names,
        "graph": graph,
        "program": program_content(program),
        "played": played,
        "episodes": [episode_content(episode, pictures, names) for episode, pictures in pairs],
        "pictures": album.uris,
        "scale": SCALE,
    }


def _step(step: Step) -> list[Any]:
    """Choice, p and q; time and frames follow from the steps before."""
    entry: list[Any] = [step.choice, _thousandths(step.policy)]
    return entry if step.posterior is None else [*entry, _thousandths(step.posterior)]


def _thousandths(probabilities: Float[np.ndarray, "U"] | None) -> list[int]:
    """-1 for an impossible choice."""
    if probabilities is None:
        return []
    return [-1 if math.isnan(value) else round(SCALE * value) for value in probabilities.tolist()]


def _observation(observation: np.ndarray) -> list[Any]:
    """The numbers that are not zero, each after its index."""
    flat = np.asarray(observation, dtype=np.float64).reshape(-1)
    return [entry for index in np.flatnonzero(flat).tolist() for entry in (index, _short(flat[index]))]


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
