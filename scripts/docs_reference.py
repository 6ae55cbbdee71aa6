"""The reference pages of the documentation, made from the code whenever Sphinx starts (`docs/conf.py` calls `write`).

The command line's page shows what `hvil COMMAND --help` prints; the pages of the Python library name the modules whose
docstrings Sphinx's autodoc then reads.
"""

import argparse
from importlib import import_module
from pathlib import Path

import hvil
from hvil.cli.main import command_parser

MODULES = {
    "Data": (
        "hvil.data.traces",
        "hvil.data.annotations",
        "hvil.data.segments",
        "hvil.data.trace_files",
        "hvil.data.inputs",
        "hvil.data.tasks",
        "hvil.data.settings",
    ),
    "The stack machine": ("hvil.machine.callgraph", "hvil.machine.steps", "hvil.machine.reference"),
    "Learners": (
        "hvil.learners.learner",
        "hvil.learners.config",
        "hvil.learners.settings",
        "hvil.learners.objective.elbo",
        "hvil.learners.objective.estimators",
        "hvil.gate.registry",
    ),
    "Training": ("hvil.training.fit", "hvil.training.run", "hvil.training.plan", "hvil.training.inspection"),
    "Analysis": ("hvil.analysis.evaluation", "hvil.analysis.explain.explanation", "hvil.analysis.statistics"),
}
"""The modules of the reference, by the title of their page."""

EXIT_CODES = (
    "Every command has `--json`, which prints one JSON object in place of tables. Its exit code is 0 (done), 1 "
    "(failed) or 2 (bad input, or a wrong flag).\n"
)


def write(directory: Path) -> None:
    """Write the pages; a page that is right already is left alone, so that Sphinx need not read it again."""
    directory.mkdir(exist_ok=True)
    pages = {"cli.md": cli_page(), "api.md": overview()}
    pages |= {f"{_file_name(title)}.md": api_page(title, modules) for title, modules in MODULES.items()}
    for path in directory.glob("*.md"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        path = directory / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def cli_page() -> str:
    """Every command with its help, as `hvil COMMAND --help` prints it, from the same parser."""
    parts = ["# Command line\n", EXIT_CODES]
    (commands,) = (action for action in command_parser()._actions if isinstance(action, argparse._SubParsersAction))
    for name, parser in sorted(commands.choices.items()):
        module = import_module(f"hvil.cli.commands.{name}")
        parser.description = parser.epilog = None  # they stand above the help
        parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=90, max_help_position=28)
        examples = "\n".join(f"$ {example}" for example in module.EXAMPLES)
        parts.append(f"## hvil {name}\n\n{module.SUMMARY}\n")
        parts.append(f"```console\n{examples}\n```\n\n```text\n{parser.format_help()}```\n")
    return "\n".join(parts)


def overview() -> str:
    """What `import hvil` gives, and the way to the pages of the modules."""
    names = "\n".join(
        f"- `hvil.{name}`: {_first_line(name)}" for name in hvil.__all__ if name not in ("__version__", "InputError")
    )
    pages = "\n".join(map(_file_name, MODULES))
    return (
        "# Python\n\n`import hvil` gives the names that most programs need:\n\n"
        f"{names}\n- `hvil.InputError`: {_first_line('InputError')}\n\n"
        f"The pages below document the modules of the package, from data to analysis.\n\n```{{toctree}}\n{pages}\n```\n"
    )


def api_page(title: str, modules: tuple[str, ...]) -> str:
    """One page of modules for autodoc."""
    blocks = (f"## {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n```\n" for name in modules)
    return f"# {title}\n\n" + "\n".join(blocks)


def _first_line(name: str) -> str:
    return (getattr(hvil, name).__doc__ or "").strip().partition("\n")[0]


def _file_name(title: str) -> str:
    return title.lower().replace(" ", "_")
