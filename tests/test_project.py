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


@pytest.mark.parametrize("extra", ["minari", "ray", "tensorboard", "dev"])
def test_every_requirement_has_a_lower_bound_and_a_pin(extra: str) -> None:
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = dict(line.lower().split("==") for line in (HOME / "constraints.txt").read_text().split())
    for requirement in project["dependencies"] + project["optional-dependencies"][extra]:
        name, bound = re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", requirement).groups()
        assert name in pins, f"{name} has no pin in constraints.txt"
        assert [int(part) for part in bound.split(".")] <= [int(part) for part in pins[name].split(".")]
