"""The learners: HVIL, exact inference, and the baselines. Each is imported only when it is asked for."""

from importlib import import_module
from typing import cast

from hvil.config import Config
from hvil.learner import Learner

_HOMES = {
    "hvil": ("hvil.models.hvil", "HvilLearner"),
    "exact": ("hvil.models.exact", "ExactLearner"),
    "lstm": ("hvil.models.recurrent", "LstmLearner"),
    "feedforward": ("hvil.models.recurrent", "FeedForwardLearner"),
    "stackrnn": ("hvil.models.recurrent", "StackRnnLearner"),
}


def build(config: Config) -> Learner:
    """A new learner of the configured kind; torch's random state decides its initial weights."""
    module, name = _HOMES[config.model.model]
    return cast(Learner, getattr(import_module(module), name)(config))
