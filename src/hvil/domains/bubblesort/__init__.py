"""Bubble sort: the environment and task, its teacher, its pictures."""

from hvil.domains.bubblesort.environment import BubbleSortEnv, BubbleSortTask

__all__ = ["BubbleSortEnv", "BubbleSortTask"]
