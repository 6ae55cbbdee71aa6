"""There and back: walk to a wall, turn round, walk back to the start; the steps are remembered by calls."""

from hvil.domains.thereandback.environment import ThereAndBackEnv
from hvil.domains.thereandback.task import ThereAndBackTask

__all__ = ["ThereAndBackEnv", "ThereAndBackTask"]
