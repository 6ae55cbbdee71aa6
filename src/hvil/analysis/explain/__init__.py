"""Learned procedures as readable code: extract a program from a policy's roll-outs, say how faithful it is, write it.

`explain` is the way in; `karel_source` and `python_file` write what it finds.
"""

from hvil.analysis.explain.episodes import ChoosesSteps
from hvil.analysis.explain.explanation import Explanation, explain
from hvil.analysis.explain.karel import KarelSource, karel_source
from hvil.analysis.explain.python_file import python_file

__all__ = ["ChoosesSteps", "Explanation", "KarelSource", "explain", "karel_source", "python_file"]
