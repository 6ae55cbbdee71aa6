"""`hvil explain`: the learned procedures as readable code, with their fidelity."""

import argparse
from typing import TYPE_CHECKING, Any

from hvil.cli.engines import add_source_flag

if TYPE_CHECKING:
    from hvil.analysis.explain import Explanation

SUMMARY = (
    "Print what a run's policy learned as a program, how often the program does what the policy and the teacher do "
    "on fresh roll-outs, and how many training traces it explains. A policy that is too tangled for a program comes "
    "with a warning."
)
EXAMPLES = [
    "hvil explain runs/karel-F-hvil-0",
    "hvil explain runs/karel-F-hvil-0 --inline --karel",
    "hvil explain runs/karel-F-hvil-0 --python program.py && python program.py 100",
    "hvil explain runs/mine --python policy.py  # any data: from policy import act",
    "hvil explain runs/bubblesort-hvil-0 --procedure bubble --json",
]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("run", metavar="RUN", help="a run directory")
    add_source_flag(parser)
    parser.add_argument(
        "--python",
        metavar="FILE",
        help="also write a Python file with a function act(observation, memory), which needs numpy alone; where there "
        "is an environment, the file also plays in it",
    )
    parser.add_argument(
        "--karel",
        metavar="FILE",
        nargs="?",
        const="-",
        help="also give the program in the Karel language: into FILE, or printed",
    )
    parser.add_argument(
        "--inline", action="store_true", help="write procedures of one use, or of one step, where they are called"
    )
    parser.add_argument(
        "--faithful",
        action="store_true",
        help="say all that the policy does, also what no training trace asks for (default: leave it out)",
    )
    parser.add_argument("--procedure", metavar="NAME", help="print only this procedure")
    parser.add_argument(
        "--rollouts", type=int, default=2000, metavar="N", help="roll-outs to extract from (default 2000)"
    )
    parser.add_argument(
        "--fresh", type=int, default=1000, metavar="N", help="other roll-outs to measure on (default 1000)"
    )
    parser.add_argument(
        "--depth",
        type=int,
        metavar="D",
        help="how high the stack may be, for programs that call themselves (default: as in training)",
    )
    parser.add_argument("--again", action="store_true", help="look for the program even if the run has it already")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of the roll-outs' initial states (default 0)"
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Load the run, explain it, write the files."""
    # Imported here for a fast start of the other commands.
    from hvil.analysis.effects import postconditions
    from hvil.analysis.explain import python_file
    from hvil.gate.errors import InputError
    from hvil.gate.files import write_text
    from hvil.gate.progress import progress_bar
    from hvil.training.run import load

    loaded = load(args.run, args.own_source)
    if args.depth is not None:
        loaded = loaded.at_depth(args.depth)
    if args.procedure is not None:
        loaded.config.graph.procedure_index(args.procedure)  # refuses an unknown name before the work begins
    if args.seed < 0:
        raise InputError(f"--seed {args.seed}: expected 0 or more")
    with progress_bar("explaining", 100) as bar:
        explanation = loaded.explain(
            inline=args.inline,
            faithful=args.faithful,
            karel=args.karel is not None,
            episodes=args.rollouts,
            fresh=args.fresh,
            seed=args.seed,
            again=args.again,
            progress=lambda share: bar(round(100 * share)),
        )
    result = {"run": str(loaded.path), **explanation.summary()}
    if args.inline and not explanation.inlined:
        result["inline"] = _not_inlined(explanation, continuous=loaded.config.actions is not None)
    effects = postconditions(loaded.learner)
    if effects:
        result["effects"] = effects
    if args.procedure is not None:
        result["procedure"] = explanation.procedure(args.procedure)
    if args.python is not None:
        write_text(args.python, python_file(explanation))
        result["python"] = args.python
    if explanation.karel is not None and args.karel is not None:
        result["karel"] = explanation.karel._asdict()
        if args.karel != "-":
            write_text(args.karel, explanation.karel.source)
            result["karel"]["file"] = args.karel
    if not args.json:
        _show(explanation, result)
    return result


def _not_inlined(explanation: "Explanation", continuous: bool) -> str:
    """Why no procedure was written where it is called."""
    if continuous:
        return "continuous actions are told apart by the procedures that take them, so all procedures stay"
    if len(explanation.procedures) < 2:
        return "the program has one procedure"
    return "each procedure is called at several points and takes several steps, or calls itself"


def _show(explanation: "Explanation", result: dict[str, Any]) -> None:
    from hvil.gate.text import in_line

    print(result.get("procedure", explanation.commented))
    print(f"# {explanation.lines} lines; {explanation.fidelity}")
    for name, text in result.get("effects", {}).items():
        print(f"# effect: {name} returns with {text}")
    if "inline" in result:
        print(f"# --inline changes nothing: {result['inline']}")
    for note in explanation.notes:
        print(f"# {in_line(note)}")
    if "python" in result:
        print(f"# written to {in_line(result['python'])}")
    if "karel" in result:
        karel = result["karel"]
        print()
        print(f"# written to {in_line(karel['file'])}" if "file" in karel else karel["source"])
        print(
            f"# in the Karel language it agrees with the policy on {karel['policy_agreement']:.1%} and with the "
            f"teacher on {karel['teacher_agreement']:.1%} of the same"
        )
