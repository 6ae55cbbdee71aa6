"""The learners: their settings, networks, objectives, and one module for each learner.

Training them is left to `hvil.training`, measuring and reading them to `hvil.analysis`.
"""

from hvil.learners.registry import LEARNERS, build, settings_for

__all__ = ["LEARNERS", "build", "settings_for"]
