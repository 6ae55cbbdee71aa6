"""A stand-in for the Hub on loopback: repositories in memory, behind the part of its HTTP interface that hvil uses."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_" + "a" * 34
COMMIT = "c" * 40


class HubServer(ThreadingHTTPServer):
    """Repositories by name, each with its files."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: set[str] = set()
        self.unknown: list[str] = []
        """Requests that this stand-in does not understand."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: HubServer

    def do_POST(self) -> None:
        path, body = urlsplit(self.path).path, self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._json({"error": "Invalid username or password."}, 401)
        if path == "/api/repos/create":
            wanted = json.loads(body)
            name = f"{wanted['organization']}/{wanted['name']}" if wanted.get("organization") else wanted["name"]
            self.server.repositories.setdefault(name, {})
            if wanted.get("private") or wanted.get("visibility") == "private":
                self.server.private.add(name)
            return self._json({"url": f"{self.server.address}/{name}", "name": name, "id": name})
        if path == "/api/validate-yaml":
            return self._json({"errors": [], "warnings": []})
        if "/preupload/" in path:
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            return self._json({"files": files})
        if "/commit/" in path:
            name = path.removeprefix("/api/models/").partition("/commit/")[0]
            for line in map(json.loads, body.decode().splitlines()):
                if line["key"] == "file":
                    content = base64.b64decode(line["value"]["content"])
                    self.server.repositories[name][line["value"]["path"]] = content
            address = f"{self.server.address}/{name}/commit/{COMMIT}"
            return self._json({"success": True, "commitOid": COMMIT, "commitUrl": address, "hookOutput": ""})
        return self._unknown()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if path == "/api/agent-harnesses":  # asked by the library itself, of no concern to hvil
            return self._json({})
        if path.startswith("/api/models/"):
            name, _, rest = path.removeprefix("/api/models/").partition("/revision/")
            name, _, tree = name.partition("/tree/")
            if name not in self.server.repositories:
                return self._json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
            files = self.server.repositories[name]
            if tree:
                entries = [_entry(file, content) for file, content in files.items()]
                return self._json(entries)
            if rest or path.endswith(name):
                siblings = [{"rfilename": file} for file in files]
                return self._json({"id": name, "sha": COMMIT, "siblings": siblings, "private": False, "tags": []})
        name, _, rest = path.strip("/").partition("/resolve/")
        content = self.server.repositories.get(name, {}).get(rest.partition("/")[2])
        if content is None:
            return self._unknown()
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{_oid(content)}"', "Accept-Ranges": "bytes"}
        return self._answer(content, 200, headers)

    do_HEAD = do_GET

    def _unknown(self) -> None:
        self.server.unknown.append(f"{self.command} {self.path}")
        self._json({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})

    def _json(self, value: Any, code: int = 200, headers: dict[str, str] | None = None) -> None:
        self._answer(json.dumps(value).encode(), code, {"Content-Type": "application/json", **(headers or {})})

    def _answer(self, content: bytes, code: int, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        """Silence."""


def _oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _entry(file: str, content: bytes) -> dict[str, Any]:
    return {"type": "file", "path": file, "size": len(content), "oid": _oid(content)}


@contextmanager
def hub_server() -> Iterator[HubServer]:
    """A running stand-in."""
    server = HubServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
