"""Signals of a press, as the tool of its controller exports them: semicolons, decimal commas, an old encoding.

python examples/logs/plc.py logs && hvil fit logs/plc.csv
"""

import random
import sys
from datetime import datetime, timedelta
from pathlib import Path


def write(directory: Path, traces: int = 120, seed: int = 0) -> list[str]:
    """Write the log, and return the arguments with which hvil reads it."""
    rng = random.Random(seed)
    lines = ["cycle;time;plant;pressure_bar;temperature_°C;part;clamped;command"]
    now = datetime(2026, 3, 2, 6, 0)
    for cycle in range(traces):
        part, pressure, clamped, pressed = rng.choice(["A", "B"]), 0.0, 0, False
        goal = 40.0 if part == "A" else 70.0
        while True:
            if pressed:
                command = "vent" if pressure > 1 else "unclamp" if clamped else ""
            else:
                command = "clamp" if not clamped else "pump" if pressure < goal else "hold"
            fields = [cycle, now.strftime("%d.%m.%Y %H:%M:%S"), "Plant 3", f"{pressure:.2f}".replace(".", ",")]
            fields += [f"{rng.gauss(55, 3):.1f}".replace(".", ","), part, clamped, command]
            lines.append(";".join(map(str, fields)))
            now += timedelta(seconds=2)
            if not command:
                break
            clamped = {"clamp": 1, "unclamp": 0}.get(command, clamped)
            pressure = {"pump": pressure + rng.uniform(15, 25), "vent": 0.0}.get(command, pressure)
            pressed = pressed or command == "hold"
    path = directory / "plc.csv"
    path.write_bytes("\r\n".join(lines).encode("cp1252"))
    return [str(path)]


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    print(*write(Path(sys.argv[1])))
