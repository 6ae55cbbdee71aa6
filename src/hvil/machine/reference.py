"""The stack machine in plain Python: what a PHP step does, what is possible, and every call structure of a trace.

This is the specification: compiled and batched code is tested to take the same steps, and nothing here is meant to be
fast. A *structure*, the paper's z, is the sequence of all PHP steps u_0, u_1, … of a trace. A step is coded as a choice
of the procedure that takes it: an action, ∅ or a call (`CallGraph.terminate` has the numbering).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from hvil.data.traces import Annotations
from hvil.gate.errors import InputError
from hvil.machine.callgraph import CallGraph

NONE = -1
"""The `last` of a frame that has not taken a step."""


class Frame(NamedTuple):
    """One procedure on the stack."""

    procedure: int
    counter: int
    """τ, how many steps it has taken."""
    last: int
    """The choice it took last, `NONE` at first."""


Stack = tuple[Frame, ...]
"""Frames, the root first, the active one at the end; empty when the episode is over."""


class Moment(NamedTuple):
    """The machine before a PHP step: the stack, and the time of the observation it sees."""

    stack: Stack
    time: int


def start(graph: CallGraph) -> Stack:
    """The stack at the beginning of an episode."""
    return (Frame(graph.root, 0, NONE),)


def step(graph: CallGraph, stack: Stack, choice: int) -> Stack:
    """The stack after the active procedure took a step (paper, Algorithm 1)."""
    below, (procedure, counter, _) = stack[:-1], stack[-1]
    if choice == graph.terminate:
        return below
    active = Frame(procedure, counter + 1, choice)
    if choice < graph.terminate:
        return (*below, active)
    callee = graph.calls[procedure][choice - graph.terminate - 1]
    return (*below, active, Frame(callee, 0, NONE))


def policy_steps(graph: CallGraph, stack: Stack) -> list[int]:
    """The steps that the policy `p` can take: no return before the first step, no call that could not act."""
    procedure, counter, _ = stack[-1]
    remaining = graph.max_depth - len(stack)
    possible = list(graph.acts[procedure])
    if counter:
        possible.append(graph.terminate)
    for position, callee in enumerate(graph.calls[procedure]):
        if graph.reaches[remaining, callee].any():
            possible.append(graph.terminate + 1 + position)
    return sorted(possible)


def posterior_steps(graph: CallGraph, stack: Stack, action: int) -> list[int]:
    """The steps that the posterior `q` can take when `action` is the trace's action now (`graph.terminate` for ∅).

    At the end of the trace every frame returns. Before it, a frame takes no other action, calls only what can reach
    the action within the depth that remains, and returns only after its first step and if a frame below it can still
    reach the action; the root does not return. So every step leaves a way to the action.
    """
    procedure, counter, _ = stack[-1]
    if action == graph.terminate:
        return [graph.terminate]
    remaining = graph.max_depth - len(stack)
    possible = [action] if action in graph.acts[procedure] else []
    if counter and any(
        graph.reaches[graph.max_depth - below, frame.procedure, action] for below, frame in enumerate(stack[:-1])
    ):
        possible.append(graph.terminate)
    for position, callee in enumerate(graph.calls[procedure]):
        if graph.reaches[remaining, callee, action]:
            possible.append(graph.terminate + 1 + position)
    return possible


def structures(graph: CallGraph, actions: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every call structure that emits the actions and then ∅; their number grows exponentially with the length."""
    emitted = _emitted(graph, actions)

    def extend(stack: Stack, time: int, taken: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if not stack:
            yield taken
            return
        for choice in posterior_steps(graph, stack, emitted[time]):
            yield from extend(step(graph, stack, choice), time + (choice < graph.terminate), (*taken, choice))

    return extend(start(graph), 0, ())


def replay(graph: CallGraph, actions: Sequence[int], structure: Sequence[int]) -> list[Moment]:
    """The machine before each step of a structure; an `InputError` says where it is inconsistent with the trace."""
    emitted = _emitted(graph, actions)
    stack, time, moments = start(graph), 0, []
    for index, choice in enumerate(structure):
        if not stack:
            raise InputError(f"PHP step {index}: the episode has already ended")
        moments.append(Moment(stack, time))
        name = graph.procedures[stack[-1].procedure]
        if not 0 <= choice < graph.terminate + 1 + len(graph.calls[stack[-1].procedure]):
            raise InputError(f"PHP step {index}, time {time}: {name} has no choice {choice}")
        step_name = graph.step_name(stack[-1].procedure, choice)
        if choice not in policy_steps(graph, stack):
            raise InputError(f"PHP step {index}, time {time}: {name} cannot take the step {step_name} here")
        if choice < graph.terminate and choice != emitted[time]:
            wanted = graph.step_name(stack[-1].procedure, emitted[time])
            raise InputError(f"PHP step {index}, time {time}: {name} takes {step_name}, the trace has {wanted}")
        if choice == graph.terminate and len(stack) == 1 and time < len(actions):
            raise InputError(f"PHP step {index}, time {time}: the root returns, the trace goes on")
        stack = step(graph, stack, choice)
        time += choice < graph.terminate
    if stack:
        raise InputError(f"the structure ends at time {time} with {len(stack)} frame(s) on the stack")
    return moments


def steps_towards(graph: CallGraph, stack: Stack, wanted: Sequence[int], kept: int, action: int) -> list[int]:
    """The steps of one time whose stack at the action is `wanted`: returns down to the kept frames, calls, the action.

    `kept` is how many frames stay, or -1: then all frames stay that both stacks share. After a time that was inferred,
    fewer frames may be shared than the annotation keeps; then those stay.
    """
    shared = 0
    while shared < min(len(stack), len(wanted)) and stack[shared].procedure == wanted[shared]:
        shared += 1
    keep = shared if kept < 0 else min(kept, shared)
    calls = [
        graph.terminate + 1 + graph.calls[caller].index(callee)
        for caller, callee in zip(wanted[keep - 1 :], wanted[keep:], strict=False)
    ]
    return [graph.terminate] * (len(stack) - keep) + calls + [action]


def _emitted(graph: CallGraph, actions: Sequence[int]) -> list[int]:
    """The actions and the ∅ after them, if the graph can emit them at all."""
    if not len(actions):
        raise InputError("the trace is empty; a trace has at least one action")
    graph.check_actions(np.asarray(actions, dtype=np.int64), "the trace")
    return [*map(int, actions), graph.terminate]


def structure_from_stacks(
    graph: CallGraph, actions: Sequence[int], stacks: Sequence[Sequence[int]], kept: Sequence[int]
) -> tuple[int, ...]:
    """The structure whose stack at each action is given, with the frames kept from the time before (-1: all shared)."""
    taken: list[int] = []
    now: list[int] = [graph.root]
    for time, (action, target, keep) in enumerate(zip(actions, stacks, kept, strict=True)):
        wanted = [int(procedure) for procedure in target if procedure >= 0]
        if not wanted:
            raise InputError(f"time {time}: the step is not annotated")
        if max(wanted) >= len(graph.procedures):
            raise InputError(f"time {time}: the call graph has no procedure {max(wanted)}")
        if wanted[0] != graph.root:
            first, root = graph.procedures[wanted[0]], graph.procedures[graph.root]
            raise InputError(f"time {time}: the stack begins with {first}, the root of the call graph is {root}")
        shared = next(
            (i for i, pair in enumerate(zip(now, wanted, strict=False)) if pair[0] != pair[1]),
            min(len(now), len(wanted)),
        )
        keep = shared if keep < 0 else int(keep)
        if not 1 <= keep <= shared:
            raise InputError(f"time {time}: {keep} frames cannot be kept, {shared} are shared with the time before")
        taken += [graph.terminate] * (len(now) - keep)
        for caller, callee in zip(wanted[keep - 1 :], wanted[keep:], strict=False):
            if callee not in graph.calls[caller]:
                names = graph.procedures
                raise InputError(f"time {time}: {names[caller]} cannot call {names[callee]} in the call graph")
            taken.append(graph.terminate + 1 + graph.calls[caller].index(callee))
        taken.append(int(action))
        now = wanted
    return (*taken, *([graph.terminate] * len(now)))


def stacks_from_structure(graph: CallGraph, actions: Sequence[int], structure: Sequence[int]) -> Annotations:
    """The call structure of one trace in the form of annotations: the inverse of `structure_from_stacks`."""
    stacks: list[list[int]] = []
    kept: list[int] = []
    height = lowest = 1
    for moment, choice in zip(replay(graph, actions, structure), structure, strict=True):
        height = len(moment.stack)
        lowest = min(lowest, height)
        if choice < graph.terminate:
            stacks.append([frame.procedure for frame in moment.stack])
            kept.append(lowest)
            lowest = height
    depth = max(map(len, stacks))
    padded = np.array([stack + [-1] * (depth - len(stack)) for stack in stacks], dtype=np.int16)
    return Annotations(graph.procedures, padded, np.array(kept, dtype=np.int16))
