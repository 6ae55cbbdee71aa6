"""The stack machine: `reference` is its meaning in plain Python, `kernels` the same thing compiled."""
