"""Tree walk: mark every node of a binary tree, depth first, and come back to the root."""

from hvil.domains.treewalk.environment import TreeWalkEnv
from hvil.domains.treewalk.task import TreeWalkTask

__all__ = ["TreeWalkEnv", "TreeWalkTask"]
