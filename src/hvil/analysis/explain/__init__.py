"""Learned procedures as readable code: extract a program from a policy's roll-outs, say how faithful it is, write it.

`explain` is the way in; `python_file` writes a program that runs on its own.
"""

from hvil.analysis.episodes import ChoosesSteps
from hvil.analysis.explain.explanation import EPISODES, FRESH, Explanation, explain
from hvil.analysis.explain.karel import KarelSource
from hvil.analysis.explain.python_file import python_file

__all__ = ["EPISODES", "FRESH", "ChoosesSteps", "Explanation", "KarelSource", "explain", "python_file"]
