"""The learners: HVIL, exact inference, and the baselines. Each is imported only when it is asked for."""

from importlib import import_module
from typing import cast

from hvil.learners.config import Config
from hvil.learners.learner import Learner

_HOMES = {
    "hvil": ("hvil.learners.hvil", "HvilLearner"),
    "exact": ("hvil.learners.exact_learner", "ExactLearner"),
    "lstm": ("hvil.learners.baselines", "LstmLearner"),
    "feedforward": ("hvil.learners.baselines", "FeedForwardLearner"),
    "stackrnn": ("hvil.learners.baselines", "StackRnnLearner"),
}


def build(config: Config) -> Learner:
    """A new learner of the configured kind; torch's random state decides its initial weights."""
    module, name = _HOMES[config.model.model]
    return cast(Learner, getattr(import_module(module), name)(config))
