"""What visitors of a shop do, as a web server logs it: a file of JSON lines for each visit, with nested objects.

python examples/logs/clicks.py logs && hvil fit logs/clicks
"""

import json
import random
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any


def write(directory: Path, traces: int = 120, seed: int = 0) -> list[str]:
    """Write the logs, and return the arguments with which hvil reads them."""
    rng = random.Random(seed)
    folder = directory / "clicks"
    folder.mkdir()
    now = datetime(2026, 3, 2, 7, 30, tzinfo=UTC)
    for visit in range(traces):
        lines = []
        for page, cart, event in _visit(rng):
            now += timedelta(seconds=rng.randint(1, 90))
            line: dict[str, Any] = {
                "time": now.isoformat(),
                "user": {"id": f"u{rng.randint(0, 10**9):09d}", "device": "phone" if visit % 3 else "desktop"},
                "page": {"kind": page, "load_ms": rng.choice([None, rng.randint(40, 900)])},
                "cart": {"items": cart, "limit": 9},
                "event": event,
            }
            lines.append(json.dumps(line))
        (folder / f"visit-{visit:04d}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [str(folder)]


def _visit(rng: random.Random) -> list[tuple[str, int, str]]:
    """Search and add until enough is in the cart, then pay and leave: page, cart and event of each row."""
    wanted, rows = rng.randint(1, 3), []
    for item in range(wanted):
        rows += [("home" if not item else "product", item, "search"), ("results", item, "open_product")]
        rows.append(("product", item, "add_to_cart"))
    rows += [("product", wanted, "open_cart"), ("cart", wanted, "pay"), ("receipt", 0, "leave")]
    return rows


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    print(*write(Path(sys.argv[1])))
