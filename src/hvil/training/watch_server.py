"""The server behind `hvil fit --watch`: `watching` starts it, and says on its standard input what to serve.

It reads the run directory, never the fit's memory. Three addresses answer, all below the secret token: the page, its
`state` as JSON, and the `report`. Everything else is refused, and so is a request that names another host.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hvil.analysis.report.page import asset
from hvil.gate.errors import InputError, one_line
from hvil.gate.files import parse_json, read_json
from hvil.gate.text import in_html
from hvil.training.observers import read_metrics
from hvil.training.run_files import CONFIG, METRICS, MODEL

SECONDS = 0.5
"""Between two looks at the directory."""
EPISODES, ROLL_OUTS = 3, 100
"""What a page of a fit that still runs is made from: few, because it is made again and again."""


class Watcher:
    """What is known of the run so far, and the newest page."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.page = 0
        """How many pages have been made."""
        self.report = ""
        self.problem: str | None = None
        self._seen: tuple[Path, int] | None = None

    def state(self) -> dict[str, Any]:
        """What the page's head shows."""
        place = self.place()
        lines = read_metrics(place / METRICS) if place else []
        last: dict[str, Any] = lines[-1] if lines else {}
        errors = [line["error"] for line in lines if line.get("error") is not None]
        return {
            "update": last.get("update", 0),
            "updates": self._updates(place),
            "restart": int(place.name) if place and place != self.out else None,
            "loss": last.get("loss"),
            "error": errors[-1] if errors else None,
            "page": self.page,
            "problem": self.problem,
        }

    def place(self) -> Path | None:
        """The directory of the run, or of the restart that wrote last; None if there is none yet."""
        if (self.out / CONFIG).is_file():
            return self.out
        written = [path for path in self.out.glob(f"restarts/*/{METRICS}") if (path.parent / CONFIG).is_file()]
        return max(written, key=lambda path: path.stat().st_mtime_ns).parent if written else None

    def look(self) -> None:
        """Make a new page if there are new weights."""
        place = self.place()
        if place is None or not (place / MODEL).is_file():
            return
        seen = (place, (place / MODEL).stat().st_mtime_ns)
        if seen != self._seen:
            self._seen = seen
            try:
                self.report = self._page(place)
                self.page += 1
            except (InputError, OSError) as error:  # a file that is just being replaced: the next look finds it
                self.problem = one_line(error)

    def _page(self, place: Path) -> str:
        # Here for a fast start: the server answers before these are loaded.
        from hvil.training.report import page_so_far  # for start-up speed
        from hvil.training.run import load, stored_data  # for start-up speed

        run = load(place)
        run.data = stored_data(
            place if place == self.out else place.parent,
            run.config,
            run.config.data.source or None,  # the user named it in this very fit
        )
        return page_so_far(run, episodes=EPISODES, roll_outs=ROLL_OUTS).html

    def _updates(self, place: Path | None) -> int:
        try:
            config = read_json(place / CONFIG) if place else {}
            return int(config["training"]["updates"])
        except (ValueError, KeyError, TypeError):
            return 0


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, token: str, watcher: Watcher) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.token, self.watcher = token, watcher
        script = asset("watch.js")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
        self.policy = (
            f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; connect-src 'self'; "
            "frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        )
        parts = {"title": in_html(watcher.out.name), "script": script}
        pieces = asset("watch.html").split("@@")
        self.html = "".join(parts[piece] if index % 2 else piece for index, piece in enumerate(pieces))


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "hvil", ""

    def do_GET(self) -> None:
        """Answer one of the three addresses."""
        _, token, *rest = urlsplit(self.path).path.split("/")
        hosts = {f"{name}:{self.server.server_port}" for name in ("127.0.0.1", "localhost")}
        right = hmac.compare_digest(token.encode(), self.server.token.encode())
        watcher = self.server.watcher
        if not right or self.headers.get("Host") not in hosts:  # another host: a page elsewhere that was led here
            self._answer(404, "text/plain", "not found")
        elif rest == [""]:
            self._answer(200, "text/html", self.server.html, self.server.policy)
        elif rest == ["state"]:
            self._answer(200, "application/json", json.dumps(watcher.state()))
        elif rest == ["report"] and watcher.page:
            self._answer(200, "text/html", watcher.report)  # its own policy is in it
        else:
            self._answer(404, "text/plain", "not found")

    def _answer(self, code: int, kind: str, text: str, policy: str | None = None) -> None:
        content = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        for name, value in (
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("Content-Security-Policy", policy),
        ):
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: standard error belongs to the fit."""


def main() -> None:
    """Serve until standard input ends."""
    wanted = parse_json(sys.stdin.readline(), "the fit")
    watcher = Watcher(Path(wanted["out"]))
    try:
        server = _Server(wanted["port"], wanted["token"], watcher)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or one_line(error)
        print(json.dumps({"error": f"port {wanted['port']} cannot be used ({reason}); choose another with --port"}))
        return
    print(json.dumps({"port": server.server_port}), flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Thread(target=_look_again_and_again, args=(watcher,), daemon=True).start()
    sys.stdin.read()  # ends when the fit does
    os._exit(0)  # at once, also in the middle of a page


def _look_again_and_again(watcher: Watcher) -> None:
    if hasattr(os, "nice"):
        os.nice(5)  # the fit goes first
    while True:
        watcher.look()
        time.sleep(SECONDS)


if __name__ == "__main__":
    main()
