"""What a baseline remembers from one time to the next: an LSTM's state, nothing, or a stack that it can push and pop.

Each memory reads whole traces (to train and for the likelihood) or goes one time on (to act).

Letters: N traces, R rows (all observations of all traces, or one of each environment), F features in, M features out,
K stacks, L cells of a stack.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from hvil.learners.networks.ragged_lstm import run_ragged

State = tuple[Tensor, ...]
"""What is carried from one time to the next; opaque to all but the memory itself."""


class Memory(nn.Module):
    """A map of sequences of features that carries a state."""

    def initial(self, rows: int, device: torch.device) -> State:
        """The state at the start of `rows` traces."""
        raise NotImplementedError

    def step(self, features: Float[Tensor, "R F"], state: State) -> tuple[Float[Tensor, "R M"], State]:
        """One time of each trace: what comes out, and the state after it."""
        raise NotImplementedError

    def forward(self, features: Float[Tensor, "R F"], offsets: Int[np.ndarray, "N_plus_1"]) -> Float[Tensor, "R M"]:
        """All times of all traces; trace i has the rows `offsets[i]:offsets[i+1]`."""
        raise NotImplementedError


class NoMemory(Memory):
    """Every time for itself: what comes in goes out."""

    def initial(self, rows: int, device: torch.device) -> State:
        """Nothing."""
        return ()

    def step(self, features: Float[Tensor, "R F"], state: State) -> tuple[Float[Tensor, "R F"], State]:
        """The features themselves."""
        return features, state

    def forward(self, features: Float[Tensor, "R F"], offsets: Int[np.ndarray, "N_plus_1"]) -> Float[Tensor, "R F"]:
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
            torch.zeros(1, rows, self._lstms()[0].hidden_size, device=device) for _ in range(2 * len(self.layers))
        )

    def step(self, features: Float[Tensor, "R F"], state: State) -> tuple[Float[Tensor, "R M"], State]:
        """The last layer's hidden state."""
        after: list[Tensor] = []
        for layer, hidden, cell in zip(self._lstms(), state[0::2], state[1::2], strict=True):
            output, states = layer(features[None], (hidden, cell))
            features = output[0]
            after += states
        return features, tuple(after)

    def forward(self, features: Float[Tensor, "R F"], offsets: Int[np.ndarray, "N_plus_1"]) -> Float[Tensor, "R M"]:
        """The last layer's hidden states."""
        for layer in self._lstms():
            features = run_ragged(layer, features, offsets, backwards=False)
        return features

    def _lstms(self) -> list[nn.LSTM]:
        return [layer for layer in self.layers if isinstance(layer, nn.LSTM)]


class StackMemory(Memory):
    """A simple recurrent layer with soft stacks (Joulin and Mikolov 2015).

    At each time every stack is pushed, popped or left, by probabilities that the hidden state gives, and the new
    hidden state sees the stacks' top cells.
    """

    def __init__(self, units: int, stacks: int = 10, cells: int = 32, seen: int = 2) -> None:
        super().__init__()
        self.units, self.stacks, self.cells, self.seen = units, stacks, cells, seen
        self.features = nn.Linear(units, units)
        self.hidden = nn.Linear(units, units, bias=False)
        self.tops = nn.Linear(stacks * seen, units, bias=False)
        self.moves = nn.Linear(units, 3 * stacks)
        self.pushed = nn.Linear(units, stacks)

    def initial(self, rows: int, device: torch.device) -> State:
        """A hidden state of zero, and empty stacks."""
        zeros = torch.zeros(rows, self.units, device=device)
        return zeros, torch.zeros(rows, self.stacks, self.cells, device=device)

    def step(self, features: Float[Tensor, "R F"], state: State) -> tuple[Float[Tensor, "R M"], State]:
        """The new hidden state."""
        return self._next(self.features(features), state)

    def forward(self, features: Float[Tensor, "R F"], offsets: Int[np.ndarray, "N_plus_1"]) -> Float[Tensor, "R M"]:
        """The hidden states, one time after another; traces that have ended go along and are left out at the end."""
        lengths = np.diff(offsets)
        times = np.arange(int(lengths.max()))[:, None]
        rows = torch.from_numpy(np.minimum(offsets[:-1] + times, offsets[1:] - 1)).to(features.device)
        state = self.initial(len(lengths), features.device)
        seen, outputs = self.features(features), []
        for row in rows:
            output, state = self._next(seen[row], state)
            outputs.append(output)
        inside = torch.from_numpy((times < lengths).T.copy()).to(features.device)
        return torch.stack(outputs, dim=1)[inside]

    def _next(self, seen: Float[Tensor, "R M"], state: State) -> tuple[Float[Tensor, "R M"], State]:
        hidden, stack = state
        hidden = torch.sigmoid(seen + self.hidden(hidden) + self.tops(stack[:, :, : self.seen].flatten(1)))
        return hidden, (hidden, self._moved(stack, hidden))

    def _moved(self, stack: Float[Tensor, "R K L"], hidden: Float[Tensor, "R M"]) -> Float[Tensor, "R K L"]:
        push, pop, stay = self.moves(hidden).view(-1, self.stacks, 3).softmax(dim=2).unsqueeze(2).unbind(dim=3)
        top = torch.sigmoid(self.pushed(hidden)).unsqueeze(2)
        after_push = torch.cat([top, stack[:, :, :-1]], dim=2)
        after_pop = torch.cat([stack[:, :, 1:], torch.zeros_like(top)], dim=2)
        moved: Tensor = push * after_push + pop * after_pop + stay * stack
        return moved
