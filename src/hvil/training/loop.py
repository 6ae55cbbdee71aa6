"""The training loop: batches, Adam, averages, metrics, evaluations, checkpoints. It knows learners by protocol only.

`state` holds what changes, `checkpoints` stores it on disk, `observers` show and record what happens, and `fit` puts it
all into a directory.
One generator decides the order of the data and the learner's samples. Its state and torch's own random state are part
of a checkpoint, so that a run that was killed and resumed ends with the same bits as one that was not.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch

from hvil.data.streams import Stream
from hvil.data.traces import Traces
from hvil.gate.errors import InputError
from hvil.learners.learner import Learner, Prepares, Shrinks, StartsShort
from hvil.learners.settings import TrainingSettings
from hvil.training.checkpoints import Checkpoints
from hvil.training.state import State, assign

EVALUATIONS = 10
"""Evaluations of a run, unless the settings say how often."""
RECORDS = 200
"""The most lines in the metrics of a run, roughly: a curve of a few hundred points is as good as one of thousands."""
AVERAGE_WARM_UP = 10
"""The running average forgets faster in the first updates, so that the initial weights do not linger in it."""


FIRST_SHARE = 0.25
"""Share of the traces, the shortest ones, with which a curriculum begins."""

Evaluate = Callable[[Learner], Mapping[str, float]]


class Trained(NamedTuple):
    """What the loop did."""

    updates: int
    seconds: float
    """Wall time of all updates and evaluations, those before a resume included."""


@runtime_checkable
class Observer(Protocol):
    """Someone who watches the training."""

    def begin(self, update: int, updates: int) -> None:
        """The loop starts, or goes on, at `update`; what was recorded of later updates is void."""

    def tick(self, update: int, loss: float, metrics: Mapping[str, float]) -> None:
        """An update is done; called after each one, so it must cost next to nothing."""

    def record(self, values: Mapping[str, float]) -> None:
        """Means since the last record, and evaluations when there was one; `update` is among the values."""

    def end(self) -> None:
        """The loop is over, well or badly."""


@runtime_checkable
class Batches(Protocol):
    """Where batches come from, if the traces do not fit in memory."""

    def batch(self, update: int, size: int) -> Traces:
        """The batch of an update, counted from 0."""


class Hooks(NamedTuple):
    """What happens beside the updates."""

    evaluate: Evaluate | None = None
    """Measures the learner at each evaluation; the learner then has its averaged weights, if there are any. With a
    patience, the measure `held_out` (the higher, the better) decides when to stop and which weights to keep."""
    checkpoints: Checkpoints | None = None
    """Where the state is stored."""
    save: Callable[[int], None] | None = None
    """Called after each checkpoint with its update. The learner then has the weights with which it would end now."""
    observers: Sequence[Observer] = ()
    """Those who record and show what happens."""


def train(
    learner: Learner,
    traces: Traces,
    settings: TrainingSettings,
    hooks: Hooks = Hooks(),  # noqa: B008 (an immutable tuple)
    *,
    resume: bool = False,
    until: int | None = None,
    stream: Batches | None = None,
) -> Trained:
    """Train a learner in place; at the end it holds the final (or averaged, or best) weights.

    Args:
        learner: the model, fresh from `hvil.learners.build`.
        traces: the training set.
        settings: how long, how fast, and when to evaluate.
        hooks: what happens beside the updates.
        resume: go on from the newest checkpoint, if there is one.
        until: pause after this update, with a checkpoint; resumed, the run ends as if it had not paused.
        stream: where batches come from, if `traces` are only a part of a set that does not fit in memory.

    Raises:
        FloatingPointError: the loss or the weights are no longer finite; the last good checkpoint stays.
    """
    with alone_in_process(), _surroundings(settings):
        snapshot = hooks.checkpoints.latest() if hooks.checkpoints and resume else None
        if snapshot is None and isinstance(learner, Prepares):
            learner.first_weights(traces, Stream.FIRST_WEIGHTS.generator(settings.weights_seed))
        state = _initial_state(learner, settings)
        if snapshot is not None:
            state.restore(snapshot, len(traces))
        if state.update > settings.updates:
            raise InputError(
                f"the checkpoint has {state.update} updates already, more than the {settings.updates} wanted"
            )
        for observer in hooks.observers:
            observer.begin(state.update, settings.updates)
        try:
            _loop(state, learner, _batches(state, learner, traces, settings, stream), settings, hooks, until)
        finally:
            for observer in hooks.observers:
                observer.end()
        if state.final:
            assign(state.parameters, state.final)
        state.module.eval()
    return Trained(updates=state.update, seconds=state.seconds)


def _batches(
    state: State, learner: Learner, traces: Traces, settings: TrainingSettings, stream: Batches | None
) -> Callable[[], Traces]:
    """A function that gives the batch of the next update."""
    start = learner.start if isinstance(learner, StartsShort) else None
    if stream is not None:
        if start is not None:
            raise InputError("an exact start needs all traces in memory: it looks for the short ones")
        return lambda: stream.batch(state.update, settings.batch_size)
    # A batch is cut out of the set at every update; per-trace metadata, which no learner reads, would be cut too.
    traces = replace(traces, metadata={})
    size, count = min(settings.batch_size, len(traces)), len(traces)
    by_length = np.argsort(traces.lengths, kind="stable")
    short = 0 if start is None else int((traces.lengths <= start.longest).sum())
    if start is not None and not short:
        raise InputError(
            f"no trace has at most {start.longest} actions (the shortest has {traces.lengths.min()}): raise "
            "--exact-length, or leave out --exact-start"
        )

    def next_batch() -> Traces:
        if start is not None and state.update < start.updates:
            allowed = short
        else:
            begun = 0 if start is None else start.updates
            allowed = allowed_traces(state.update, count, max(size, short), settings.curriculum, begun)
        if allowed < count:
            return traces[state.draw_among(by_length[:allowed], size)]
        return traces if size == count else traces[state.draw(count, size)]

    return next_batch


def allowed_traces(update: int, count: int, least: int, curriculum: int, begun: int = 0) -> int:
    """How many traces, the shortest ones, a batch is drawn from: at least so many, during the curriculum ever more.

    The curriculum begins at update `begun` and ends at update `curriculum`.

    Long traces cost most of the time. As long as a learner does not know what happens in short traces, it learns
    nothing from long ones but how to count.
    """
    if update >= curriculum:
        return count
    share = FIRST_SHARE + (1 - FIRST_SHARE) * (update - begun) / (curriculum - begun)
    return min(count, max(least, math.ceil(share * count)))


def _loop(
    state: State,
    learner: Learner,
    next_batch: Callable[[], Traces],
    settings: TrainingSettings,
    hooks: Hooks,
    until: int | None,
) -> None:
    """Update the learner until the last update, the pause at `until`, or the end of its patience."""
    end = settings.updates if until is None else min(until, settings.updates)
    every = intervals(settings)
    started = time.perf_counter() - state.seconds
    saved = state.update
    while state.update < end and not _out_of_patience(state, settings):
        loss = learner.loss(next_batch(), state.rng, state.update)
        value = loss.total.item()
        if not math.isfinite(value):
            rest = f"the checkpoint of update {saved} is kept" if saved else "there is no checkpoint before it"
            raise FloatingPointError(f"the loss became {value} at update {state.update + 1}; {rest}")
        _step(state, learner, loss.total, settings)
        state.add_metrics(value, loss.metrics)
        for observer in hooks.observers:
            observer.tick(state.update, value, loss.metrics)

        last = state.update == settings.updates
        evaluates = last or state.update % every.evaluation == 0
        if evaluates or state.update % every.record == 0:
            measured = _measured(state, learner, hooks.evaluate) if evaluates and hooks.evaluate else {}
            if settings.patience and "held_out" in measured:
                state.judge(measured["held_out"])
                last |= _out_of_patience(state, settings)
            state.seconds = time.perf_counter() - started
            values = {"update": state.update, "seconds": round(state.seconds, 3), **state.take_means(), **measured}
            for observer in hooks.observers:
                observer.record(values)
        if hooks.checkpoints and (last or state.update == end or state.update % every.checkpoint == 0):
            state.seconds = time.perf_counter() - started
            hooks.checkpoints.save(state.snapshot())
            saved = state.update
            if hooks.save:
                with _holding(state, state.final):
                    hooks.save(state.update)


def _step(state: State, learner: Learner, loss: torch.Tensor, settings: TrainingSettings) -> None:
    """One update of the parameters and of their running average."""
    state.optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    if settings.clip:
        torch.nn.utils.clip_grad_norm_(state.parameters, settings.clip)
    for group in state.optimiser.param_groups:
        group["lr"] = learning_rate(settings, state.update)
    state.optimiser.step()
    if isinstance(learner, Shrinks):
        learner.shrink(state.optimiser, state.update)
    state.update += 1
    if state.average:
        _advance_average(state, settings.average)


def learning_rate(settings: TrainingSettings, update: int) -> float:
    """The learning rate of an update, counted from 0: it falls in a straight line while the training cools down."""
    return settings.learning_rate * min(1.0, (settings.updates - update) / max(1, settings.cooldown))


def _out_of_patience(state: State, settings: TrainingSettings) -> bool:
    return bool(settings.patience) and state.since_best >= settings.patience


class Intervals(NamedTuple):
    """How many updates there are from one event to the next of its kind."""

    evaluation: int
    checkpoint: int
    record: int


def intervals(settings: TrainingSettings) -> Intervals:
    """How often to evaluate, to store a checkpoint and to record; what the settings leave open is chosen here."""
    evaluation = settings.evaluate_every or max(1, math.ceil(settings.updates / EVALUATIONS))
    return Intervals(
        evaluation=evaluation,
        checkpoint=settings.checkpoint_every or evaluation,
        record=max(1, settings.updates // RECORDS),
    )


_TURN = threading.RLock()
"""Held while torch's random state and threads are ours: a process has one of each, whoever else trains in it."""


