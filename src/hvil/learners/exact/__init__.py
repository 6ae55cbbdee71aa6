"""Exact inference over all call structures of a trace, by dynamic programming over spans.

`step_table` lists the policy steps that call structures visit, `inference` sums over the structures. The learner that
trains on the sum is `hvil.learners.exact_learner`.
"""
