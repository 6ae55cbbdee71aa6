"""A browser for tests. Where Chromium or Playwright is missing they are skipped, unless HVIL_REQUIRE_BROWSER is set."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
REQUIRED = bool(os.environ.get("HVIL_REQUIRE_BROWSER"))
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)


@contextmanager
def launched() -> "Iterator[Browser]":
    """A running browser."""
    if not CHROMIUM:
        _missing("Chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("Playwright")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=120_000)
        yield browser
        browser.close()


def serious_violations(page: "Page") -> list[str]:
    """What axe finds, as far as it is serious."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response
    assert len(found["passes"]) > 10, "axe looked at nothing"
    return [
        f"{violation['id']}: {violation['help']} ({violation['nodes'][0]['html'][:120]})"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
    ]


def _missing(what: str) -> None:
    if REQUIRED:
        pytest.fail(f"{what} is missing, and HVIL_REQUIRE_BROWSER is set")
    pytest.skip(f"{what} is not installed")
