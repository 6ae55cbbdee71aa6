"""`python -m hvil` is the command `hvil`."""

import os
import sys


def main() -> int:
    """Run the command line; an interrupt is one line also while the command line itself is being loaded."""
    # One thread a process, also where nothing is trained: on a busy machine threads that share small matrices wait for
    # each other. Libraries read this when they are loaded; `--threads` can still ask for more.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        from hvil.cli.main import main as command_line  # here, for a fast start and an early interrupt

        return command_line()
    except KeyboardInterrupt:
        sys.stderr.write("hvil: error: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
