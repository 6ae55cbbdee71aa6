"""`hvil completion`: the script that lets a shell complete commands and flags."""

import argparse
from typing import Any

SUMMARY = "Print the completion script of a shell. Load it in the shell's start-up file."
EXAMPLES = [
    "hvil completion bash > ~/.local/share/bash-completion/completions/hvil",
    'hvil completion zsh > "${fpath[1]}/_hvil"',
    "hvil completion tcsh >> ~/.tcshrc",
]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="which shell")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Print the script, made from all commands and flags."""
    # Imports stand in the function for start-up speed: the script is made once.
    import shtab

    from hvil.cli.main import command_parser

    script = shtab.complete(command_parser(), args.shell)
    if not args.json:
        print(script)
    return {"shell": args.shell, "script": script}
