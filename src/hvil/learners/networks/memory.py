"""What a baseline remembers from one time to the next: an LSTM's state, nothing, or a stack that it can push and pop.

Each memory reads whole traces (for training and likelihood) or one time after another (for acting).

Letters: N traces, R rows (all observations of all traces, or one of each environment), F features in, M features out,
K stacks, L cells of a stack.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from hvil.learners.networks.dispatch import can_compile
from hvil.learners.networks.ragged_lstm import run_ragged
from hvil.learners.networks.ragged_stack import run_ragged_stack

State = tuple[Tensor, ...]
"""What is carried from one time to the next; only the memory itself looks inside."""


class Memory(nn.Module):
    """A map of sequences of features that carries a state."""

    def initial(self, rows: int, device: torch.device) -> State:
        """The state at the start of `rows` traces."""
        raise NotImplementedError

    def step(self, features: Float[Tensor, "R F"], state: State) -> tuple[Float[Tensor, "R M"], State]:
        """One time of each trace: what comes out, and the state after it."""
        raise NotImplementedError

    def forward(self, features: Float[Tensor, "R F"], row_offsets: Int[np.ndarray, "N_plus_1"]) -> Float[Tensor, "R M"]:
        """All times of all traces; trace i has the rows `row_offsets[i]:row_offsets[i+1]`."""
        raise NotImplementedError


class NoMemory(Memory):
    """No memory: what comes in goes out, at each time."""

    def initial(self, rows: int, device: torch.device) -> State:
        """Nothing."""
        return ()

    def step(self, features: Float[Tensor, "R F"], state: State) -> tuple[Float[Tensor, "R F"], State]:
        """The features themselves."""
        return features, state

    def forward(self, features: Float[Tensor, "R F"], row_offsets: Int[np.ndarray, "N_plus_1"]) -> Float[Tensor, "R F"]:
        """The features themselves."""
        return features


class LstmMemory(Memory):
    """Layers of LSTMs, each reading the hidden states of the one before."""

    def __init__(self, units: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.LSTM(units, units) for _ in range(layers))

    def initial(self, rows: int, device: torch.device) -> State:
        """A hidden and a cell state of zero for each layer."""
        return tuple(
            torch.zeros(rows, self._lstms()[0].hidden_size, device=device) for _ in range(2 * len(self.layers))
        )

    def step(self, features: Float[Tensor, "R F"], state: State) -> tuple[Float[Tensor, "R M"], State]:
        """The last layer's hidden state."""
        after: list[Tensor] = []
        for layer, hidden, cell in zip(self._lstms(), state[0::2], state[1::2], strict=True):
            # For a single time a cell takes less than half as long as the layer itself.
            features, cell_after = torch.lstm_cell(features, (hidden, cell), *layer.all_weights[0])
            after += [features, cell_after]
        return features, tuple(after)

    def forward(self, features: Float[Tensor, "R F"], row_offsets: Int[np.ndarray, "N_plus_1"]) -> Float[Tensor, "R M"]:
        """The last layer's hidden states."""
        for layer in self._lstms():
            features = run_ragged(layer, features, row_offsets, backwards=False)
        return features

    def _lstms(self) -> list[nn.LSTM]:
        return [layer for layer in self.layers if isinstance(layer, nn.LSTM)]


class StackMemory(Memory):
    """A simple recurrent layer with soft stacks (Joulin and Mikolov 2015).

    The hidden state gives each stack probabilities of push, pop and stay, by which it is moved at each time. The next
    hidden state sees the top `visible` cells of each stack.
    """

    def __init__(self, units: int, stacks: int = 10, cells: int = 32, visible: int = 2) -> None:
        super().__init__()
        self.units, self.stacks, self.cells, self.visible = units, stacks, cells, visible
        self.features = nn.Linear(units, units)
        self.hidden = nn.Linear(units, units, bias=False)
        self.tops = nn.Linear(stacks * visible, units, bias=False)
        self.moves = nn.Linear(units, 3 * stacks)
        self.pushed = nn.Linear(units, stacks)

    def initial(self, rows: int, device: torch.device) -> State:
        """A hidden state of zero, and empty stacks."""
        zeros = torch.zeros(rows, self.units, device=device)
        return zeros, torch.zeros(rows, self.stacks, self.cells, device=device)

    def step(self, features: Float[Tensor, "R F"], state: State) -> tuple[Float[Tensor, "R M"], State]:
        """The new hidden state."""
        return self._next(self.features(features), state)

    def forward(self, features: Float[Tensor, "R F"], row_offsets: Int[np.ndarray, "N_plus_1"]) -> Float[Tensor, "R M"]:
        """The hidden states at all rows."""
        if not can_compile(features):
            return self.forward_padded(features, row_offsets)
        return run_ragged_stack(
            self.features(features),
            torch.cat([self.hidden.weight, self.tops.weight], dim=1),
            torch.cat([self.moves.weight, self.pushed.weight]),
            torch.cat([self.moves.bias, self.pushed.bias]),
            row_offsets,
            self.visible,
            self.cells,
        )

    def forward_padded(
        self, features: Float[Tensor, "R F"], row_offsets: Int[np.ndarray, "N_plus_1"]
    ) -> Float[Tensor, "R M"]:
        """The same one time after another; ended traces repeat their last row, which is left out."""
        lengths = np.diff(row_offsets)
        times = np.arange(int(lengths.max()))[:, None]
        rows = torch.from_numpy(np.minimum(row_offsets[:-1] + times, row_offsets[1:] - 1)).to(features.device)
        state = self.initial(len(lengths), features.device)
        inputs, outputs = self.features(features), []
        for row in rows:
            output, state = self._next(inputs[row], state)
            outputs.append(output)
        inside = torch.from_numpy((times < lengths).T.copy()).to(features.device)
        return torch.stack(outputs, dim=1)[inside]

    def _next(self, inputs: Float[Tensor, "R M"], state: State) -> tuple[Float[Tensor, "R M"], State]:
        hidden, stack = state
        hidden = torch.sigmoid(inputs + self.hidden(hidden) + self.tops(stack[:, :, : self.visible].flatten(1)))
        return hidden, (hidden, self._moved(stack, hidden))

    def _moved(self, stack: Float[Tensor, "R K L"], hidden: Float[Tensor, "R M"]) -> Float[Tensor, "R K L"]:
        push, pop, stay = self.moves(hidden).view(-1, self.stacks, 3).softmax(dim=2).unsqueeze(2).unbind(dim=3)
        top = torch.sigmoid(self.pushed(hidden)).unsqueeze(2)
        after_push = torch.cat([top, stack[:, :, :-1]], dim=2)
        after_pop = torch.cat([stack[:, :, 1:], torch.zeros_like(top)], dim=2)
        moved: Tensor = push * after_push + pop * after_pop + stay * stack
        return moved
