"""Promises about the project itself: files that can be read in one sitting, names that can be imported, no pickle."""

import re
import tomllib
from pathlib import Path

import pytest

import hvil

HOME = Path(__file__).parent.parent
SOURCES = [path for room in ("src", "tests", "benchmarks", "scripts") for path in sorted((HOME / room).rglob("*.py"))]


def test_no_file_has_more_than_400_lines() -> None:
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert lengths
    assert [name for name, length in lengths.items() if length > 400] == []


def test_every_public_name_can_be_imported() -> None:
    for name in hvil.__all__:
        assert getattr(hvil, name) is not None
    assert issubclass(hvil.InputError, ValueError)


def test_the_package_never_pickles() -> None:
    for path in SOURCES:
        if "src" in path.parts:
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"^\s*(import|from) (pickle|cloudpickle|dill|joblib)", text, re.MULTILINE), path
            assert "allow_pickle=True" not in text, path
            assert "torch.load" not in text, path


PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))
NOT_INSTALLED = ("all", "trackio", "wandb")
"""Extras that `make setup` leaves out: they are large, and the tests put stand-ins in their place."""


def requirements() -> list[str]:
    """What `make setup` installs."""
    extras = PROJECT["project"]["optional-dependencies"]
    chosen = [entry for name, entries in extras.items() if name not in NOT_INSTALLED for entry in entries]
    groups = [entry for entries in PROJECT["dependency-groups"].values() for entry in entries]
    return PROJECT["project"]["dependencies"] + chosen + groups


@pytest.mark.parametrize("requirement", requirements())
def test_every_requirement_has_a_lower_bound_and_a_pin(requirement: str) -> None:
    pins = dict(line.lower().split("==") for line in (HOME / "constraints.txt").read_text().split())
    name, bound = re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", requirement).groups()
    assert name in pins, f"{name} has no pin in constraints.txt"
    assert [int(part) for part in bound.split(".")] <= [int(part) for part in pins[name].split(".")]


def test_the_extra_all_has_every_extra() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert extras["all"] == [f"hvil[{','.join(sorted(extras.keys() - {'all'}))}]"]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "results/README.md"])
def test_links_of_pages_outside_the_documentation_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", (HOME / page).read_text(encoding="utf-8")):
        if not link.startswith("http"):
            assert (HOME / page).parent.joinpath(link.partition("#")[0]).exists(), link
