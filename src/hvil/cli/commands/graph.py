"""`hvil graph`: look at a call graph before using it."""

import argparse
from typing import Any

SUMMARY = "Show a call graph: an ASCII tree, Graphviz DOT, or (--json) the form of a call-graph file."
EXAMPLES = [
    "hvil graph tree:5x2",
    "hvil graph my_graph.json --actions left,right --dot | dot -Tsvg > graph.svg",
]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("spec", help="tree:KxD, binary:N, chain:N, complete:N, or a JSON file")
    parser.add_argument(
        "--actions", help="names of the actions, comma-separated (default: those in the file, or 'act')"
    )
    parser.add_argument("--dot", action="store_true", help="print Graphviz DOT text")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Build the graph and print it."""
    from hvil.machine.callgraph import action_names_in, call_graph  # here, for a fast start

    if args.actions is None:
        actions = action_names_in(args.spec) or ("act",)
    else:
        actions = tuple(name for name in args.actions.split(",") if name)
    graph = call_graph(args.spec, actions)
    if not args.json:
        print(graph.to_dot().rstrip() if args.dot else graph.to_text())
    return graph.to_mapping()
