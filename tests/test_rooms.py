"""The house: rooms in one order, each with a sign on its door, and a map that shows them all."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]
PACKAGE = HOME / "src" / "hvil"

ORDER = (
    "gate",
    *(
        f"data.{name}"
        for name in (
            *("streams", "settings", "file_names", "reading", "ragged", "arrays", "annotations", "traces"),
            *("segments", "inputs", "matching", "tasks"),
        )
    ),
    "data.formats",
    "data",
    "machine",
    "domains",
    *(f"learners.{name}" for name in ("settings", "registry", "config", "learner")),
    "learners.networks",
    "learners.objective",
    "learners.exact",
    "learners",
    "analysis",
    "analysis.explain",
    "analysis.report",
    "training",
    "experiments.engine",
    "experiments",
    "cli",
)
"""The rooms in their order: a module imports only from its own room and from rooms before it. Where a room's own plain
modules are the ground for rooms inside it, they stand before those."""

ENTRIES = 12
"""What src/hvil may hold at most: a newcomer should see everything at a glance."""


def modules() -> list[Path]:
    """Every module of the package; templates are text that commands fill in."""
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent.name != "templates")


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str | None:
    """The innermost room of a module; None for `hvil` itself, which opens every door on request."""
    rooms = [room for room in ORDER if module == room or module.startswith(f"{room}.")]
    return max(rooms, key=len, default=None)


def imports(path: Path) -> Iterator[tuple[str, int, bool]]:
    """Each module of ours that a file imports, with the line, and whether the import stands inside a function."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {id(child) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for child in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "hvil":
            yield node.module.removeprefix("hvil").removeprefix("."), node.lineno, id(node) in inside
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("hvil."):
                    yield alias.name.removeprefix("hvil."), node.lineno, id(node) in inside


def test_every_module_is_in_a_room() -> None:
    outside = [name_of(path) for path in modules() if room_of(name_of(path)) is None]
    assert outside == ["", "__main__"]


def test_a_room_imports_only_from_rooms_before_it() -> None:
    wrong = []
    for path in modules():
        room = room_of(name_of(path))
        for module, line, _ in imports(path):
            other = room_of(module)
            if room is None or other is None:
                continue
            if ORDER.index(other) > ORDER.index(room):
                wrong.append(f"{path.relative_to(PACKAGE)}:{line} ({room}) imports {module} ({other})")
    assert wrong == []


def test_the_hall_holds_few_things() -> None:
    entries = [path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= ENTRIES, sorted(entries)


def test_every_room_says_what_it_is_for() -> None:
    for path in PACKAGE.rglob("__init__.py"):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert docstring, f"{path} has no docstring"
        assert len(docstring) > 40, f"{path} says too little: {docstring}"


def test_an_import_inside_a_function_says_that_it_is_for_speed() -> None:
    """Commands import inside `run`, as their package says; everywhere else a comment says why."""
    silent = []
    for path in modules():
        lines = path.read_text(encoding="utf-8").splitlines()
        for module, line, inside in imports(path):
            if (
                inside
                and "cli" not in path.parts
                and not re.search(r"start-up|fast start", lines[line - 1] + lines[line - 2])
            ):
                silent.append(f"{path.relative_to(PACKAGE)}:{line} imports {module}")
    assert silent == []


def test_the_map_shows_every_room_and_module() -> None:
    text = (HOME / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text[text.index("<!-- map -->") : text.index("<!-- end of map -->")]
    shown = set()
    for room, names in re.findall(r"^\| `([\w./]+)/` \|.*\| ([^|]*) \|$", table, re.MULTILINE):
        shown |= {(PACKAGE / room / name).resolve() for name in re.findall(r"`(\w+\.py)`", names)}
    expected = {path.resolve() for path in modules() if path.name not in ("__init__.py", "__main__.py")}
    assert sorted(shown - expected) == [], "on the map, but not in the house"
    assert sorted(expected - shown) == [], "in the house, but not on the map"


@pytest.mark.parametrize("word", ["END", "ModelSettings", "READ_BY_BASELINES", "can_fuse", "observation_offsets"])
def test_names_that_were_given_up_do_not_come_back(word: str) -> None:
    for path in modules():
        assert not re.search(rf"\b{word}\b", path.read_text(encoding="utf-8")), f"{path} says {word}"
