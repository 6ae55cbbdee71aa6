"""`python -m hvil` is the command `hvil`."""

import sys


def main() -> int:
    """Run the command line; an interrupt is one line also while the command line itself is being loaded."""
    try:
        from hvil.cli.main import main as command_line  # here, for a fast start and an early interrupt

        return command_line()
    except KeyboardInterrupt:
        sys.stderr.write("hvil: error: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
