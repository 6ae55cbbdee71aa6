"""Sets of traces: the arrays, their annotations, what the networks see of them, and the sources they come from.

`tasks` says what a domain must offer. File formats are in `formats`. What a trace means for procedures is left to the
machine room.
"""
