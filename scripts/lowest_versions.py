"""Prints the lowest versions that pyproject.toml allows, as constraints for pip.

`python scripts/lowest_versions.py [EXTRA …]`: of the library, and of some extras. Requirements named after
`--except` are left out, for machines that cannot have their lowest version.
"""

import argparse
import re
import tomllib
from pathlib import Path

HOME = Path(__file__).parents[1]


def lowest(extras: list[str], left_out: list[str]) -> list[str]:
    """One line a requirement."""
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [*project["dependencies"], *(text for extra in extras for text in project["optional-dependencies"][extra])]
    bounds = (re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", text) for text in texts)
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound is not None and bound[1] not in left_out]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extras", nargs="*")
    parser.add_argument("--except", dest="left_out", nargs="*", default=[])
    args = parser.parse_args()
    print("\n".join(lowest(args.extras, args.left_out)))
