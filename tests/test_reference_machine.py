"""The stack machine's meaning: steps, masks, every call structure of a trace, replay, and the form of annotations."""

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from strategies import graphs_and_actions

from hvil.gate.errors import InputError
from hvil.machine.callgraph import CallGraph, call_graph
from hvil.machine.reference import (
    NONE,
    Frame,
    Stack,
    policy_steps,
    posterior_steps,
    replay,
    stacks_from_structure,
    start,
    step,
    structure_from_stacks,
    structures,
)

A, B, TERMINATE, CALL0, CALL1 = range(5)
"""With two actions: the actions, ∅, and the calls of the first and second callee."""

CALLER = call_graph(
    {"procedures": {"root": {"calls": ["p", "q"], "actions": []}, "p": {"actions": ["a"]}, "q": {"actions": ["b"]}}},
    ("a", "b"),
)
"""A root that only calls: p takes a, q takes b."""

PING_PONG = call_graph(
    {
        "max_depth": 3,
        "procedures": {"p": {"calls": ["q"], "actions": ["a"]}, "q": {"calls": ["p"], "actions": ["b"]}},
    },
    ("a", "b"),
)
"""p takes a and calls q; q takes b and calls p."""


def recursive(depth: int) -> CallGraph:
    return call_graph({"max_depth": depth, "procedures": {"f": {"calls": ["f"]}}}, ("a", "b"))


class TestStep:
    def test_a_call_counts_and_pushes_a_fresh_frame(self) -> None:
        assert step(CALLER, start(CALLER), CALL1) == (Frame(0, 1, CALL1), Frame(2, 0, NONE))

    def test_an_action_counts_and_is_remembered(self) -> None:
        stack = (Frame(0, 1, CALL0), Frame(1, 4, B))
        assert step(CALLER, stack, A) == (Frame(0, 1, CALL0), Frame(1, 5, A))

    def test_a_return_leaves_the_caller_as_it_was(self) -> None:
        stack = (Frame(0, 3, CALL0), Frame(1, 1, A))
        assert step(CALLER, stack, TERMINATE) == (Frame(0, 3, CALL0),)
        assert step(CALLER, stack[:1], TERMINATE) == ()


class TestMasks:
    def test_the_policy_cannot_return_before_its_first_step(self) -> None:
        assert policy_steps(PING_PONG, (Frame(0, 0, NONE),)) == [A, CALL0]
        assert policy_steps(PING_PONG, (Frame(0, 1, A),)) == [A, TERMINATE, CALL0]

    def test_the_policy_cannot_call_at_the_maximum_depth(self) -> None:
        stack = (Frame(0, 1, CALL0), Frame(1, 1, CALL0), Frame(0, 1, A))
        assert policy_steps(PING_PONG, stack) == [A, TERMINATE]

    def test_the_policy_cannot_call_what_cannot_act(self) -> None:
        mute = call_graph({"procedures": {"r": {"calls": ["mute", "p"]}, "mute": {"actions": []}, "p": {}}}, ("a", "b"))
        assert policy_steps(mute, start(mute)) == [A, B, CALL1]

    def test_the_posterior_takes_only_the_known_action(self) -> None:
        assert posterior_steps(call_graph("chain:1", ("a", "b")), (Frame(0, 2, A),), B) == [B]

    def test_the_posterior_calls_only_what_reaches_the_action(self) -> None:
        assert posterior_steps(CALLER, start(CALLER), B) == [CALL1]
        assert posterior_steps(PING_PONG, (Frame(0, 1, A),), B) == [CALL0]
        assert posterior_steps(PING_PONG, (Frame(0, 1, CALL0), Frame(1, 1, CALL0), Frame(0, 1, A)), B) == [TERMINATE]

    def test_the_posterior_returns_only_if_a_frame_below_reaches_the_action(self) -> None:
        graph = call_graph(
            {"procedures": {"r": {"calls": ["p"], "actions": []}, "p": {"calls": ["q"], "actions": ["a"]}, "q": {}}},
            ("a", "b"),
        )
        low = (Frame(0, 1, CALL0), Frame(1, 1, A))
        assert posterior_steps(graph, low, B) == [TERMINATE, CALL0]
        assert posterior_steps(graph, (Frame(1, 1, A),), B) == [CALL0]  # the root never returns while the trace goes on
        shallow = call_graph({**graph.to_mapping(), "max_depth": 2}, ("a", "b"))
        assert not shallow.reaches[2, 0, B]

    def test_at_the_end_everything_returns(self) -> None:
        stack = (Frame(0, 1, CALL0), Frame(1, 1, A))
        assert posterior_steps(CALLER, stack, TERMINATE) == [TERMINATE]
        assert posterior_steps(CALLER, stack[:1], TERMINATE) == [TERMINATE]

    @given(graphs_and_actions(max_length=4, max_procedures=3, max_depth=3))
    def test_posterior_never_reaches_a_dead_end(self, case: tuple[CallGraph, list[int]]) -> None:
        graph, actions = case
        emitted = [*actions, graph.terminate]
        seen: set[tuple[Stack, int]] = set()
        pending = [(start(graph), 0)]
        while pending:
            stack, time = pending.pop()
            # What is possible depends on the procedures and on whether they took a step, so those states are enough.
            stack = tuple(Frame(procedure, min(counter, 1), NONE) for procedure, counter, _ in stack)
            if not stack or (stack, time) in seen:
                assert stack or time == len(actions), "the episode ended before the trace"
                continue
            seen.add((stack, time))
            possible = posterior_steps(graph, stack, emitted[time])
            assert possible, f"no step is possible for {stack} at time {time}"
            assert set(possible) <= set(policy_steps(graph, stack)), "the posterior allows what the policy cannot do"
            pending += [(step(graph, stack, u), time + (u < graph.terminate)) for u in possible]


