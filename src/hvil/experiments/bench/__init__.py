"""`hvil bench`: how fast an update is, as ratios measured in one run on one thread, and how costs grow."""