def alone_in_process() -> AbstractContextManager[Any]:
    """While the block runs, other threads of this process wait to train: their weights are as if they were alone."""
    return _TURN


def seeded(seed: int, make: Callable[[], Any]) -> Any:
    """Call `make` with torch's random state set by the seed, and leave that state as it was for everyone else."""
    with alone_in_process(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def _initial_state(learner: Learner, settings: TrainingSettings) -> State:
    """The state before the first update; the learner moves to its device."""
    if not isinstance(learner, torch.nn.Module):
        raise TypeError(f"a learner is a torch.nn.Module; {type(learner).__name__} is not")
    learner.to(find_device(settings.device))
    learner.train()
    # One without numbers (the variances of effects, if no field is a number) gets no gradient, and so no moments.
    parameters = [p for p in learner.parameters() if p.requires_grad and p.numel()]
    # The fused kernel is one call for all parameters, and element by element: the same bits each time.
    optimiser = torch.optim.Adam(parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True)
    average = [parameter.detach().clone() for parameter in parameters] if settings.average else []
    return State(
        module=learner,
        parameters=parameters,
        optimiser=optimiser,
        rng=np.random.default_rng(settings.weights_seed),
        average=average,
    )


def find_device(name: str) -> torch.device:
    """The device of that name; one that torch does not have here is an `InputError`."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device {name!r} is not known; expected cpu or cuda") from error
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"device {name!r} is not supported; expected cpu or cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device {name!r}: torch finds no such device here")
    return device


@contextmanager
def _surroundings(settings: TrainingSettings) -> Iterator[None]:
    """Set torch's threads and random state as configured, and put both back afterwards.

    Numbers below 1e-38 become 0. Weight decay leads weights that nothing uses there, and a processor takes many times
    as long to multiply by such a number.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(settings.threads)
    torch.set_flush_denormal(True)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.weights_seed)
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(False)


def _measured(state: State, learner: Learner, evaluate: Evaluate) -> Mapping[str, float]:
    """What an evaluation measures; weights, mode and random state are afterwards as they were before."""
    with _holding(state, state.average), torch.random.fork_rng(devices=[]), torch.no_grad():
        state.module.eval()
        try:
            return evaluate(learner)
        finally:
            state.module.train()


def _advance_average(state: State, decay: float) -> None:
    decay = min(decay, state.update / (state.update + AVERAGE_WARM_UP))
    with torch.no_grad():
        torch._foreach_lerp_(state.average, list(state.parameters), 1 - decay)


@contextmanager
def _holding(state: State, values: Sequence[torch.Tensor]) -> Iterator[None]:
    """Give the learner other weights, if there are any, and afterwards its own again, bit for bit."""
    if not values:
        yield
        return
    own = [parameter.detach().clone() for parameter in state.parameters]
    assign(state.parameters, values)
    try:
        yield
    finally:
        assign(state.parameters, own)
