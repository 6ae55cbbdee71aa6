"""The recurrent part of an LSTM over ragged traces, compiled; `ragged_lstm` does the products over all rows at once.

Gates are in torch's order: input, forget, cell, output. A trace's rows are visited forwards or backwards. Nothing is
padded, so a short trace beside a long one costs only its own length.
"""

from typing import no_type_check

import numpy as np
from numba import njit

_OPTIONS = {"cache": True, "nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}

_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.12194440e-4)


@njit(**_OPTIONS)
@no_type_check
def sigmoids(values, power, power_bits):
    """The logistic function of each value, in place.

    exp(−x) = 2^n·exp(r) with a polynomial for exp(r) that is accurate to about 1e-7. The compiler turns this plain
    arithmetic into vector code, which it cannot do with calls of the library's exp. `power_bits` is a view of `power`
    as integers.
    """
    size = values.shape[0]
    for k in range(size):
        x = -min(max(values[k], np.float32(-80.0)), np.float32(80.0))
        n = np.floor(x * _LOG2_E + np.float32(0.5))
        r = x - n * _LN2_HIGH
        r = r - n * _LN2_LOW
        p = np.float32(1.9875691500e-4)
        p = p * r + np.float32(1.3981999507e-3)
        p = p * r + np.float32(8.3334519073e-3)
        p = p * r + np.float32(4.1665795894e-2)
        p = p * r + np.float32(1.6666665459e-1)
        p = p * r + np.float32(5.0000001201e-1)
        values[k] = p * r * r + r + np.float32(1.0)
        power_bits[k] = (np.int32(n) + np.int32(127)) << np.int32(23)
    for k in range(size):
        values[k] = np.float32(1.0) / (np.float32(1.0) + values[k] * power[k])


@njit(**_OPTIONS)
@no_type_check
def add_product(vector, matrix, result):
    """Add vector @ matrix to the result, four rows at a time."""
    size, columns = matrix.shape
    whole = size - size % 4
    for j in range(0, whole, 4):
        a, b, c, d = vector[j], vector[j + 1], vector[j + 2], vector[j + 3]
        for k in range(columns):
            result[k] += a * matrix[j, k] + b * matrix[j + 1, k] + (c * matrix[j + 2, k] + d * matrix[j + 3, k])
    for j in range(whole, size):
        for k in range(columns):
            result[k] += vector[j] * matrix[j, k]


@njit(**_OPTIONS)
@no_type_check
def forward(gates, recurrent, row_offsets, backwards, hidden, before, cells, tanh_cells):
    """Run over every trace.

    `gates` holds the inputs' part at first and the activated gates at the end; `recurrent` is (units, 4·units);
    `before` receives the hidden state that each row starts from.
    """
    units = recurrent.shape[0]
    power = np.empty(4 * units, dtype=np.float32)
    power_bits = power.view(np.int32)
    state = np.empty(units, dtype=np.float32)
    cell = np.empty(units, dtype=np.float32)
    squashed = np.empty(units, dtype=np.float32)
    for trace in range(row_offsets.shape[0] - 1):
        state[:] = 0.0
        cell[:] = 0.0
        for t in range(row_offsets[trace + 1] - row_offsets[trace]):
            row = row_offsets[trace + 1] - 1 - t if backwards else row_offsets[trace] + t
            gate = gates[row]
            before[row] = state
            add_product(state, recurrent, gate)
            for k in range(2 * units, 3 * units):
                gate[k] *= np.float32(2.0)
            sigmoids(gate, power, power_bits)
            for k in range(units):
                gate[2 * units + k] = np.float32(2.0) * gate[2 * units + k] - np.float32(1.0)
                cell[k] = gate[units + k] * cell[k] + gate[k] * gate[2 * units + k]
                squashed[k] = np.float32(2.0) * cell[k]
            sigmoids(squashed, power, power_bits)
            for k in range(units):
                squashed[k] = np.float32(2.0) * squashed[k] - np.float32(1.0)
                state[k] = gate[3 * units + k] * squashed[k]
            cells[row] = cell
            tanh_cells[row] = squashed
            hidden[row] = state


@njit(**_OPTIONS)
@no_type_check
def backward(grad_hidden, gates, recurrent_back, row_offsets, backwards, cells, tanh_cells):
    """The gradient through every trace; at the end `gates` holds the gradient of the gates before activation.

    `recurrent_back` is (4·units, units).
    """
    units = recurrent_back.shape[1]
    grad_state = np.empty(units, dtype=np.float32)
    grad_cell = np.empty(units, dtype=np.float32)
    one = np.float32(1.0)
    for trace in range(row_offsets.shape[0] - 1):
        grad_state[:] = 0.0
        grad_cell[:] = 0.0
        length = row_offsets[trace + 1] - row_offsets[trace]
        for t in range(length - 1, -1, -1):
            row = row_offsets[trace + 1] - 1 - t if backwards else row_offsets[trace] + t
            earlier = row + 1 if backwards else row - 1
            gate = gates[row]
            for k in range(units):
                through = grad_state[k] + grad_hidden[row, k]
                squashed = tanh_cells[row, k]
                i, f, g, o = gate[k], gate[units + k], gate[2 * units + k], gate[3 * units + k]
                inward = through * o * (one - squashed * squashed) + grad_cell[k]
                grad_cell[k] = inward * f
                gate[k] = inward * g * i * (one - i)
                gate[2 * units + k] = inward * i * (one - g * g)
                gate[3 * units + k] = through * squashed * o * (one - o)
                gate[units + k] = inward * f * (one - f)
            if t > 0:
                for k in range(units):
                    gate[units + k] *= cells[earlier, k]
            else:
                for k in range(units):
                    gate[units + k] = 0.0
            grad_state[:] = 0.0
            add_product(gate, recurrent_back, grad_state)
