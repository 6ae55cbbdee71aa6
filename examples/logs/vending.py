"""The log of a vending machine, as its maker exports it: text, gaps, a time in every row, and numbers that name rows.

python examples/logs/vending.py logs && hvil fit logs/vending.csv
"""

import csv
import random
import sys
from datetime import datetime, timedelta
from pathlib import Path

PRICES = {"water": 1.0, "cola": 1.5, "crisps": 2.0, "tea": 1.5}


def write(directory: Path, traces: int = 150, seed: int = 0) -> list[str]:
    """Write the log, and return the arguments with which hvil reads it."""
    rng = random.Random(seed)
    path = directory / "vending.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        log = csv.writer(stream)
        log.writerow(
            ["row", "session_id", "timestamp", "machine", "product", "credit", "price", "temp_c", "door_open", "action"]
        )
        row, now = 0, datetime(2026, 3, 2, 7, 30)
        for session in range(traces):
            now += timedelta(minutes=rng.randint(1, 40))
            product, credit, dispensed, action = "", 0.0, False, "show_menu"
            while True:
                # The thermometer fails now and then, and nothing is chosen before the menu is shown.
                temperature = "" if rng.random() < 0.15 else round(rng.gauss(4, 0.4), 1)
                price = PRICES[product] if product else ""
                opened = "true" if dispensed else "false"
                where = [row, f"S-{session:05d}", now.isoformat(" "), "VM-0007"]
                log.writerow([*where, product, f"{credit:.2f}", price, temperature, opened, action])
                row, now = row + 1, now + timedelta(seconds=rng.randint(1, 15))
                if not action:
                    break
                if action == "show_menu":
                    product = rng.choice(sorted(PRICES))
                elif action == "ask_coin":
                    credit += rng.choice([0.5, 1.0])
                elif action == "dispense":
                    credit, dispensed = credit - PRICES[product], True
                elif action == "give_change":
                    credit = 0.0
                action = _next(product, credit, dispensed)
    return [str(path)]


def _next(product: str, credit: float, dispensed: bool) -> str:
    if dispensed:
        return "give_change" if credit > 0 else ""
    return "dispense" if credit >= PRICES[product] else "ask_coin"


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    print(*write(Path(sys.argv[1])))
