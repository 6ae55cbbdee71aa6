"""From data to a run: the plan, the loop, checkpoints, and the run directory with all that it offers."""
