"""Cells of experiments, and sweeps that run each of them once, in any order; a stopped sweep goes on.

Which cells there are is the business of `experiment`, and what their records show that of `outcome`.
"""
