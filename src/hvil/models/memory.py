"""What a baseline remembers from one time to the next: an LSTM's state, nothing, or a stack that it can push and pop.

All memories read padded batches and pass their state on, so that training, likelihood and acting share them.

Letters: N traces, T times, F features in, M features out, K stacks, L cells of a stack.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

State = tuple[Tensor, ...]
"""What is carried from one time to the next; opaque to all but the memory itself."""


class Memory(nn.Module):
    """A map of feature sequences that carries a state."""

    def initial(self, rows: int, device: torch.device) -> State:
        """The state at the start of `rows` traces."""
        raise NotImplementedError

    def forward(self, features: Float[Tensor, "N T F"], state: State) -> tuple[Float[Tensor, "N T M"], State]:
        """Outputs at each time, and the state after the last one."""
        raise NotImplementedError


class NoMemory(Memory):
    """Every time for itself: what comes in goes out."""

    def initial(self, rows: int, device: torch.device) -> State:
        """Nothing."""
        return ()

    def forward(self, features: Float[Tensor, "N T F"], state: State) -> tuple[Float[Tensor, "N T F"], State]:
        """The features themselves."""
        return features, state


class LstmMemory(Memory):
    """A stack of LSTM layers over padded input: packed sequences leave the CPU's fused kernel and are slower."""

    def __init__(self, units: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(units, units, layers, batch_first=True)

    def initial(self, rows: int, device: torch.device) -> State:
        """Hidden and cell states of zero."""
        zeros = torch.zeros(self.lstm.num_layers, rows, self.lstm.hidden_size, device=device)
        return zeros, zeros

    def forward(self, features: Float[Tensor, "N T F"], state: State) -> tuple[Float[Tensor, "N T M"], State]:
        """The last layer's hidden states."""
        hidden, cell = state
        output, after = self.lstm(features, (hidden, cell))
        return output, after


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

    def forward(self, features: Float[Tensor, "N T F"], state: State) -> tuple[Float[Tensor, "N T M"], State]:
        """The hidden states, one time after another."""
        hidden, stack = state
        outputs = []
        for seen in self.features(features).unbind(dim=1):
            top = stack[:, :, : self.seen].flatten(1)
            hidden = torch.sigmoid(seen + self.hidden(hidden) + self.tops(top))
            stack = self._moved(stack, hidden)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1), (hidden, stack)

    def _moved(self, stack: Float[Tensor, "N K L"], hidden: Float[Tensor, "N M"]) -> Float[Tensor, "N K L"]:
        push, pop, stay = self.moves(hidden).view(-1, self.stacks, 3).softmax(dim=2).unsqueeze(2).unbind(dim=3)
        top = torch.sigmoid(self.pushed(hidden)).unsqueeze(2)
        after_push = torch.cat([top, stack[:, :, :-1]], dim=2)
        after_pop = torch.cat([stack[:, :, 1:], torch.zeros_like(top)], dim=2)
        moved: Tensor = push * after_push + pop * after_pop + stay * stack
        return moved
