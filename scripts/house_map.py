"""Writes the map of the rooms in CONTRIBUTING.md anew, from the docstrings of the packages."""

import ast
from pathlib import Path

HOME = Path(__file__).parents[1]
PACKAGE = HOME / "src" / "hvil"
ROOMS = ("gate", "data", "machine", "domains", "learners", "analysis", "training", "experiments", "cli")
START, END = "<!-- map -->", "<!-- end of map -->"


def row(directory: Path) -> str:
    """One room: its path, the first paragraph of its docstring, its modules."""
    docstring = ast.get_docstring(ast.parse((directory / "__init__.py").read_text(encoding="utf-8"))) or ""
    first = " ".join(docstring.split("\n\n")[0].split())
    modules = ", ".join(f"`{path.name}`" for path in sorted(directory.glob("*.py")) if path.name != "__init__.py")
    return f"| `{directory.relative_to(PACKAGE)}/` | {first} | {modules} |"


def rows() -> list[str]:
    """All rooms in their order, each followed by the rooms inside it."""
    directories = [path.parent for room in ROOMS for path in sorted((PACKAGE / room).rglob("__init__.py"))]
    return [
        row(directory)
        for directory in sorted(directories, key=lambda d: (ROOMS.index(d.relative_to(PACKAGE).parts[0]), d))
    ]


def main() -> None:
    """Replace the table between the two marks."""
    path = HOME / "CONTRIBUTING.md"
    text = path.read_text(encoding="utf-8")
    table = "\n".join(["| room | what it is for | modules |", "|---|---|---|", *rows()])
    before, after = text[: text.index(START)], text[text.index(END) :]
    path.write_text(f"{before}{START}\n\n{table}\n\n{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
