"""The teachers of the two recursive domains as policies that are written down: tables, and weights of a network."""

from collections.abc import Mapping

import numpy as np
import torch
from table_policy import RETURN, TablePolicy

from hvil.data.tasks import find_task
from hvil.learners.networks.bank import MlpBank
from hvil.machine.batched import Tops
from hvil.machine.callgraph import call_graph


def there_and_back(observed: Mapping[str, bool], counter: int, last: str | None) -> str:
    """Clear: move, call, move. Blocked: turn, turn."""
    if counter == 0:
        return "move" if observed["front_is_clear"] else "turn"
    if counter == 1:
        return "walk" if last == "move" else "turn"
    return "move" if last == "walk" else RETURN


def tree_walk(observed: Mapping[str, bool], counter: int, last: str | None) -> str:
    """Mark; for each child: go down, call, come up. Which child it was shows in the counter."""
    if counter == 0:
        return "mark"
    if last in ("left", "right"):
        return "walk"
    if last == "walk":
        return "up"
    if last == "mark" and observed["has_left"]:
        return "left"
    first = last == "mark" or (counter == 4 and observed["has_left"])
    return "right" if first and observed["has_right"] else RETURN


class Walker(TablePolicy):
    """A policy of one procedure, which returns where it would call and the stack is full."""

    def choices(self, features: np.ndarray, tops: Tops) -> np.ndarray:
        wanted = super().choices(features, tops)
        full = (tops.depth == self.graph.max_depth) & (wanted > self.graph.terminate)
        return np.where(full, self.graph.terminate, wanted)


def walker(name: str, depth: int | None = None) -> Walker:
    """The policy for a task, on the task's call graph or on one of another depth."""
    task = find_task(name)
    graph = call_graph(task.default_call_graph, task.action_names)
    procedure = there_and_back if name.startswith("thereandback") else tree_walk
    return Walker(graph if depth is None else graph.at_depth(depth), task.observation_names, {"walk": procedure})


def write_there_and_back(bank: MlpBank) -> None:
    """Give a network with the counter `hot4` and the last step the weights of `there_and_back`.

    Every input is 0 or 1 and goes through a hidden unit of its own, so a score is a sum over the inputs that are 1.
    """
    clear, tau, last = 0, 1, 6
    move, turn, end, call = range(4)
    scores = torch.zeros(last + 4, 4)
    scores[clear, move] = 10
    scores[tau + 2, end] = 30
    scores[tau + 3, end] = 60
    scores[last + move, call] = 30
    scores[last + call, move], scores[last + call, end] = 30, -30
    scores[last + turn, turn] = 20
    with torch.no_grad():
        for parameter in bank.parameters():
            parameter.zero_()
        bank.weight1[0, :, : len(scores)] = torch.eye(len(scores))
        bank.weight2[0, : len(scores)] = scores
        bank.bias2[0, turn] = 5
