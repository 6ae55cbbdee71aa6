"""`torch.nn.LSTM` over ragged traces on the CPU, without padding, with its own backward pass; equal to torch's.

It takes half the time of torch's kernel on traces of mixed lengths. Other devices and precisions are padded and run
through torch's kernel.

Letters: N traces, R rows, I inputs.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from hvil.learners.networks import lstm_kernels
from hvil.learners.networks.dispatch import can_compile


class _RaggedLstm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight_in: Tensor,
        weight_state: Tensor,
        bias: Tensor,
        row_offsets: np.ndarray,
        backwards: bool,
    ) -> Tensor:
        gates = torch.addmm(bias, x, weight_in.T)
        units = weight_state.shape[1]
        hidden, before, cells, tanh_cells = (x.new_empty(len(x), units) for _ in range(4))
        lstm_kernels.forward(
            gates.numpy(),
            weight_state.T.contiguous().numpy(),
            row_offsets,
            backwards,
            *(array.numpy() for array in (hidden, before, cells, tanh_cells)),
        )
        ctx.save_for_backward(x, weight_in, weight_state, gates, before, cells, tanh_cells)
        ctx.walk = row_offsets, backwards
        return hidden

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight_in, weight_state, gates, before, cells, tanh_cells = ctx.saved_tensors
        grad = gates.clone()
        lstm_kernels.backward(
            gradients[0].contiguous().numpy(),
            grad.numpy(),
            weight_state.contiguous().numpy(),
            *ctx.walk,
            cells.numpy(),
            tanh_cells.numpy(),
        )
        grad_x = grad @ weight_in if ctx.needs_input_grad[0] else None
        return grad_x, grad.T @ x, grad.T @ before, grad.sum(0), None, None


def run_ragged(
    network: nn.LSTM, x: Float[Tensor, "R I"], row_offsets: Int[np.ndarray, "N_plus_1"], backwards: bool
) -> Float[Tensor, "R units"]:
    """The hidden states of a one-layer LSTM at every row, each trace read forwards or backwards."""
    weight_in, weight_state, bias_in, bias_state = network.all_weights[0]
    if can_compile(x):
        hidden: Tensor = _RaggedLstm.apply(  # type: ignore[no-untyped-call]
            x, weight_in, weight_state, bias_in + bias_state, row_offsets, backwards
        )
        return hidden
    return run_padded(network, x, row_offsets, backwards)


def run_padded(
    network: nn.LSTM, x: Float[Tensor, "R I"], row_offsets: Int[np.ndarray, "N_plus_1"], backwards: bool
) -> Float[Tensor, "R units"]:
    """The same through torch's own kernel, with the traces padded to a rectangle.

    They are not packed: on the CPU, packed sequences do not use the fused kernel and are ten times slower.
    """
    index, inside = _rectangle(row_offsets, backwards)
    row = torch.from_numpy(index).to(x.device)
    output, _ = network(x[row.ravel()].reshape(*index.shape, -1))
    source = np.empty(len(x), dtype=np.int64)
    source[index[inside]] = np.flatnonzero(inside.ravel())
    flat: Tensor = output.reshape(-1, output.shape[-1])
    return flat.index_select(0, torch.from_numpy(source).to(x.device))


def _rectangle(
    row_offsets: Int[np.ndarray, "N_plus_1"], backwards: bool
) -> tuple[Int[np.ndarray, "times N"], Bool[np.ndarray, "times N"]]:
    """The row at each time of each trace, and whether the time is within the trace."""
    lengths = np.diff(row_offsets)
    times = np.arange(int(lengths.max()))[:, None]
    inside = times < lengths
    row = row_offsets[1:] - 1 - times if backwards else row_offsets[:-1] + times
    return np.where(inside, row, row_offsets[:-1]), inside
