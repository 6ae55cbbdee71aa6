"""`hvil explain`: the learned procedures as readable code, with their fidelity."""

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hvil.analysis.explain import Explanation

SUMMARY = (
    "Print what a run's policy learned as a program, and how often the program does what the policy and the teacher do "
    "on fresh roll-outs."
)
EXAMPLES = [
    "hvil explain runs/karel-F-hvil-0",
    "hvil explain runs/karel-F-hvil-0 --inline --karel",
    "hvil explain runs/karel-F-hvil-0 --python program.py",
    "hvil explain runs/bubblesort-hvil-0 --procedure bubble --json",
]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("run", metavar="RUN", help="a run directory")
    parser.add_argument("--python", metavar="FILE", help="also write a Python file that runs on the environment")
    parser.add_argument(
        "--karel",
        metavar="FILE",
        nargs="?",
        const="-",
        help="also give the program in the Karel language: into FILE, or printed",
    )
    parser.add_argument("--inline", action="store_true", help="write procedures of one use where they are called")
    parser.add_argument("--procedure", metavar="NAME", help="print only this procedure")
    parser.add_argument("--rollouts", type=int, default=2000, metavar="N", help="to extract from (default 2000)")
    parser.add_argument("--fresh", type=int, default=1000, metavar="N", help="others to measure on (default 1000)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the roll-outs' initial states")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Load the run, explain it, write the files."""
    from hvil.analysis.explain import explain, karel_source, python_file
    from hvil.gate.errors import InputError
    from hvil.gate.files import write_text
    from hvil.training.run import load

    loaded = load(args.run)
    if loaded.config.learner not in ("hvil", "exact"):
        raise InputError(f"{args.run}: a run of the model {loaded.config.learner!r} has no procedures to explain")
    if args.procedure is not None:
        loaded.config.graph.procedure_index(args.procedure)
    if args.seed < 0:
        raise InputError(f"--seed {args.seed}: expected 0 or more")
    found = explain(loaded, inline=args.inline, episodes=args.rollouts, fresh=args.fresh, seed=args.seed)
    result = {"run": str(loaded.path), **found.to_mapping()}
    if args.procedure is not None:
        result["procedure"] = found.procedure(args.procedure)
    if args.python is not None:
        write_text(args.python, python_file(found))
        result["python"] = args.python
    if args.karel is not None:
        in_karel = karel_source(found)
        result["karel"] = in_karel._asdict()
        if args.karel != "-":
            write_text(args.karel, in_karel.source)
            result["karel"]["file"] = args.karel
    if not args.json:
        _show(found, result)
    return result


def _show(found: "Explanation", result: dict[str, Any]) -> None:
    print(result.get("procedure", found.source))
    print(f"# {found.lines} lines; {found.fidelity}")
    if found.unused:
        print(f"# never called: {', '.join(found.unused)}")
    if found.absorbed:
        print(f"# called, but not needed (their work is done above): {', '.join(found.absorbed)}")
    if "python" in result:
        print(f"# written to {result['python']}")
    if "karel" in result:
        karel = result["karel"]
        print()
        print(f"# written to {karel['file']}" if "file" in karel else karel["source"])
        print(
            f"# in the Karel language it agrees with the policy on {karel['policy_agreement']:.1%} and with the "
            f"teacher on {karel['teacher_agreement']:.1%} of the same"
        )
