"""`hvil fit --watch` in a browser: the page follows the fit, asks nobody else, and ends with it."""

import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsing import launched, serious_violations

import hvil
from hvil.cli.main import main
from hvil.training import watching as watching_module
from hvil.training.watching import watching

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SMALL: dict[str, Any] = {"hidden": 4, "context": 4, "restarts": 1, "exact_start": 0, "demos": 6, "test_traces": 10}
PATIENCE = 240
"""Seconds: a busy machine takes long to load the libraries."""


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with launched() as browser:
        yield browser


def soon(true: Callable[[], bool], pause: Callable[[], Any] = lambda: time.sleep(0.2)) -> None:
    """Wait until something is true."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it did not come true"
        pause()


def status(address: str, **headers: str) -> int:
    try:
        return int(urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=30).status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_page_follows_the_fit_and_ends_with_it(browser: "Browser", tmp_path: Path) -> None:
    out = tmp_path / "<b>run"
    with watching(out) as address:
        page = browser.new_page(viewport={"width": 390, "height": 844})
        requests: list[str] = []
        problems: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(address)

        def shows(update: int) -> bool:
            return f"update {update} of" in (page.locator("#status").text_content() or "")

        def report() -> str:
            frames = [frame for frame in page.frames if "/report?" in frame.url]
            return (frames[0].locator("#summary").text_content(timeout=PATIENCE * 1000) or "") if frames else ""

        pause = lambda: page.wait_for_timeout(200)  # noqa: E731
        assert page.locator("h1").text_content() == "<b>run"
        assert page.locator("#waiting").is_visible()
        hvil.fit("thereandback", out=out, updates=2, **SMALL)
        soon(lambda: "2 updates" in report(), pause)
        assert shows(2)
        assert serious_violations(page) == []
        hvil.fit("thereandback", out=out, updates=4, resume=True, **SMALL)
        soon(lambda: "4 updates" in report(), pause)
        assert shows(4)
        assert problems == []
        assert [url for url in requests if not url.startswith((address, "data:"))] == []
        wide, room = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= room

        home = address.rstrip("/").rpartition("/")[0]
        assert status(address) == 200
        assert status(home + "/") == status(home + "/wrong/") == status(address + "../config.json") == 404
        assert status(address, Host="evil.example") == 404, "a page elsewhere whose name was led to this machine"
        assert not (out / "explanation.json").exists(), "looking leaves nothing behind"
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=10)
    soon(lambda: "the fit is over" in (page.locator("#status").text_content() or ""), pause)
    page.close()


def test_the_command_prints_an_address_on_loopback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [part for name, value in SMALL.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    fit = ["fit", "thereandback", *flags, "--updates", "1", "--json"]
    assert main([*fit, "--watch", "--out", str(tmp_path / "watched")]) == 0
    assert re.search(r"^watch it at http://127\.0\.0\.1:\d+/[\w-]{32}/$", capsys.readouterr().err, re.MULTILINE)
    assert main([*fit, "--out", str(tmp_path / "alone")]) == 0
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("watched", "alone")]
    assert weights[0] == weights[1]


def test_a_taken_port_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["fit", "thereandback", "--watch", "--port", str(port), "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"hvil fit: error: --watch: port {port} cannot be used (")
    assert error.endswith("choose another with --port\n")
    assert not (tmp_path / "run").exists()


def test_the_server_ends_when_the_fit_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[str]] = []
    popen = subprocess.Popen

    def note(*arguments: Any, **options: Any) -> Any:
        started.append(popen(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(watching_module.subprocess, "Popen", note)
    with watching(tmp_path / "run"):
        (server,) = started
        assert server.stdin is not None
        server.stdin.close()  # what a killed process leaves behind: a closed pipe
        assert server.wait(timeout=PATIENCE) == 0
