"""Bubble sort: a list, two pointers, and a teacher with six procedures that sorts it."""

from hvil.domains.bubblesort.environment import BubbleSortEnv
from hvil.domains.bubblesort.task import BubbleSortTask

__all__ = ["BubbleSortEnv", "BubbleSortTask"]
