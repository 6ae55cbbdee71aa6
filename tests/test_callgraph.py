"""Call graphs: builders and files, depth, reachability, pictures, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from strategies import call_graphs

from hvil.gate.errors import InputError
from hvil.machine.callgraph import CYCLIC_MAX_DEPTH, CallGraph, action_names_in, call_graph

AB = ("a", "b")

RECURSIVE = {
    "root": "main",
    "max_depth": 3,
    "procedures": {"main": {"calls": ["main", "leaf"], "actions": []}, "leaf": {"actions": ["b"]}},
}


class TestBuilders:
    @pytest.mark.parametrize(
        ("spec", "calls", "depth"),
        [
            ("tree:5x1", [[]], 1),
            ("tree:2x2", [[1, 2], [], []], 2),
            ("tree:1x3", [[1], [2], []], 3),
            ("binary:1", [[]], 1),
            ("binary:6", [[1, 2], [3, 4], [5], [], [], []], 3),
            ("chain:3", [[1], [2], []], 3),
            ("complete:2", [[0, 1], [0, 1]], CYCLIC_MAX_DEPTH),
            ("complete:1", [[0]], CYCLIC_MAX_DEPTH),
        ],
    )
    def test_specs(self, spec: str, calls: list[list[int]], depth: int) -> None:
        graph = call_graph(spec, AB)
        assert [list(callees) for callees in graph.calls] == calls
        assert graph.max_depth == depth
        assert graph.acts == ((0, 1),) * len(calls)
        assert graph.procedures[graph.root] == "root"

    @pytest.mark.parametrize(("spec", "count"), [("tree:5x1", 1), ("tree:5x2", 6), ("tree:5x3", 31)])
    def test_trees_of_the_paper(self, spec: str, count: int) -> None:
        assert len(call_graph(spec, AB).procedures) == count

    def test_a_mapping_and_a_file_give_the_same_graph(self, tmp_path: Path) -> None:
        path = tmp_path / "graph.json"
        path.write_text(json.dumps(RECURSIVE))
        graph = call_graph(RECURSIVE, AB)
        assert call_graph(str(path), AB) == graph
        assert graph.calls == ((0, 1), ())
        assert graph.acts == ((), (1,))
        assert graph.max_depth == 3
        assert action_names_in(str(path)) == ("b",)
        assert action_names_in("tree:5x2") == ()

    def test_a_graph_is_taken_for_the_same_actions_only(self) -> None:
        graph = call_graph("chain:2", AB)
        assert call_graph(graph, AB) is graph
        with pytest.raises(InputError, match="made for other actions"):
            call_graph(graph, ("a",))

    def test_the_depth_of_an_acyclic_graph_is_its_longest_path(self) -> None:
        diamond = {"procedures": {"r": {"calls": ["x", "z"]}, "x": {"calls": ["y"]}, "y": {"calls": ["z"]}, "z": {}}}
        assert call_graph(diamond, AB).max_depth == 4
        assert call_graph(diamond | {"max_depth": 99}, AB).max_depth == 4
        assert call_graph(diamond | {"max_depth": 2}, AB).max_depth == 2
        unreachable_cycle = {"procedures": {"r": {}, "x": {"calls": ["x"]}}}
        assert call_graph(unreachable_cycle, AB).max_depth == 1

    def test_long_chains_are_built_quickly(self) -> None:
        graph = call_graph("chain:1000", AB)
        assert graph.reaches.shape == (1001, 1000, 2)

    @given(call_graphs())
    def test_every_graph_comes_back_from_its_mapping(self, graph: CallGraph) -> None:
        assert call_graph(json.loads(json.dumps(graph.to_mapping())), graph.action_names) == graph


BAD_SPECS = {
    "typo": ("tre:5x2", "call graph 'tre:5x2' is not known; expected tree:KxD"),
    "another typo": ("tree:5*2", "call graph 'tree:5*2' is not known"),
    "empty": ("", "call graph '' is not known"),
    "no number": ("chain:", "call graph 'chain:' is not known"),
    "long": ("x" * 5000, "is not known"),
    "no procedures": ("chain:0", "call graph 'chain:0': between 1 and 4096 procedures"),
    "no arity": ("tree:0x2", "call graph 'tree:0x2': arity and depth must be at least 1"),
    "large tree": ("tree:9x9", "call graph 'tree:9x9' would have more than 4096 procedures"),
    "large graph": ("complete:5000", "between 1 and 4096"),
    "deep graph": ("chain:1001", "the maximum depth must be 1 to 1000, not 1001"),
    "no file": ("nothing.json", "nothing.json: no such file"),
}

P: dict[str, Any] = {"main": {}}
BAD_MAPPINGS = {
    "list": ([], 'expected {"root": NAME'),
    "no procedures": ({"procedures": {}}, 'expected {"root": NAME'),
    "key": ({"procedures": P, "rot": "main"}, "unknown key 'rot'; known: root, max_depth, procedures"),
    "entry": ({"procedures": {"main": []}}, "procedures.main: expected an object, not list"),
    "entry key": ({"procedures": {"main": {"call": []}}}, "procedures.main: unknown key 'call'; known: calls, actions"),
    "callee": ({"procedures": {"main": {"calls": ["sub"]}}}, "procedure 'main' calls 'sub', an unknown procedure"),
    "callee twice": ({"procedures": {"main": {"calls": ["main"] * 2}}}, "calls the same procedure twice"),
    "callees": (
        {"procedures": {"main": {"calls": "main"}}},
        "procedures.main: calls is 'main'; expected a list of texts",
    ),
    "action": ({"procedures": {"main": {"actions": ["c"]}}}, "'main' takes 'c', an unknown action; there are a, b"),
    "action number": ({"procedures": {"main": {"actions": [0]}}}, "procedures.main: actions[0] is 0; expected text"),
    "root": ({"procedures": P, "root": "man"}, "the root 'man' is not among the procedures main"),
    "root list": ({"procedures": P, "root": ["main"]}, "root is ['main']; expected text"),
    "depth 0": ({"procedures": P, "max_depth": 0}, "max_depth is 0; expected a number of at least 1, at most 1000"),
    "depth": ({"procedures": P, "max_depth": True}, "max_depth is True; expected a whole number"),
    "nothing to do": ({"procedures": {"main": {"actions": []}}}, "the root 'main' cannot take any action"),
    "too shallow": (
        {"procedures": {"r": {"calls": ["x"], "actions": []}, "x": {}}, "max_depth": 1},
        "the root 'r' cannot take any action",
    ),
}


class TestBadInput:
    @pytest.mark.parametrize(("spec", "message"), BAD_SPECS.values(), ids=BAD_SPECS)
    def test_specs(self, spec: str, message: str) -> None:
        with pytest.raises(InputError) as caught:
            call_graph(spec, AB)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(("value", "message"), BAD_MAPPINGS.values(), ids=BAD_MAPPINGS)
    def test_files(self, tmp_path: Path, value: Any, message: str) -> None:
        path = tmp_path / "graph.json"
        path.write_text(json.dumps(value))
        with pytest.raises(InputError) as caught:
            call_graph(str(path), AB)
        assert str(caught.value).startswith(f"{path}: ")
        assert message in str(caught.value)

    def test_a_file_that_is_not_json(self, tmp_path: Path) -> None:
        path = tmp_path / "graph.json"
        path.write_text('{"root": ')
        with pytest.raises(InputError, match=r"not JSON \(line 1, column 10"):
            call_graph(str(path), AB)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (((), AB, (), ()), "a call graph has 1 to 4096 procedures, this one 0"),
            ((("r", "r"), AB, ((), ()), ((0,), (0,))), "procedure name 'r' stands twice"),
            ((("r",), ("a", "a"), ((),), ((0,),)), "action name 'a' stands twice"),
            ((("r",), (), ((),), ((),)), "there are no actions"),
            ((("r",), AB, ((1,),), ((0,),)), "'r' calls 1; expected different numbers in 0..0"),
            ((("r",), AB, ((),), ((2,),)), "'r' takes actions 2; expected different numbers in 0..1"),
            ((("r",), AB, ((0, 0),), ((0,),)), "'r' calls 0, 0; expected different numbers"),
            ((("r",), AB, (), ((0,),)), "0 lists of what each procedure calls, for 1 of them"),
            ((("r",), AB, ((),), ((0,),), 1), "the root is procedure 1, expected 0..0"),
            ((("r",), AB, ((),), ((0,),), 0, -1), "the maximum depth must be 1 to 1000, not -1"),
        ],
    )
    def test_graphs_that_cannot_be(self, arguments: tuple[Any, ...], message: str) -> None:
        with pytest.raises(InputError) as caught:
            CallGraph(*arguments)
        assert message in str(caught.value)

    def test_data_that_the_root_cannot_emit_is_refused_by_the_action_name(self) -> None:
        graph = call_graph(RECURSIVE, AB)
        graph.check_actions(np.array([1, 1]))
        with pytest.raises(
            InputError, match=r"traces\.npz: no path from the root 'main' of the call graph can emit 'a'$"
        ):
            graph.check_actions(np.array([1, 0]), "traces.npz")
        for action in (-1, 2):
            with pytest.raises(InputError, match=r"the data: an action is out of range, expected 0\.\.1"):
                graph.check_actions(np.array([action]))

    def test_an_unknown_procedure_is_named(self) -> None:
        graph = call_graph(RECURSIVE, AB)
        assert graph.procedure_index("leaf") == 1
        with pytest.raises(InputError, match="no procedure 'lea' in the call graph; there are main, leaf"):
            graph.procedure_index("lea")


class TestArrays:
    def test_children_and_actions(self) -> None:
        graph = call_graph(RECURSIVE, AB)
        assert graph.children.tolist() == [[0, 1], [-1, -1]]
        assert graph.can_act.tolist() == [[False, False], [False, True]]
        assert (graph.terminate, graph.step_count) == (2, 5)

    def test_a_graph_without_callees_has_arrays_too(self) -> None:
        graph = call_graph("chain:1", AB)
        assert graph.children.shape == (1, 0)
        assert (graph.terminate, graph.step_count) == (2, 3)
        assert graph.reaches[1].all()

    @given(call_graphs())
    def test_what_is_reached_within_a_depth_is_what_some_path_can_emit(self, graph: CallGraph) -> None:
        for procedure in range(len(graph.procedures)):
            near, emitted = {procedure}, set()
            for level in range(1, graph.max_depth + 1):
                emitted |= {action for member in near for action in graph.acts[member]}
                assert set(np.flatnonzero(graph.reaches[level, procedure])) == emitted
                near = {callee for member in near for callee in graph.calls[member]}
            assert not graph.reaches[0, procedure].any()

    def test_steps_have_names(self) -> None:
        graph = call_graph(RECURSIVE, AB)
        assert [graph.step_name(0, step) for step in range(-1, 5)] == ["none", "a", "b", "return", "main()", "leaf()"]


class TestPictures:
    def test_a_tree_as_text(self) -> None:
        expected = ["root", "|-- p1", "|   |-- p3", "|   `-- p4", "`-- p2", "    `-- p5"]
        assert call_graph("binary:6", AB).to_text().splitlines() == expected

    def test_a_cycle_as_text_ends(self) -> None:
        assert call_graph("complete:2", AB).to_text().splitlines() == [
            "root",
            "|-- root ^",
            "`-- p1",
            "    |-- root ^",
            "    `-- p1 ^",
        ]

    def test_dot_quotes_names(self) -> None:
        graph = call_graph({"procedures": {'say "hi"\\': {"calls": ["x\ny"]}, "x\ny": {}}}, AB)
        assert graph.to_dot().splitlines() == [
            "digraph call_graph {",
            "  node [shape=box, fontname=sans];",
            r'  p0 [label="say \"hi\"\\", penwidth=2];',
            r'  p1 [label="x\ny"];',
            "  p0 -> p1;",
            "}",
        ]
