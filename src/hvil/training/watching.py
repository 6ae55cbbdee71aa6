"""A look at a fit while it runs: a page on loopback that shows the report of the run so far, and follows it.

`watching` starts the server in a process of its own, so that the training is disturbed in nothing: it reads what the
fit writes into its directory. The process ends with the fit, however that ends.
"""

import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hvil.gate.errors import InputError
from hvil.gate.files import parse_json

SERVER = "hvil.training.watch_server"


@contextmanager
def watching(out: Path, port: int = 0) -> Iterator[str]:
    """Serve the page while the block runs; yields its address. The secret in it keeps other users of the machine out.

    Args:
        out: the run directory; it need not be there yet.
        port: where to listen; 0 takes any free port.

    Raises:
        InputError: the port cannot be used.
    """
    token = secrets.token_urlsafe(24)
    server = subprocess.Popen(
        [sys.executable, "-m", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        # The token goes by a pipe: everybody can read the arguments of a process.
        server.stdin.write(json.dumps({"out": str(out.resolve()), "port": port, "token": token}) + "\n")
        server.stdin.flush()
        answer = parse_json(server.stdout.readline() or '{"error": "the server did not start"}', "--watch")
        if "error" in answer:
            raise InputError(f"--watch: {answer['error']}")
        yield f"http://127.0.0.1:{answer['port']}/{token}/"
    finally:
        server.stdin.close()  # the server ends when this pipe does, and so also when this process is killed
        server.stdout.close()
        try:
            server.wait(timeout=2)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
