"""Runs the cells of an experiment, on this machine or on Ray: each cell once, in any order; a stopped sweep goes on.

Which cells there are is the business of `experiment`, and what their records show that of `outcome`.
"""
