"""The reference pages of the documentation site, made from the code when the site is built (a hook of MkDocs)."""

import argparse
import inspect
from importlib import import_module
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import hvil
from hvil.cli.main import COMMANDS

MODULES = (
    "hvil.data.traces",
    "hvil.data.annotations",
    "hvil.data.segments",
    "hvil.data.trace_files",
    "hvil.data.inputs",
    "hvil.machine.callgraph",
    "hvil.learners.config",
    "hvil.training.run",
    "hvil.learners.learner",
    "hvil.analysis.evaluation",
    "hvil.training.inspection",
    "hvil.machine.reference",
    "hvil.learners.objective.elbo",
    "hvil.learners.objective.estimators",
    "hvil.data.tasks",
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for path, text in (("reference/cli.md", cli_page()), ("reference/api.md", api_page())):
        files.append(File.generated(config, path, content=text))
    return files


def cli_page() -> str:
    """Every command with its help, as `hvil COMMAND --help` prints it."""
    parts = ["# Command line\n", "Every command has `--json` and ends with 0 (done), 1 (failed) or 2 (bad input).\n"]
    for name, summary in sorted(COMMANDS.items()):
        module = import_module(f"hvil.cli.commands.{name.replace('-', '_')}")
        parser = argparse.ArgumentParser(
            prog=f"hvil {name}",
            formatter_class=lambda prog: argparse.HelpFormatter(prog, width=110, max_help_position=34),
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
        module.configure(parser)
        examples = "\n".join(module.EXAMPLES)
        parts.append(f"## hvil {name}\n\n*{summary}*\n\n{module.SUMMARY}\n")
        parts.append(f"```console\n{examples}\n```\n\n```\n{parser.format_help()}```\n")
    return "\n".join(parts)


def api_page() -> str:
    """Public classes and functions with their signatures and docstrings."""
    parts = ["# Python\n", "`import hvil` gives: " + ", ".join(f"`{name}`" for name in hvil.__all__) + ".\n"]
    for name in MODULES:
        module = import_module(name)
        parts.append(f"## {name}\n\n{inspect.getdoc(module)}\n")
        for label, member in vars(module).items():
            public = not label.startswith("_") and getattr(member, "__module__", None) == name
            if public and (inspect.isclass(member) or inspect.isfunction(member)):
                parts.append(_entry(label, member))
    return "\n".join(parts)


def _entry(label: str, member: Any) -> str:
    text = f"### {label}\n\n{_signature(label, member)}{_doc(member)}\n"
    if inspect.isclass(member):
        for name, method in vars(member).items():
            inner = method.__func__ if isinstance(method, staticmethod | classmethod) else method
            if not name.startswith("_") and inspect.isfunction(inner):
                text += f"\n{_signature(f'{label}.{name}', inner)}{_doc(inner)}\n"
            elif not name.startswith("_") and isinstance(method, property):
                text += f"\n`{label}.{name}`: {inspect.getdoc(method) or ''}\n"
    return text


def _signature(label: str, member: Any) -> str:
    try:
        return f"```python\n{label}{inspect.signature(member)}\n```\n\n"
    except (ValueError, TypeError):
        return ""


def _doc(member: Any) -> str:
    """The docstring as it stands: its sections are indented, so that they are kept as they are."""
    found = inspect.getdoc(member) or ""
    first, _, rest = found.partition("\n")
    body = f"\n\n```\n{rest.strip(chr(10))}\n```" if rest.strip() else ""
    return f"{first}{body}\n"
