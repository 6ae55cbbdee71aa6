"""Checks the links of a built site, without a network: `python scripts/check_links.py build/site`.

Every link and picture to the site itself must lead to a file, and every `#part` to an element with that name. Links to
other sites are left alone.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

GENERATED = ("genindex.html", "py-modindex.html", "search.html")
"""Pages of Sphinx itself."""


class Page(HTMLParser):
    """The links of a page, and the names of its parts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the element links to and what it is called."""
        for name, value in attrs:
            if name in ("href", "src") and value and tag != "link":
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.names.add(value)


def dead_links(site: Path) -> list[str]:
    """Each dead link, as `page: link`."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    dead = []
    for path, page in pages.items():
        if path.name in GENERATED:
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            lost_part = target in pages and parts.fragment and unquote(parts.fragment) not in pages[target].names
            if not target.is_file() or lost_part:
                dead.append(f"{path.relative_to(site.resolve())}: {link}")
    return dead


if __name__ == "__main__":
    found = dead_links(Path(sys.argv[1]))
    sys.exit("\n".join(["dead links:", *found]) if found else 0)
