"""The names of learners in a comparison: a model, perhaps with settings, such as `lstm:learning_rate=0.003`.

Which settings there are, and which values they may have, is the business of `training.plan`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hvil.experiments.best_found import best_found
from hvil.experiments.engine.origins import suggested
from hvil.gate.errors import InputError
from hvil.training.plan import check_settings

BEST = "best"
"""`lstm:best` is the LSTM with the best settings that we have for the task (see docs/baselines.md)."""


class Variant(NamedTuple):
    """A learner with its settings."""

    name: str
    settings: Mapping[str, Any]


def variants(text: str, task: str, overrides: Mapping[str, Any] | None = None) -> list[Variant]:
    """Read a comma-separated list of learners.

    Each gets what the task or the file suggests, then the overrides, then its own settings. A comma also separates the
    settings of one learner: `lstm:learning_rate=0.003,updates=8000,hvil` are two learners.
    """
    learners = []
    for words in _split(text):
        model, *assignments = words
        best = _best(task, model) if BEST in assignments else {}
        given = {**best, **(overrides or {})}
        for assignment in assignments:
            name, _, value = assignment.partition("=")
            if assignment != BEST:
                given[name] = _value(value)
        settings = {"model": model, **suggested(task, model, given), **given}
        check_settings(settings)
        name = f"{model}:{','.join(assignments)}" if assignments else model
        learners.append(Variant(name=name, settings=settings))
    names = [variant.name for variant in learners]
    if not names or len(set(names)) < len(names):
        raise InputError(f"models {text!r}: expected different learners, such as hvil,lstm")
    return learners


def with_best(named: Sequence[Variant], task: str, overrides: Mapping[str, Any] | None = None) -> list[Variant]:
    """The same learners, each baseline followed by itself with the best settings that we have, if there are any."""
    learners: list[Variant] = []
    names = {variant.name for variant in named}
    for variant in named:
        learners.append(variant)
        best = f"{variant.name}:{BEST}"
        if best_found(task, variant.name) and best not in names:
            learners += variants(best, task, overrides)
    return learners


def _best(task: str, model: str) -> Mapping[str, Any]:
    settings = best_found(task, model)
    if not settings:
        raise InputError(f"{model}:{BEST}: no better settings of {model} than the paper's are known for {task}")
    return settings


def _split(text: str) -> list[list[str]]:
    """The words of each learner. A word that has a `=` and no `:` before it is a setting of the learner before it."""
    learners: list[list[str]] = []
    for word in filter(None, text.split(",")):
        if "=" in word and ":" not in word.partition("=")[0]:
            if not learners:
                raise InputError(f"models {text!r}: {word!r} comes before any learner")
            learners[-1].append(word)
            continue
        model, colon, rest = word.partition(":")
        if colon and "=" not in rest and rest != BEST:
            raise InputError(f"models {text!r}: {word!r} is not LEARNER, LEARNER:{BEST} or LEARNER:SETTING=VALUE,…")
        learners.append([model, *([rest] if rest else [])])
    return learners


def _value(text: str) -> Any:
    """A number, true, false, or else text. Whether it fits its setting is checked with the settings."""
    try:
        return json.loads(text)
    except ValueError:
        return text
