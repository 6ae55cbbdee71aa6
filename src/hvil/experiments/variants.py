"""Learners as they are named in a comparison: a model, perhaps with settings, such as `lstm:learning_rate=0.003`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hvil.data.tasks import find_task
from hvil.experiments.best_found import best_found
from hvil.gate.errors import InputError
from hvil.training.plan import check_settings, task_defaults

BEST = "best"
"""`lstm:best` is the LSTM with the best settings found for the task (see docs/baselines.md)."""


class Variant(NamedTuple):
    """A learner with its settings."""

    name: str
    settings: Mapping[str, Any]


def variants(text: str, task: str, overrides: Mapping[str, Any] | None = None) -> list[Variant]:
    """The learners in a comma-separated list, with the task's presets, the overrides, and their own settings.

    A comma also separates the settings of one learner: `lstm:learning_rate=0.003,updates=8000,hvil` are two.
    """
    found = []
    for words in _split(text):
        model, *assignments = words
        best = _best(task, model) if BEST in assignments else {}
        settings = {"model": model, **task_defaults(find_task(task), model), **best, **(overrides or {})}
        for assignment in assignments:
            name, _, value = assignment.partition("=")
            if assignment != BEST:
                settings[name] = _value(value)
        check_settings(settings)
        found.append(Variant(f"{model}:{','.join(assignments)}" if assignments else model, settings))
    names = [variant.name for variant in found]
    if not names or len(set(names)) < len(names):
        raise InputError(f"models {text!r}: expected different learners, such as hvil,lstm")
    return found


def with_best(chosen: Sequence[Variant], task: str, overrides: Mapping[str, Any] | None = None) -> list[Variant]:
    """The same, and beside each plain baseline the best settings found for it, where there are any."""
    result: list[Variant] = []
    given = {variant.name for variant in chosen}
    for variant in chosen:
        result.append(variant)
        best = f"{variant.name}:{BEST}"
        if best_found(task, variant.name) and best not in given:
            result += variants(best, task, overrides)
    return result


def _best(task: str, model: str) -> Mapping[str, Any]:
    found = best_found(task, model)
    if not found:
        raise InputError(f"{model}:{BEST}: no better settings of {model} than the paper's are known for {task}")
    return found


def _split(text: str) -> list[list[str]]:
    """Words of each learner: a word with `=` that names no learner itself belongs to the one before."""
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
    """A number, true or false, or else text; that it fits its setting is checked there."""
    try:
        return json.loads(text)
    except ValueError:
        return text