# How many call structures there are, by hand. Each action is taken at some stack; between two actions some frames are
# kept, the others return, new ones are called. So we count, from the stack of one action, the stacks of the next.
COUNTED = {
    # Only one procedure: it takes all the actions.
    "alone": (call_graph("chain:1", ("a", "b")), [A, B, A], 1),
    # The root or its callee takes the action.
    "chain, 1 action": (call_graph("chain:2", ("a", "b")), [A], 2),
    # root-root, root-callee, callee-root: one way each; callee-callee: the same invocation, or another. 1 + 1 + 1 + 2.
    "chain, 2 actions": (call_graph("chain:2", ("a", "b")), [A, B], 5),
    # With r ways that end in the root and c in the callee: r' = r + c, c' = r + 2c; (1, 1), (2, 3), (5, 8): 5 + 8.
    "chain, 3 actions": (call_graph("chain:2", ("a", "b")), [A, B, A], 13),
    # From the root 3 stacks follow; from a leaf 4 (stay, the root, either leaf anew). First actions: 3 + 4 + 4.
    "tree, 2 actions": (call_graph("tree:2x2", ("a", "b")), [A, B], 11),
    # The root cannot act: a by p, b by q, and p must have returned in between.
    "caller, other actions": (CALLER, [A, B, A], 1),
    # p stays for the second a, or is called again; then q.
    "caller, same actions": (CALLER, [A, A, B], 2),
    # A procedure that calls itself, at most 3 deep. From depth d, k ≤ d frames are kept and the next depth is k..3:
    # from 1: 3; from 2: 3 + 2; from 3: 3 + 2 + 1. Together 3 + 5 + 6.
    "recursion, 2 actions": (recursive(3), [A, A], 14),
    # Only the depth of the one action is free.
    "recursion, 1 action": (recursive(8), [B], 8),
    # a at depth 1 or 3 (p, or p-q-p), then b by q at depth 2: from 1 one way; from 3 keep p-q, or p alone. 1 + 2.
    "mutual recursion": (PING_PONG, [A, B], 3),
}


