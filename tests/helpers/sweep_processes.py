"""Processes for the tests of sweeps that are killed: a Ray cluster of our own, and who is whose child."""

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


def wait_for(condition: Callable[[], object], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def environment(**more: str) -> dict[str, str]:
    """With our source, and one thread."""
    paths = os.pathsep.join([str(SOURCE), str(Path(__file__).parent)])
    return dict(os.environ, PYTHONPATH=paths, OMP_NUM_THREADS="1", RAY_USAGE_STATS_ENABLED="0") | more


def descendants(parents: list[int]) -> dict[int, str]:
    """The processes below some processes, with their command lines."""
    parent_of: dict[int, int] = {}
    commands: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            parent_of[int(entry.name)] = int(entry.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            commands[int(entry.name)] = entry.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # gone meanwhile
            continue
    below, new = set[int](), set(parents)
    while new:
        new = {child for child, parent in parent_of.items() if parent in new} - below
        below |= new
    return {process: commands.get(process, "") for process in below}


@contextmanager
def ray_cluster(directory: Path) -> Iterator[tuple[str, dict[str, str], list[int]]]:
    """A head without processors and two nodes with one each; yields its address, the environment, and the processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # A cluster of several nodes wants a token that all of them, and the driver, know.
    settings = environment(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    settings["RAY_agent_register_timeout_ms"] = "120000"
    address = f"127.0.0.1:{port}"
    program = [str(Path(sys.executable).parent / "ray"), "start", "--block", "--disable-usage-stats"]
    small = ["--object-store-memory", "80000000"]
    head = ["--head", "--port", str(port), "--num-cpus", "0", "--include-dashboard", "false", "--node-ip-address"]
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> None:
        """Start a node and wait for it; Ray itself gives up after some seconds, in which a busy machine may fail."""
        for attempt in range(5):
            path = directory / f"ray-{len(started)}.log"
            with path.open("wb") as log:
                command = [*program, *small, *arguments]
                node = subprocess.Popen(command, env=settings, stdout=log, stderr=log, start_new_session=True)
            started.append(node)
            wait_for(lambda: node.poll() is not None or b"Ray runtime started" in path.read_bytes())  # noqa: B023
            if node.poll() is None:
                return
            assert attempt < 4, path.read_text()

    try:
        start(*head, "127.0.0.1")
        for _ in range(2):
            start("--address", address, "--num-cpus", "1")
        yield address, settings, [process.pid for process in started]
    finally:
        below = descendants([process.pid for process in started])
        for process in [*(process.pid for process in started), *below]:
            try:
                os.kill(process, 9)
            except ProcessLookupError:
                continue
        for process in started:
            process.wait()
        last = Path("/tmp/ray/ray_current_cluster")  # Ray's note of which cluster to join by default
        if last.is_file() and last.read_text().strip().endswith(f":{port}"):
            last.unlink()
