"""Runs the cells of an experiment: here on all cores, or on Ray; each once, in any order, resumable."""
