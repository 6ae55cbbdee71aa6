"""The documentation as a reader meets it: built without a warning, no link dead, readable on a screen and on a phone.

Needs Sphinx; the browser tests need Chromium and Playwright as well.
"""

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from browsing import launched, serious_violations
from scripts.check_links import dead_links

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOME = Path(__file__).parent.parent
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
PAGES = ("index", "own_data", "gallery", "training", "reference/cli", "reference/learners", "notebooks/first_steps")
SECTIONS = sorted((HOME / "docs" / "gallery").glob("*.md"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("myst_nb") is None, reason="the group `docs` is not installed"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make docs` builds."""
    out = tmp_path_factory.mktemp("site")
    options = ["--fail-on-warning", "--keep-going", "--quiet", "-d", str(tmp_path_factory.mktemp("doctrees"))]
    build = [sys.executable, "-m", "sphinx", *options, str(HOME / "docs"), str(out)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and says nothing."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site as a web server on this machine shows it: the search fetches pages, which a browser forbids on disk."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with launched() as browser:
        yield browser


@pytest.fixture(params=list(SIZES))
def page(request: pytest.FixtureRequest, browser: "Browser", address: str) -> "Iterator[Page]":
    """A page of a browser; what it asks of others than the site is an error."""
    width, height = SIZES[request.param]
    context = browser.new_context(viewport={"width": width, "height": height}, base_url=address)
    context.set_default_timeout(60_000)
    page = context.new_page()
    requests: list[str] = []
    problems: list[str] = []
    page.on("request", lambda asked: requests.append(asked.url))
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield page
    context.close()
    assert problems == []
    assert [url for url in requests if not url.startswith((address, "data:"))] == []


def test_no_link_is_dead(site: Path) -> None:
    assert dead_links(site) == []


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious_and_nothing_sticks_out(page: "Page", name: str) -> None:
    page.goto(f"/{name}.html")
    assert serious_violations(page) == []
    wide, room = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= room


def test_search_finds_a_page(page: "Page") -> None:
    page.goto("/search.html?q=restarts")
    page.locator("#search-results li a", has_text="Training").first.wait_for()  # results come in one after another


def test_a_report_of_the_gallery_can_be_stepped_through_in_its_page(page: "Page") -> None:
    page.goto("/gallery.html")
    page.locator("summary").first.click()
    report = page.frame_locator("iframe").first
    report.locator("#forward").click()
    assert "Step 2 of" in (report.locator("#now").text_content() or "")


def test_the_gallery_has_eight_learned_programs_with_their_reports() -> None:
    page = (HOME / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\{include\} gallery/(.+)\.md", page)) == [path.stem for path in SECTIONS]
    assert len(SECTIONS) >= 8
    for path in SECTIONS:
        (program,) = re.findall(r"```\{code-block\} python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
        assert any(isinstance(node, ast.FunctionDef) for node in ast.parse(program).body)
        assert path.with_suffix(".json").is_file()
