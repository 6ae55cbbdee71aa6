"""The compiled Stack-RNN over ragged traces is the one that torch computes one time after another."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hvil.learners.networks.memory import StackMemory


def outputs_and_gradients(run, memory, x, rows):
    x = x.clone().requires_grad_()
    for parameter in memory.parameters():  # where all traces have one row, torch gives stacks no gradient at all
        parameter.grad = torch.zeros_like(parameter)
    hidden = run(x, rows)
    weight = torch.randn(hidden.shape, generator=torch.Generator().manual_seed(1))
    (hidden * weight).sum().backward()
    return [hidden.detach(), x.grad, *(parameter.grad.clone() for parameter in memory.parameters())]


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    units=st.integers(1, 13),
    stacks=st.integers(1, 4),
    cells=st.integers(2, 6),
    visible=st.integers(1, 2),
    scale=st.sampled_from([1.0, 5.0]),
)
@settings(max_examples=25, deadline=None)
def test_compiled_stacks_equal_torch_in_output_and_gradient(lengths, units, stacks, cells, visible, scale):
    torch.manual_seed(0)
    memory = StackMemory(units, stacks, cells, visible)
    with torch.no_grad():
        for parameter in memory.parameters():
            parameter *= scale  # large weights push and pop with confidence, as trained ones do
    rows = np.concatenate([[0], np.cumsum(lengths)])
    x = torch.randn(int(rows[-1]), units)
    ours = outputs_and_gradients(memory, memory, x, rows)
    torchs = outputs_and_gradients(memory.forward_padded, memory, x, rows)
    for mine, theirs in zip(ours, torchs, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
