"""One self-contained HTML file from the assets of this package and the report's contents.

Nothing is loaded from elsewhere: a content security policy forbids it, and allows no script but our own, by its hash.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from hvil.gate.text import in_html

SCRIPTS = ("base.js", "machine.js", "timeline.js", "player.js", "graph.js", "curves.js", "main.js")


def page(content: Mapping[str, Any]) -> str:
    """The HTML text."""
    script = "'use strict';\n(() => {\n" + "".join(asset(name) for name in SCRIPTS) + "})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    parts = {
        "policy": f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        "title": in_html(content["title"]),
        "style": asset("report.css"),
        "data": embedded(content),
        "script": script,
    }
    # The template is split before anything is filled in, so a `@@` inside a part is not taken for a placeholder.
    pieces = asset("report.html").split("@@")
    return "".join(parts[piece] if index % 2 else piece for index, piece in enumerate(pieces))


def embedded(content: Mapping[str, Any]) -> str:
    """JSON that can stand inside a script element: no `<` in it can end or open one."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def asset(name: str) -> str:
    """A file of this package."""
    return (files("hvil.analysis.report") / "assets" / name).read_text(encoding="utf-8")