def brute_force(graph: CallGraph, actions: list[int]) -> Iterator[tuple[int, ...]]:
    """Every structure, found without the posterior's masks: try what the policy can do, drop what does not fit."""

    def extend(stack: Stack, time: int, taken: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if not stack:
            if time == len(actions):
                yield taken
            return
        for u in policy_steps(graph, stack):
            if u >= graph.terminate or (time < len(actions) and u == actions[time]):
                yield from extend(step(graph, stack, u), time + (u < graph.terminate), (*taken, u))

    return extend(start(graph), 0, ())


class TestStructures:
    @pytest.mark.parametrize(("graph", "actions", "count"), COUNTED.values(), ids=COUNTED)
    def test_their_number_is_the_one_counted_by_hand(self, graph: CallGraph, actions: list[int], count: int) -> None:
        assert len(list(structures(graph, actions))) == count

    def test_all_of_a_small_case(self) -> None:
        chain = call_graph("chain:2", ("a", "b"))
        assert sorted(structures(chain, [B])) == [(B, TERMINATE), (CALL0, B, TERMINATE, TERMINATE)]

    @given(graphs_and_actions(max_length=3, max_procedures=3, max_depth=3))
    def test_every_one_replays_to_the_trace_and_is_unique(self, case: tuple[CallGraph, list[int]]) -> None:
        graph, actions = case
        some = list(islice(structures(graph, actions), 300))
        assert some
        assert len(set(some)) == len(some)
        for structure in some:
            moments = replay(graph, actions, structure)
            assert moments[0].stack == start(graph)
            assert [u for u in structure if u < graph.terminate] == actions
            assert structure[-1] == graph.terminate

    @given(graphs_and_actions(max_length=3, max_procedures=2, max_depth=3))
    def test_the_masks_of_the_posterior_lose_none(self, case: tuple[CallGraph, list[int]]) -> None:
        assert sorted(structures(*case)) == sorted(brute_force(*case))

    @given(graphs_and_actions(max_length=3, max_procedures=3, max_depth=3))
    def test_stacks_and_kept_frames_say_everything(self, case: tuple[CallGraph, list[int]]) -> None:
        graph, actions = case
        for structure in islice(structures(graph, actions), 100):
            annotations = stacks_from_structure(graph, actions, structure)
            assert annotations.known.all()
            assert annotations.kept[0] == 1
            annotations.check_traces(np.array([0, len(actions)]))
            again = structure_from_stacks(graph, actions, annotations.stacks.tolist(), annotations.kept.tolist())
            assert again == structure

    def test_a_trace_that_cannot_be_emitted_is_refused(self) -> None:
        only_b = call_graph({"procedures": {"r": {"actions": ["b"]}}}, ("a", "b"))
        with pytest.raises(InputError, match="the trace: no path from the root 'r' of the call graph can emit 'a'"):
            structures(only_b, [A])
        with pytest.raises(InputError, match="an action is out of range"):
            structures(only_b, [7])
        with pytest.raises(InputError, match="the trace is empty"):
            structures(only_b, [])


class TestReplay:
    def test_it_returns_the_machine_before_each_step(self) -> None:
        moments = replay(CALLER, [A], (CALL0, A, TERMINATE, TERMINATE))
        assert [moment.time for moment in moments] == [0, 0, 1, 1]
        assert moments[2].stack == (Frame(0, 1, CALL0), Frame(1, 1, A))

    @pytest.mark.parametrize(
        ("structure", "message"),
        [
            (
                (CALL0, A, TERMINATE, CALL1, B, TERMINATE, TERMINATE, TERMINATE),
                "PHP step 7: the episode has already ended",
            ),
            ((CALL0, A, CALL0), "PHP step 2, time 1: p has no choice 3"),
            ((9,), "PHP step 0, time 0: root has no choice 9"),
            ((-1,), "PHP step 0, time 0: root has no choice -1"),
            ((CALL0, TERMINATE), "PHP step 1, time 0: p cannot take the step return here"),
            ((CALL0, B), "PHP step 1, time 0: p cannot take the step b here"),
            ((CALL1, B), "PHP step 1, time 0: q takes b, the trace has a"),
            ((CALL0, A, A), "PHP step 2, time 1: p takes a, the trace has b"),
            ((CALL0, A, TERMINATE, CALL1, B, B), "PHP step 5, time 2: q takes b, the trace has return"),
            ((CALL0, A, TERMINATE, TERMINATE), "PHP step 3, time 1: the root returns, the trace goes on"),
            ((CALL0, A), "the structure ends at time 1 with 2 frame(s) on the stack"),
            ((), "the structure ends at time 0 with 1 frame(s) on the stack"),
        ],
    )
    def test_it_says_where_a_structure_does_not_fit(self, structure: tuple[int, ...], message: str) -> None:
        with pytest.raises(InputError) as caught:
            replay(CALLER, [A, B], structure)
        assert str(caught.value) == message

    @pytest.mark.parametrize(
        ("stacks", "kept", "message"),
        [
            ([[0, 1], [-1, -1]], [1, -1], "time 1: the step is not annotated"),
            ([[0, 1], [1, -1]], [1, 1], "time 1: the stack begins with p, the root of the call graph is root"),
            ([[0, 1], [0, 7]], [1, 1], "time 1: the call graph has no procedure 7"),
            ([[0, 1], [0, 2]], [1, 2], "time 1: 2 frames cannot be kept, 1 are shared with the time before"),
            ([[0, 1], [0, 1, 2]], [1, 2], "time 1: p cannot call q in the call graph"),
        ],
    )
    def test_stacks_that_cannot_be_are_refused(self, stacks: list[list[int]], kept: list[int], message: str) -> None:
        with pytest.raises(InputError) as caught:
            structure_from_stacks(CALLER, [A, B], stacks, kept)
        assert str(caught.value) == message

    def test_shared_frames_are_kept_if_it_is_not_known(self) -> None:
        assert structure_from_stacks(CALLER, [A, A], [[0, 1], [0, 1]], [-1, -1]) == (CALL0, A, A, TERMINATE, TERMINATE)
        assert structure_from_stacks(CALLER, [A, A], [[0, 1], [0, 1]], [1, 1]) == (
            CALL0,
            A,
            TERMINATE,
            CALL0,
            A,
            TERMINATE,
            TERMINATE,
        )
