"""Print the table of docs/explain.md: for each Karel program, what `hvil explain` makes of a run on 40 demonstrations.

Runs `hvil fit karel:X --demos 40` where the run directory does not exist yet, then `hvil explain --karel --json`.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from hvil.domains.karel import PROGRAMS


def hvil(*words: str) -> dict:
    """Run a command and return what it prints as JSON."""
    done = subprocess.run([sys.executable, "-m", "hvil", *words, "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def main() -> None:
    """Print one line a program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs/explain"), help="where the runs are kept")
    parser.add_argument("--programs", default="".join(sorted(PROGRAMS)))
    parser.add_argument("--show", action="store_true", help="also print the programs")
    args = parser.parse_args()
    args.runs.mkdir(parents=True, exist_ok=True)
    print("| program | policy's error | lines | agrees with the policy | with the teacher ", end="")
    print("| Karel source: policy | teacher |\n|---|---|---|---|---|---|---|")
    for name in args.programs:
        run = args.runs / name
        if not run.exists():
            hvil("fit", f"karel:{name}", "--demos", "40", "--out", str(run))
        error = hvil("evaluate", str(run), f"karel:{name}", "--traces", "1000", "--no-rollouts")["error"]
        found = hvil("explain", str(run), "--karel")
        cells = [f"{error:.1%}", str(found["lines"])]
        cells += [f"{found[key]:.1%}" for key in ("policy_agreement", "teacher_agreement")]
        cells += [f"{found['karel'][key]:.1%}" for key in ("policy_agreement", "teacher_agreement")]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        if args.show:
            print(f"\n{found['source']}\n{found['karel']['source']}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
