"""`hvil doctor`: what an installation has, and what to do about what it lacks."""

import argparse
import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

SUMMARY = (
    "Check the installation: Python and libraries, extras, cache, device, threads, browser. "
    "It ends with 1 if something is there that hvil cannot work with."
)
EXAMPLES = ["hvil doctor", "hvil doctor --json"]
FAILED = "{} of the checks failed; the table says what to do"

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "firefox", "xdg-open", "open")
"""What may show a report, by the name of the program."""


class Check(NamedTuple):
    """What was looked at, what was found, and what to do about it."""

    name: str
    found: str
    remedy: str = ""
    """Empty if all is well."""
    fails: bool = False
    """Whether hvil cannot work so; else it is a matter of taste, such as an extra that is not installed."""


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Look at everything, and say it."""
    found = list(checks())
    if not args.json:
        from rich.table import Table

        from hvil.gate.text import console

        table = Table("", "found", "what to do")
        for check in found:
            table.add_row(check.name, check.found, check.remedy or "–")
        console().print(table)
    return {
        "checks": {check.name: {"found": check.found, "remedy": check.remedy} for check in found},
        "failures": [check.name for check in found if check.fails],
    }


def checks() -> Iterator[Check]:
    """Every check, the most basic ones first."""
    import hvil
    from hvil.gate.files import cache_directory

    yield Check("hvil", f"{hvil.__version__} in {Path(hvil.__file__).parent}")
    yield Check("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield from _libraries()
    yield _writable("cache", cache_directory(), "set XDG_CACHE_HOME to a directory that you may write to")
    yield _compiled_code()
    yield _writable("working directory", Path.cwd(), "change to a directory that you may write to, or give --out")
    yield from _processors()
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    yield Check("browser", browser or "none", "" if browser else "copy report.html to a machine with a browser")


def _libraries() -> Iterator[Check]:
    """Required libraries with the version they need at least; then the extras."""
    from packaging.requirements import Requirement

    required, extras = [], []
    for text in importlib.metadata.requires("hvil") or []:
        requirement = Requirement(text)
        if requirement.name == "hvil":  # the extra `all` names the others
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            required.append(requirement)
        else:
            extras.append(requirement)
    for requirement in required:
        version = _version(requirement.name)
        fits = version is not None and requirement.specifier.contains(version, prereleases=True)
        remedy = "" if fits else f"pip install '{requirement.name}{requirement.specifier}'"
        yield Check(requirement.name, version or "not installed", remedy, fails=not fits)
    for requirement in extras:
        version = _version(requirement.name)
        extra = next(name for name in _extras() if requirement.marker and requirement.marker.evaluate({"extra": name}))
        remedy = "" if version else f"if you need it: pip install 'hvil[{extra}]'"
        yield Check(f"extra {extra}", f"{requirement.name} {version}" if version else "not installed", remedy)


def _extras() -> list[str]:
    return importlib.metadata.metadata("hvil").get_all("Provides-Extra") or []


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _writable(name: str, directory: Path, remedy: str) -> Check:
    """Whether a file can be made in a directory, or in the first directory above it that exists."""
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            return Check(name, str(directory))
    except OSError as error:
        return Check(name, f"{directory}: cannot write there ({error.strerror})", remedy, fails=True)


def _compiled_code() -> Check:
    """Where numba keeps compiled code: beside the sources, else in its own cache directory."""
    import hvil

    beside = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(hvil.__file__).parent)
    check = _writable("compiled code", beside, "set NUMBA_CACHE_DIR to a directory that you may write to")
    # numba then takes the user's cache directory: nothing fails.
    return check._replace(fails=False)


def _processors() -> Iterator[Check]:
    import torch

    cuda = torch.cuda.is_available()
    yield Check("device", f"cuda: {torch.cuda.get_device_name()}" if cuda else "cpu (the fast case, but for ConvNets)")
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    yield Check("threads", f"{usable} processors; one thread a process (--threads), restarts on all (--workers)")
