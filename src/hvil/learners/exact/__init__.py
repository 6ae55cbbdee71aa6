"""Exact inference over all call structures of a trace, by dynamic programming over spans."""
