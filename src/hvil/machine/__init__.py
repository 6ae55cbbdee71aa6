"""The stack machine: call graphs, PHP steps, and what a step does.

`reference` is the specification in plain Python; `kernels` is the same compiled, `batched` the same for many machines.
"""
