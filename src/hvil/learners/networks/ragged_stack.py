"""The Stack-RNN over ragged traces on the CPU, without padding, with its own backward pass.

`memory.StackMemory` has the definition, and computes it through torch where compiled code cannot run.

Letters: N traces, R rows, M hidden units, K stacks, S hidden units and the visible cells of all stacks.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from hvil.learners.networks import stack_kernels


class _RaggedStack(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        recurrent: Tensor,
        controlling: Tensor,
        bias: Tensor,
        row_offsets: np.ndarray,
        visible: int,
        cells: int,
    ) -> Tensor:
        rows, stacks = len(inputs), len(bias) // 4
        states, hidden, controls = (
            inputs.new_empty(rows, width) for width in (recurrent.shape[1], inputs.shape[1], len(bias))
        )
        stacks_before = inputs.new_empty(rows, stacks, cells)
        stack_kernels.forward(
            *(each.contiguous().numpy() for each in (inputs, recurrent.T, controlling.T, bias)),
            row_offsets,
            visible,
            *(each.numpy() for each in (states, hidden, controls, stacks_before)),
        )
        ctx.save_for_backward(recurrent, controlling, states, hidden, controls, stacks_before)
        ctx.walk = row_offsets, visible
        return hidden

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        recurrent, controlling, states, hidden, controls, stacks_before = ctx.saved_tensors
        grad_inputs, grad_controls = (
            torch.from_numpy(each)
            for each in stack_kernels.backward(
                *(each.contiguous().numpy() for each in (gradients[0], recurrent, controlling)),
                *ctx.walk,
                *(each.numpy() for each in (hidden, controls, stacks_before)),
            )
        )
        weights = grad_inputs.T @ states, grad_controls.T @ hidden, grad_controls.sum(0)
        return grad_inputs, *weights, None, None, None


def run_ragged_stack(
    inputs: Float[Tensor, "R M"],
    recurrent: Float[Tensor, "M S"],
    controlling: Float[Tensor, "K4 M"],
    bias: Float[Tensor, "K4"],
    row_offsets: Int[np.ndarray, "N_plus_1"],
    visible: int,
    cells: int,
) -> Float[Tensor, "R M"]:
    """The hidden states at every row.

    Args:
        inputs: what the features of each row add to the hidden state before its sigmoid.
        recurrent: the weights of the hidden state and of the visible cells.
        controlling: the weights of the scores of push, pop and stay of each stack, then of the values to push.
        bias: of these scores and values.
        row_offsets: where traces begin and end.
        visible: how many cells at the top of each stack the hidden state sees.
        cells: how many cells a stack has.
    """
    hidden: Tensor = _RaggedStack.apply(  # type: ignore[no-untyped-call]
        inputs, recurrent, controlling, bias, row_offsets, visible, cells
    )
    return hidden
