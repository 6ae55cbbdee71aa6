"""The recurrent part of the Stack-RNN over ragged traces, compiled; `ragged_stack` does the products over all rows.

At each row, `state` is the hidden state before it, followed by the cells at the top of each stack that it sees. The
*controls* of a row are the probabilities of push, pop and stay of each stack, then the values to push.

Letters: M hidden units, K stacks, L cells of a stack.
"""

from typing import no_type_check

import numpy as np
from numba import njit

from hvil.learners.networks.lstm_kernels import add_product, sigmoids

_OPTIONS = {"cache": True, "nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
_ONE = np.float32(1.0)


@njit(**_OPTIONS)
@no_type_check
def _softmax_of_moves(control, stacks):
    """Turn the scores of push, pop and stay of each stack into probabilities, in place."""
    for k in range(stacks):
        highest = max(control[3 * k], control[3 * k + 1], control[3 * k + 2])
        total = np.float32(0.0)
        for move in range(3 * k, 3 * k + 3):
            control[move] = np.exp(control[move] - highest)
            total += control[move]
        for move in range(3 * k, 3 * k + 3):
            control[move] /= total


@njit(**_OPTIONS)
@no_type_check
def forward(inputs, recurrent, controlling, bias, row_offsets, visible, states, hidden, controls, stacks_before):
    """Run over every trace.

    `inputs` are what each row adds to the hidden state; `recurrent` is (M + K·visible, M) and `controlling` (M, 4·K).
    The last four arrays receive the state that each row starts from, its hidden state, its controls, and the stacks
    (K, L) before it.
    """
    units = inputs.shape[1]
    stacks, cells = stacks_before.shape[1], stacks_before.shape[2]
    power = np.empty(max(units, stacks), dtype=np.float32)
    power_bits = power.view(np.int32)
    stack = np.empty((stacks, cells), dtype=np.float32)
    for trace in range(row_offsets.shape[0] - 1):
        stack[:] = 0.0
        for row in range(row_offsets[trace], row_offsets[trace + 1]):
            state, output, control = states[row], hidden[row], controls[row]
            state[:units] = 0.0
            if row > row_offsets[trace]:
                state[:units] = hidden[row - 1]
            for k in range(stacks):
                for cell in range(visible):
                    state[units + k * visible + cell] = stack[k, cell]
            output[:] = inputs[row]
            add_product(state, recurrent, output)
            sigmoids(output, power, power_bits)
            control[:] = bias
            add_product(output, controlling, control)
            _softmax_of_moves(control, stacks)
            sigmoids(control[3 * stacks :], power, power_bits)
            stacks_before[row] = stack
            for k in range(stacks):
                push, pop, stay = control[3 * k], control[3 * k + 1], control[3 * k + 2]
                old, new = stacks_before[row, k], stack[k]
                for cell in range(cells):
                    new[cell] = stay * old[cell]
                new[0] += push * control[3 * stacks + k]
                for cell in range(1, cells):
                    new[cell] += push * old[cell - 1]
                    new[cell - 1] += pop * old[cell]


@njit(**_OPTIONS)
@no_type_check
def backward(grad_hidden, recurrent_back, controlling_back, row_offsets, visible, hidden, controls, stacks_before):
    """The gradient through every trace: that of the inputs, and that of the controls before softmax and sigmoid.

    `recurrent_back` is (M, M + K·visible) and `controlling_back` (4·K, M).
    """
    units = hidden.shape[1]
    stacks, cells = stacks_before.shape[1], stacks_before.shape[2]
    grad_inputs = np.empty_like(hidden)
    grad_controls = np.empty_like(controls)
    grad_state = np.empty(recurrent_back.shape[1], dtype=np.float32)
    grad_stack = np.empty((stacks, cells), dtype=np.float32)
    grad_after = np.empty(cells, dtype=np.float32)
    for trace in range(row_offsets.shape[0] - 1):
        grad_state[:] = 0.0
        grad_stack[:] = 0.0
        for row in range(row_offsets[trace + 1] - 1, row_offsets[trace] - 1, -1):
            control, grad_control = controls[row], grad_controls[row]
            for k in range(stacks):
                push, pop, stay = control[3 * k], control[3 * k + 1], control[3 * k + 2]
                top = control[3 * stacks + k]
                old, grad_old = stacks_before[row, k], grad_stack[k]
                grad_after[:] = grad_old
                by_push, by_pop, by_stay = grad_after[0] * top, np.float32(0.0), grad_after[0] * old[0]
                grad_old[0] = stay * grad_after[0]
                for cell in range(1, cells):
                    by_push += grad_after[cell] * old[cell - 1]
                    by_pop += grad_after[cell - 1] * old[cell]
                    by_stay += grad_after[cell] * old[cell]
                    grad_old[cell] = stay * grad_after[cell] + pop * grad_after[cell - 1]
                    grad_old[cell - 1] += push * grad_after[cell]
                mean = push * by_push + pop * by_pop + stay * by_stay
                grad_control[3 * k] = push * (by_push - mean)
                grad_control[3 * k + 1] = pop * (by_pop - mean)
                grad_control[3 * k + 2] = stay * (by_stay - mean)
                grad_control[3 * stacks + k] = grad_after[0] * push * top * (_ONE - top)
            grad_input = grad_inputs[row]
            for unit in range(units):
                grad_input[unit] = grad_hidden[row, unit] + grad_state[unit]
            add_product(grad_control, controlling_back, grad_input)
            for unit in range(units):
                grad_input[unit] *= hidden[row, unit] * (_ONE - hidden[row, unit])
            grad_state[:] = 0.0
            add_product(grad_input, recurrent_back, grad_state)
            for k in range(stacks):
                for cell in range(visible):
                    grad_stack[k, cell] += grad_state[units + k * visible + cell]
    return grad_inputs, grad_controls
