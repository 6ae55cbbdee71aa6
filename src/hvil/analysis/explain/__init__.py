"""Learned procedures as readable code: extract a program from a policy's roll-outs, say how faithful it is, write it.

`explain` is the way in; `program_policy` lets a program act, `python_file` writes one that runs on its own.
"""

from hvil.analysis.episodes import ChoosesSteps
from hvil.analysis.explain.explaining import EPISODES, FRESH, explain
from hvil.analysis.explain.explanation import MOST_LINES, Explanation
from hvil.analysis.explain.karel import KarelSource
from hvil.analysis.explain.program_policy import ProgramPolicy
from hvil.analysis.explain.python_file import python_file

__all__ = [
    "EPISODES",
    "FRESH",
    "MOST_LINES",
    "ChoosesSteps",
    "Explanation",
    "KarelSource",
    "ProgramPolicy",
    "explain",
    "python_file",
]
