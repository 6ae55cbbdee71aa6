"""The registry of learners, and how a learner is built. A learner's code is imported when it is built.

`LEARNERS` holds the settings class of each learner by name. A user's own is added with `LEARNERS.register`, or with an
entry point of the group `hvil.learners`.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from hvil.gate.registry import Registry
from hvil.gate.settings import setting_names
from hvil.learners.settings import LearnerSettings

LEARNERS: Registry[type[LearnerSettings]] = Registry(
    "learner",
    {
        "hvil": "hvil.learners.settings:HvilSettings",
        "exact": "hvil.learners.settings:ExactSettings",
        "lstm": "hvil.learners.settings:LstmSettings",
        "feedforward": "hvil.learners.settings:FeedForwardSettings",
        "stackrnn": "hvil.learners.settings:StackRnnSettings",
    },
)


def settings_for(learner: str, values: Mapping[str, Any]) -> LearnerSettings:
    """The settings of a learner out of values for several learners: those that it does not have are left out."""
    kind = LEARNERS[learner]
    names = setting_names(kind)
    return kind(**{name: value for name, value in values.items() if name in names})


def build(config: Any) -> Any:
    """A new learner of the configured kind; torch's random state decides its initial weights."""
    home = type(config.model).home
    if isinstance(home, str):
        module, _, name = home.partition(":")
        home = cast(Any, getattr(import_module(module), name))
    return home(config)
