"""The state of a training run: all that changes from one update to the next, and how a checkpoint holds it.

`loop` makes the updates, `checkpoints` writes and reads the files.

Letters: N traces.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Int

from hvil.gate.errors import InputError, one_line
from hvil.gate.settings import from_mapping, setting
from hvil.training.checkpoints import Snapshot


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """What a checkpoint holds beside its tensors."""

    random: Mapping[str, Any]
    position: int = setting(0, "traces drawn in this epoch", low=0)
    counted: int = setting(0, "updates that the sums are of", low=0)
    seconds: float = setting(0.0, "wall time so far", low=0)
    sums: Mapping[str, float] = field(default_factory=dict)
    best: tuple[float | None, ...] = (None, 0)
    """The best score, and the evaluations since."""

    def __post_init__(self) -> None:
        if len(self.best) != 2 or self.best[1] is None or self.best[1] < 0:
            raise InputError("best must be a score and a count of evaluations")


@dataclass
class State:
    """Everything that changes from one update to the next."""

    module: torch.nn.Module
    parameters: list[torch.nn.Parameter]
    """The parameters of the module that are trained."""
    optimiser: torch.optim.Adam
    rng: np.random.Generator
    average: list[torch.Tensor] = field(default_factory=list)
    """Running average of the parameters; empty if none is wanted."""
    order: Int[np.ndarray, "N"] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The traces of this epoch, in the order they are drawn."""
    position: int = 0
    """How many traces of this epoch have been drawn."""
    update: int = 0
    """How many updates have been made."""
    seconds: float = 0.0
    """Wall time of the training so far, that before a resume included."""
    best: list[torch.Tensor] = field(default_factory=list)
    """The parameters at the best held-out score so far; empty if none is kept."""
    best_score: float = -math.inf
    since_best: int = 0
    """Evaluations since the best score."""
    sums: dict[str, float] = field(default_factory=dict)
    """Sums of the metrics since the last record."""
    counted: int = 0
    """How many updates the sums are of."""

    @property
    def final(self) -> list[torch.Tensor]:
        """The weights with which the training would end now: the best or the averaged ones; empty: the current ones."""
        return self.best or self.average

    def snapshot(self) -> Snapshot:
        """A copy of the state that shares no memory with it."""
        tensors = {f"weights.{name}": value for name, value in self.module.state_dict().items()}
        for index, moments in self.optimiser.state_dict()["state"].items():
            tensors |= {f"adam.{index}.{name}": value for name, value in moments.items()}
        tensors |= {f"average.{index}": value for index, value in enumerate(self.average)}
        tensors |= {f"best.{index}": value for index, value in enumerate(self.best)}
        tensors |= {"order": torch.from_numpy(self.order), "torch_random": torch.get_rng_state()}
        facts = {
            "random": self.rng.bit_generator.state,
            "position": self.position,
            "seconds": self.seconds,
            "sums": self.sums.copy(),
            "counted": self.counted,
            "best": [self.best_score if self.best else None, self.since_best],
        }
        return Snapshot(self.update, {k: v.detach().cpu().clone().contiguous() for k, v in tensors.items()}, facts)

    def restore(self, snapshot: Snapshot, count: int) -> None:
        """Go back to a snapshot.

        Raises:
            InputError: the snapshot does not fit the model or the `count` traces.
        """
        tensors = snapshot.tensors
        try:
            facts = from_mapping(_Facts, snapshot.facts, "state.json", noun="entry")
            self._refuse_other_shapes(tensors)
            moments: dict[int, dict[str, torch.Tensor]] = {}
            for name, value in _under(tensors, "adam.").items():
                number, moment = name.split(".", 1)
                moments.setdefault(int(number), {})[moment] = value
            self.module.load_state_dict(_under(tensors, "weights."))
            groups = self.optimiser.state_dict()["param_groups"]
            self.optimiser.load_state_dict({"state": moments, "param_groups": groups})
            assign(self.average, [tensors[f"average.{index}"] for index in range(len(self.average))])
            best_score, since = facts.best
            if best_score is not None:
                self.best = [tensors[f"best.{index}"].to(p) for index, p in enumerate(self.parameters)]
                self.best_score = float(best_score)
            self.since_best = int(since or 0)
            torch.set_rng_state(tensors["torch_random"])
            self.rng.bit_generator.state = facts.random
            self.order = tensors["order"].numpy().copy()
            self.position, self.counted = facts.position, facts.counted
            self.seconds, self.sums = facts.seconds, dict(facts.sums)
        except (KeyError, ValueError, TypeError, RuntimeError, AttributeError, OverflowError) as error:
            reason = one_line(error, longest=200)
            raise InputError(f"the checkpoint of update {snapshot.update} does not fit the model ({reason})") from error
        if len(self.order) and (len(self.order) != count or not np.array_equal(np.sort(self.order), np.arange(count))):
            raise InputError(f"the checkpoint of update {snapshot.update} is not of these {count} traces")
        self.update = snapshot.update

    def _refuse_other_shapes(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Refuse tensors that are not like those of this state: compiled code trusts their shapes and types."""
        expected = {f"weights.{name}": value for name, value in self.module.state_dict().items()}
        for index, parameter in enumerate(self.parameters):
            alike = ("adam.{}.exp_avg", "adam.{}.exp_avg_sq", "average.{}", "best.{}")
            expected |= {name.format(index): parameter for name in alike}
            expected[f"adam.{index}.step"] = torch.zeros(())
        expected["torch_random"] = torch.get_rng_state()
        for name, tensor in tensors.items():
            if name == "order":
                if tensor.ndim != 1 or tensor.dtype != torch.int64:
                    raise ValueError("order must be whole numbers")
            elif name not in expected or (tensor.shape, tensor.dtype) != (expected[name].shape, expected[name].dtype):
                raise ValueError(f"{name} differs in shape or type, or should not be there")
        adam = sum(name.startswith("adam.") for name in tensors)
        if adam not in (0, 3 * len(self.parameters)):
            raise ValueError("moments of some parameters are missing")

    def draw(self, count: int, size: int) -> Int[np.ndarray, "size"]:
        """The traces of the next batch, drawn without replacement within an epoch.

        All batches have the same size. The traces that are left at the end of an epoch and are too few for a batch are
        not used in it: an update on a handful of traces would follow their noise. They are others in each epoch.
        """
        if self.position + size > len(self.order):
            self.order, self.position = self.rng.permutation(count), 0
        self.position += size
        return self.order[self.position - size : self.position]

    def draw_among(self, shortest: Int[np.ndarray, "n"], size: int) -> Int[np.ndarray, "size"]:
        """A batch out of the shortest traces, while a curriculum holds the others back; it belongs to no epoch."""
        return shortest[self.rng.permutation(len(shortest))[:size]]

    def judge(self, score: float) -> None:
        """Keep the weights (the averaged ones, if there are any) if this score of an evaluation is the best so far."""
        self.since_best += 1
        if score > self.best_score:
            self.best = [value.detach().clone() for value in self.average or self.parameters]
            self.best_score, self.since_best = score, 0

    def add_metrics(self, loss: float, metrics: Mapping[str, float]) -> None:
        """Add the loss and the metrics of one update to the sums."""
        self.counted += 1
        sums = self.sums
        sums["loss"] = sums.get("loss", 0.0) + loss
        for name, value in metrics.items():
            sums[name] = sums.get(name, 0.0) + value

    def take_means(self) -> dict[str, float]:
        """The means of loss and metrics since the last call; the sums begin anew."""
        means = {name: value / self.counted for name, value in self.sums.items()}
        self.sums, self.counted = {}, 0
        return means


def assign(parameters: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    """Copy values into parameters, in place."""
    with torch.no_grad():
        for parameter, value in zip(parameters, values, strict=True):
            parameter.copy_(value)


def _under(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
