"""The compiled LSTM over ragged traces is torch's LSTM."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hvil.learners.networks.ragged_lstm import run_padded, run_ragged


def outputs_and_gradients(run, network, x, rows, backwards):
    x = x.clone().requires_grad_()
    network.zero_grad()
    hidden = run(network, x, rows, backwards)
    weight = torch.randn(hidden.shape, generator=torch.Generator().manual_seed(1))
    (hidden * weight).sum().backward()
    return [hidden.detach(), x.grad, *(parameter.grad.clone() for parameter in network.parameters())]


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    inputs=st.integers(1, 9),
    units=st.integers(1, 13),
    backwards=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_ragged_lstm_equals_torch_in_output_and_gradient(lengths, inputs, units, backwards):
    torch.manual_seed(0)
    network = torch.nn.LSTM(inputs, units)
    rows = np.concatenate([[0], np.cumsum(lengths)])
    x = torch.randn(int(rows[-1]), inputs)
    ours = outputs_and_gradients(run_ragged, network, x, rows, backwards)
    torchs = outputs_and_gradients(run_padded, network, x, rows, backwards)
    for mine, theirs in zip(ours, torchs, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 100.0, 1e6])
def test_ragged_lstm_saturates_without_overflow(scale):
    torch.manual_seed(0)
    network = torch.nn.LSTM(3, 5)
    rows = np.array([0, 4, 9])
    x = scale * torch.randn(9, 3)
    ours = outputs_and_gradients(run_ragged, network, x, rows, False)
    torchs = outputs_and_gradients(run_padded, network, x, rows, False)
    assert all(torch.isfinite(value).all() for value in ours)
    torch.testing.assert_close(ours[0], torchs[0], rtol=1e-4, atol=1e-5)
