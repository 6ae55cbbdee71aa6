"""Sets of traces: the arrays, their annotations, what the networks see of them, and where they come from.

File formats are in `formats`. What a trace means for procedures is the `machine`'s business.
"""
